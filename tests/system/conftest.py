"""A translator that reverses words, trained once for all tests of the commands: a few seconds."""

import random
from pathlib import Path

import pytest

import regard

WORDS = ["red", "blue", "green", "one", "two", "three", "cat", "dog", "bird", "tree"]


def reversed_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    rows = [[draw.choice(WORDS) for _ in range(draw.randint(2, 5))] for _ in range(count)]
    return [(" ".join(row), " ".join(reversed(row))) for row in rows]


def write_pairs(folder: Path, name: str, pairs: list[tuple[str, str]]) -> dict[str, str]:
    paths = {side: folder / f"{name}.{side}" for side in ("source", "target")}
    for side, path in enumerate(paths.values()):
        path.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return {side: str(path) for side, path in paths.items()}


@pytest.fixture(scope="session")
def recipe(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("text")
    return {
        "data": {
            "train": write_pairs(folder, "train", reversed_pairs(2000, 1)),
            "validation": write_pairs(folder, "validation", reversed_pairs(100, 2)),
            "tokenizer": {"kind": "word", "vocab_size": 100},
        },
        "model": {
            "name": "seq2seq",
            "options": {"d_embedding": 32, "d_hidden": 32, "dropout": 0.0, "attention": "bahdanau"},
        },
        "training": {
            "max_steps": 260, "tokens_per_batch": 512, "lr": 1e-2, "warmup": 20, "label_smoothing": 0.0, "clip": 1.0,
            "validate_every": 65, "metric": "bleu", "average": 2,
        },
    }  # fmt: skip


@pytest.fixture(scope="session")
def trained(recipe, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("model") / "reverse"
    regard.train(recipe, out, quiet=True)
    return out


from tests.system.small_models import bert, bert_tokenizer, gpt2, vit  # noqa: E402, F401 (fixtures)
