"""Perplexity past the trained length: rotary positions, plain and scaled in four ways, on real weights.

    python benchmarks/rope_scaling.py PATH/llama2.data [--windows 12]

stories15M was trained on 256 tokens. Each row reads windows of 1, 2 and 4 times that length and scores every token of
them. Two texts: stories that the model itself tells (sampled at temperature 1 with a fixed seed, one after the other),
which are its own kind of text, and English sentences of Tatoeba (REGARD_DATA), which are not. Scaling uses the factor
that the length asks for, YaRN and Llama 3's way the turns of their papers; nothing is trained.
"""

from __future__ import annotations

import argparse
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


def perplexity(model: Any, ids: torch.Tensor, length: int, windows: int) -> float:
    losses = []
    with torch.inference_mode():
        for start in range(0, windows * length, length):
            part = ids[start : start + length + 1]
            if len(part) < length + 1:
                break
            losses.append(F.cross_entropy(model(part[None, :-1]).logits[0], part[1:]).item())
    return math.exp(sum(losses) / len(losses))


def stories(model: Any, tokens: int) -> torch.Tensor:
    """The model's own stories, each begun by its mark."""
    told = model.generate([""] * (tokens // 150 + 8), max_tokens=TRAINED - 1, temperature=1.0, seed=1)
    ids = [token for one in told for token in [1, *one.tokens]]
    return torch.tensor(ids[: tokens + 1])


def sentences(model: Any, tokens: int) -> torch.Tensor | None:
    place = Path(os.environ.get("REGARD_DATA", "../shared/data")) / "tatoeba"
    files = sorted(place.glob("*en-de*")) or sorted(place.glob("*de*"))
    if not files:
        return None
    lines: list[str] = []
    for line in read_lines(files[0]):
        lines.append(line.split("\t")[0])
        if len(lines) * 5 > tokens:
            break
    return torch.tensor(model.prompt_ids(" ".join(lines[-tokens // 5 :]))[: tokens + 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("--windows", type=int, default=12, help="of the longest length")
    arguments = parser.parse_args()
    model = api.load(arguments.checkpoint)
    tokens = arguments.windows * TRAINED * FACTORS[-1]
    texts = {"its own stories": stories(model, tokens), "Tatoeba sentences": sentences(model, tokens)}
    for name, ids in texts.items():
        if ids is None:
            continue
        print(f"\n{name}, {len(ids):,} tokens\n\n| positions | 256 | 512 | 1024 |\n|---|---|---|---|")
        for kind in KINDS:
            cells = []
            for factor in FACTORS:
                net = scaled(model.stored, kind, factor)
                length = TRAINED * factor
                cells.append(f"{perplexity(net, ids, length, len(ids) // length):.2f}")
            print(f"| {kind if kind != 'none' else 'plain'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
