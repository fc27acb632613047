"""Perplexity past the trained length: rotary positions, plain and scaled in four ways, on real weights.

    python benchmarks/rope_scaling.py PATH/llama2.data [--windows 12]

stories15M was trained on 256 tokens. Each row reads windows of 1, 2 and 4 times that length, of the same tokens, and
scores every token. Two texts (both 12 × 1,024 tokens by default):

long reviews     the beginnings of film reviews of IMDB's test set that are long enough (REGARD_DATA): real text that
                 goes on about one thing, but far from what the model was trained on
its own stories  what the model itself tells (temperature 1, a fixed seed), at most 255 tokens each and joined. Nothing
                 in it needs a long context: a story says nothing about the one before. It shows what a scheme breaks,
                 not whether the model makes use of what it read more than 256 tokens ago.

Scaling uses the factor that the length asks for, YaRN and Llama 3's way the turns of their papers; nothing is trained.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from regard import api, store
from regard.core.lines import read_lines
from regard.models import config_of, make_model
from regard.pipelines import make_pipeline

TRAINED = 256
FACTORS = (1, 2, 4)
KINDS: dict[str, dict[str, Any]] = {
    "none": {},
    "linear": {},
    "ntk": {},
    "llama3": {"trained_len": TRAINED, "few_turns": 1.0, "many_turns": 4.0},
    "yarn": {"trained_len": TRAINED, "few_turns": 1.0, "many_turns": 32.0},
}


def scaled(stored: store.StoredModel, kind: str, factor: float) -> Any:
    """The same weights under other positions."""
    options = {**stored.config.model_dump(), **KINDS[kind], "scaling": kind, "factor": float(factor)}
    config = config_of("llama", options)
    model = make_model("llama", config)
    model.load_state_dict(stored.model.state_dict())
    return make_pipeline(replace(stored, config=config, model=model)).model


def perplexity(model: Any, rows: torch.Tensor, length: int) -> float:
    """Of every token of the rows but the first of each, read in windows of `length` that do not overlap."""
    losses = []
    with torch.inference_mode():
        for start in range(0, rows.shape[1] - 1, length):
            part = rows[:, start : start + length + 1]
            losses += [F.cross_entropy(model(row[None, :-1]).logits[0], row[1:]).item() for row in part]
    return math.exp(sum(losses) / len(losses))


def stories(model: Any, count: int, size: int) -> torch.Tensor:
    """The model's own stories, each begun by its special token, one after the other in rows of `size` tokens."""
    told = model.generate([""] * (count * size // 150 + 8), max_tokens=TRAINED - 1, temperature=1.0, seed=1)
    ids = [token for story in told for token in [1, *story.tokens]]
    return torch.tensor(ids[: count * size]).view(count, size)


def reviews(model: Any, count: int, size: int) -> torch.Tensor | None:
    """The first `size` tokens of the first reviews that have so many; None without the data."""
    file = Path(os.environ.get("REGARD_DATA", "../shared/data")) / "imdb" / "test_subset.jsonl.xz"
    if not file.is_file():
        return None
    rows: list[list[int]] = []
    for line in read_lines(file):
        text = json.loads(line)["text"].replace("<br />", " ")
        if len(text) > 3 * size and len(ids := model.prompt_ids(text)) >= size:
            rows.append(ids[:size])
        if len(rows) == count:
            break
    return torch.tensor(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--windows", type=int, default=12, help="of 1,024 tokens")
    arguments = parser.parse_args()
    model = api.load(arguments.checkpoint)
    size = TRAINED * FACTORS[-1] + 1
    texts = {
        "long reviews": reviews(model, arguments.windows, size),
        "its own stories": stories(model, arguments.windows, size),
    }
    for name, rows in texts.items():
        if rows is None:
            print("\nREGARD_DATA has no imdb: no long reviews")
            continue
        head = f"{name}, {rows.numel():,} tokens in {len(rows)} rows"
        print(f"\n{head}\n\n| positions | 256 | 512 | 1024 |\n|---|---|---|---|", flush=True)
        for kind in KINDS:
            cells = []
            for factor in FACTORS:
                net = scaled(model.stored, kind, factor)
                cells.append(f"{perplexity(net, rows, TRAINED * factor):.2f}")
            print(f"| {kind if kind != 'none' else 'plain'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
