"""The alignment-score table: one seq2seq, every score and window, the same data and budget.

    python benchmarks/alignment_scores.py --out out/scores [--updates 600] [--only general-global ...]

Luong's decoder with input feeding on Multi30k German → English; only the score, the window or the chooser changes. BLEU
is of the test set with beam 5. Sharpness is of the reference translations of the validation set: the mean over target
tokens of the largest weight, and of the entropy in bits. Each variant is a run of its own that goes on where it
stopped, so the table can be filled over several sittings; it is written to docs/alignment_scores.md from what is
finished.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import regard
from regard import api
from regard.api import Translator

VARIANTS: dict[str, dict[str, Any]] = {
    **{
        f"{score}-{reach}": {"score": score, "reach": reach}
        for score in ("additive", "general", "dot", "scaled_dot", "cosine", "location")
        for reach in ("global", "local_m", "local_p")
    },
    "general-global-sparsemax": {"score": "general", "chooser": "sparsemax"},
    "general-global-entmax15": {"score": "general", "chooser": "entmax15"},
    "general-global-hard": {"score": "general", "chooser": "hard"},
    "none": {"attention": "none"},
}

NOTES = """One seed and a small budget (about two epochs; a run takes two to three minutes on one core), so differences
of a point or two mean little. Weights of `local_p` are multiplied by a Gaussian after the softmax, as Luong has it, and
do not sum to one: their largest weight and entropy cannot be compared with those of the others."""


def recipe(data: Path, options: dict[str, Any], updates: int) -> dict[str, Any]:
    def files(name: str) -> dict[str, str]:
        return {side: str(data / f"{name}.{tongue}.gz") for side, tongue in (("source", "de"), ("target", "en"))}

    shape = {"d_embedding": 128, "d_hidden": 128, "dropout": 0.1, "attention": "luong"}
    return {
        "data": {
            "train": files("train"),
            "validation": files("val"),
            "tokenizer": {"kind": "bpe", "vocab_size": 2000},
            "max_tokens": 128,
        },
        "model": {"name": "seq2seq", "options": {**shape, **options}},
        "training": {
            "max_steps": updates, "tokens_per_batch": 2048, "lr": 3e-3, "schedule": "cosine", "warmup": 100,
            "betas": [0.9, 0.999], "eps": 1e-8, "clip": 1.0, "label_smoothing": 0.0,
            "validate_every": max(1, updates // 2),
        },
    }  # fmt: skip


def sharpness(model: Translator, source: list[str], target: list[str]) -> tuple[float, float]:
    """Mean largest weight and mean entropy (bits) of the looks at the source, over target tokens."""
    largest, entropy, count = 0.0, 0.0, 0
    for one, other in zip(source, target, strict=True):
        weights = torch.tensor(model.align(one, other, pieces=True).sites["align"][0])
        largest += weights.amax(-1).sum().item()
        entropy -= torch.special.xlogy(weights, weights).sum().item() / torch.log(torch.tensor(2.0)).item()
        count += len(weights)
    return largest / count, entropy / count


def measure(name: str, data: Path, out: Path, updates: int) -> dict[str, Any]:
    started = time.monotonic()
    model = regard.train(recipe(data, VARIANTS[name], updates), out / name)
    seconds = time.monotonic() - started
    text = {side: api.read_text(data / f"test_2016_flickr.{side}.gz") for side in ("de", "en")}
    held = {side: api.read_text(data / f"val.{side}.gz")[:300] for side in ("de", "en")}
    scores, _ = api.evaluate(model, text["de"], text["en"], beam=5)
    looks = VARIANTS[name].get("attention") != "none"
    largest, entropy = sharpness(model, held["de"], held["en"]) if looks else (float("nan"), float("nan"))
    return {"bleu": scores.bleu, "largest": largest, "entropy": entropy, "seconds": seconds, "updates": updates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/scores"))
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), help="these variants")
    arguments = parser.parse_args()
    if "REGARD_DATA" not in os.environ:
        sys.exit("Set REGARD_DATA to the folder that holds multi30k.")
    data = Path(os.environ["REGARD_DATA"]) / "multi30k"
    for name in arguments.only or VARIANTS:
        done = arguments.out / name / "measured.json"
        if not done.exists():
            found = measure(name, data, arguments.out, arguments.updates)
            done.write_text(json.dumps(found))
            print(name, found, flush=True)
    lines = ["| variant | BLEU | largest weight | entropy (bits) | updates |", "|---|---|---|---|---|"]
    for name in VARIANTS:
        done = arguments.out / name / "measured.json"
        if done.exists():
            row = json.loads(done.read_text())
            lines.append("| {} | {bleu:.1f} | {largest:.2f} | {entropy:.2f} | {updates} |".format(name, **row))
    lines = [line.replace("nan", "–") for line in lines]
    head = "# Alignment scores\n\n" + __doc__.strip() + "\n\n" + NOTES + "\n\n"
    (Path(__file__).parents[1] / "docs" / "alignment_scores.md").write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
