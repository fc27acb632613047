"""Sequences to be reversed, for the steps on alignment: the source word that each target word needs is known."""

from __future__ import annotations

import random
from typing import Any

from regard.pipelines.translation import TranslationPipeline
from regard.story import Stage

SYMBOLS = tuple("abcdefghijklmnopqrst")
SHORTEST, LONGEST = 2, 16
Pair = tuple[list[str], list[str]]


def reversals(count: int, seed: int, longest: int = LONGEST) -> list[Pair]:
    """Random symbols and the same symbols backwards, all lengths equally often; the same for the same seed."""
    dice = random.Random(seed)
    sources = [[dice.choice(SYMBOLS) for _ in range(dice.randint(SHORTEST, longest))] for _ in range(count)]
    return [(source, source[::-1]) for source in sources]


def train_reverser(
    stage: Stage, name: str, model: dict[str, Any], training: dict[str, Any], longest: int = LONGEST
) -> TranslationPipeline:
    """Train a model on 8,000 reversals. `training` has the seed, the number of updates, and other settings."""
    lines = [f"{' '.join(source)}\t{' '.join(target)}" for source, target in reversals(8000, 1, longest)]
    tokenizer = {"kind": "space", "vocab_size": 100}
    data = {"train": {"tsv": stage.write_lines("train.tsv", lines)}, "tokenizer": tokenizer}
    usual = {"tokens_per_batch": 512, "schedule": "cosine", "warmup": 50, "betas": [0.9, 0.99], "eps": 1e-8}
    usual |= {"label_smoothing": 0.0, "clip": 1.0}
    trained = stage.train(name, {"task": "translation", "data": data, "model": model, "training": usual | training})
    assert isinstance(trained, TranslationPipeline)
    return trained


def written(model: TranslationPipeline, pairs: list[Pair]) -> list[list[str]]:
    """What the model writes for each source, word by word."""
    return [line.split() for line in model.translate([" ".join(source) for source, _ in pairs], beam=1)]


def right_words(wanted: list[str], got: list[str]) -> float:
    """The share of wanted words that are at their position."""
    return sum(first == second for first, second in zip(wanted, got, strict=False)) / len(wanted)
