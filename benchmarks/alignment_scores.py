"""The alignment-score table: one seq2seq, every score and window, the same data and budget.

    python benchmarks/alignment_scores.py --out out/scores [--updates 2000] [--seeds 1 2] [--only general-global ...]

Luong's decoder with input feeding on Multi30k German → English; only the score, the window or the chooser changes. BLEU
is of the validation set with beam 5; the test set is not looked at. Sharpness is of its first 300 reference
translations: the mean over target tokens of the largest weight, and of the entropy in bits. Each variant and seed is a
run of its own that resumes, so the table can be filled in several sittings: the page docs/alignment_scores.md is
written from the runs in the folder, and a variant that has none there keeps its row.

The matrix of `general` and the predicted centre of `local_p` have learning rates of their own (`LR_SCALES`). Adam moves
each weight by the whole learning rate, and hundreds of weights add up to one score: without the factor the weights are
all but one-hot within some updates, where sparsemax and sampling pass no gradient on.
"""

from __future__ import annotations

import argparse
import itertools
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
    **{
        f"{score}-local_p-diagonal": {"score": score, "reach": "local_p", "diagonal": True}
        for score in ("additive", "general")
    },
    "general-global-sparsemax": {"score": "general", "chooser": "sparsemax"},
    "general-global-entmax15": {"score": "general", "chooser": "entmax15"},
    "general-global-hard": {"score": "general", "chooser": "hard"},
    "none": {"attention": "none"},
}

LR_SCALES = {"general": {"score": 0.02}, "local_p": {"centre": 0.1}}

NOTES = """Weights of `local_p` are multiplied by a Gaussian after the softmax, as Luong has it, and do not sum to 1:
the largest weight and the entropy cannot be compared with those of the others. A `diagonal` window starts out at source
position t in step t. Hard attention takes one position at run time, so its largest weight is 1."""

TRIALS = """## What held some variants back

Trials with this model, 600 updates, one seed; greedy BLEU of 500 validation lines.

| variant | what was changed | BLEU | largest weight | entropy (bits) |
|---|---|---|---|---|
| general-global | one learning rate for all | 7.1 | 0.99 | 0.03 |
| general-global | score 0.02 | 17.0 | 0.57 | 1.84 |
| general-global-sparsemax | score 0.02 | 13.9 | 0.80 | 0.61 |
| general-local_m | score 0.02 | 16.7 | 0.62 | 1.59 |
| general-local_p | centre 0.02 | 6.0 | 0.37 | 0.63 |
| general-local_p | score 0.02 | 7.3 | 0.21 | 1.02 |
| general-local_p | score 0.02, centre 0.02 | 7.4 | 0.26 | 1.86 |
| general-local_p, radius 40 | score 0.02, centre 0.02 | 16.8 | 0.55 | 1.72 |
| general-local_p, diagonal | score 0.02, centre 0.1 | 13.6 | 0.52 | 1.52 |
| additive-global | score 0.02 | 12.9 | 0.20 | 3.74 |
| general-global-hard | score 0.02, every choice sampled, REINFORCE's weight 1 | 2.9 | 1.00 | 0.00 |
| general-global-hard | half of the sentences soft, weight 1 | 4.6 | 1.00 | 0.00 |
| general-global-hard | the same, weight 0.3 | 6.3 | 1.00 | 0.00 |
| general-global-hard | the same, weight 0.1 | 9.4 | 1.00 | 0.00 |
| general-global-hard | the same, weight 0.03 (the default) | 18.0 | 1.00 | 0.00 |
| general-global-hard | the same, weight 0.01 | 17.8 | 1.00 | 0.00 |
| general-global-hard | the same, weight 0.03, without the entropy's term | 14.6 | 1.00 | 0.00 |

- **The scale of the scores.** Adam moves every weight of the matrix of `general` by the whole learning rate, and a
  score sums over all of them. Within some updates attention is all but one-hot. A slower matrix more than doubles BLEU,
  and sparsemax, whose gradient vanishes outside its support, works too.
- **local-p.** The arithmetic is right: with a wide Gaussian (radius 40) it equals global attention. With Luong's radius
  of 10 all windows start out in the middle of the source, whichever word is due, so attention is of little use at
  first, and after 600 updates the model does without it. Slowing the centre down does not help; windows that start out
  on the diagonal (`diagonal: true`) do. After 2,000 updates alignment has set in either way: the table has local-p as
  published within one or two BLEU of global attention, with both scores, and a start on the diagonal makes no clear
  difference.
- **Hard attention.** The reward of a choice is log p of its word, and says little about the choice while the rest of
  the net is still learning. With a full weight this noise moves the scores faster than anything else, to choices that
  are sure and wrong. With half of the sentences soft, as Xu et al. have it, and a small weight, hard attention equals
  soft attention after 600 updates; after 2,000 it is about two BLEU below, though it looks at one word at a time.
- **Windows and the score.** Where the score finds the word by itself (`additive`, `general`, `scaled_dot`), local-p
  costs 1.3 BLEU and local-m less than one. `cosine`, which spreads its weight over all that it sees, gains 3 from
  local-p's Gaussian. `location`, which knows the target's state and not the source's words, does nearly as well as
  `dot`.
- **Choosers with zeros** score lower than softmax: 1.5-entmax, hard, sparsemax, in this order. Hard attention chooses
  hardest and is not the last.
"""


def recipe(data: Path, options: dict[str, Any], updates: int, seed: int = 1) -> dict[str, Any]:
    def files(name: str) -> dict[str, str]:
        return {side: str(data / f"{name}.{tongue}.gz") for side, tongue in (("source", "de"), ("target", "en"))}

    scales = LR_SCALES.get(options.get("score", ""), {}) | LR_SCALES.get(options.get("reach", ""), {})
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
            "seed": seed, "max_steps": updates, "tokens_per_batch": 1024, "lr": 3e-3, "lr_scales": scales,
            "schedule": "cosine", "warmup": 100,
            "betas": [0.9, 0.999], "eps": 1e-8, "clip": 1.0, "label_smoothing": 0.0,
            "validate_every": max(1, updates // 2),
        },
    }  # fmt: skip


def sharpness(model: Translator, source: list[str], target: list[str]) -> tuple[float, float]:
    """Mean largest weight and mean entropy (bits) of the looks at the source, over target tokens."""
    largest, entropy, count = 0.0, 0.0, 0
    for line, translation in zip(source, target, strict=True):
        weights = torch.tensor(model.align(line, translation, pieces=True).sites["align"][0])
        largest += weights.amax(-1).sum().item()
        entropy -= torch.special.xlogy(weights, weights).sum().item() / torch.log(torch.tensor(2.0)).item()
        count += len(weights)
    return largest / count, entropy / count


def measure(name: str, data: Path, out: Path, updates: int, seed: int) -> dict[str, Any]:
    started = time.monotonic()
    model = regard.train(recipe(data, VARIANTS[name], updates, seed), out)
    seconds = time.monotonic() - started
    held = {side: api.read_text(data / f"val.{side}.gz") for side in ("de", "en")}
    scores, _ = api.evaluate(model, held["de"], held["en"], beam=5)
    looks = VARIANTS[name].get("attention") != "none"
    largest, entropy = sharpness(model, held["de"][:300], held["en"][:300]) if looks else (float("nan"), float("nan"))
    return {"bleu": scores.bleu, "largest": largest, "entropy": entropy, "seconds": seconds, "updates": updates}


def rows(page: list[str]) -> dict[str, str]:
    """The table's rows on the page, by variant; the page's other table is of trials."""
    table = itertools.takewhile(lambda line: not line.startswith("## "), page)
    cells = {line: line.split(" | ")[0].removeprefix("| ") for line in table if line.startswith("| ")}
    return {variant: line for line, variant in cells.items() if variant in VARIANTS}


def measured_row(out: Path, name: str, seeds: list[int]) -> str | None:
    """The row of a variant, once these seeds are measured; it has all seeds that are in the folder."""
    files = {int(file.parent.name.rsplit("-", 1)[1]): file for file in out.glob(f"{name}-[0-9]*/measured.json")}
    if not files.keys() >= set(seeds):
        return None
    runs = [json.loads(files[seed].read_text()) for seed in sorted(files)]
    scores = ", ".join(f"{run['bleu']:.1f}" for run in runs)
    largest, entropy = (sum(run[part] for run in runs) / len(runs) for part in ("largest", "entropy"))
    row = f"| {name} | {scores} | {largest:.2f} | {entropy:.2f} | {runs[0]['updates']} |"
    return row.replace("nan", "–")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/scores"))
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), help="these variants")
    arguments = parser.parse_args()
    if "REGARD_DATA" not in os.environ:
        sys.exit("Set REGARD_DATA to the folder that holds multi30k.")
    data = Path(os.environ["REGARD_DATA"]) / "multi30k"
    for name in arguments.only or VARIANTS:
        for seed in arguments.seeds:
            folder = arguments.out / f"{name}-{seed}"
            if not (folder / "measured.json").exists():
                measured = measure(name, data, folder, arguments.updates, seed)
                (folder / "measured.json").write_text(json.dumps(measured))
                print(name, seed, measured, flush=True)
    page = Path(__file__).parents[1] / "docs" / "alignment_scores.md"
    known = rows(page.read_text().splitlines()) if page.exists() else {}
    known |= {name: row for name in VARIANTS if (row := measured_row(arguments.out, name, arguments.seeds))}
    lines = ["| variant | BLEU by seed | largest weight | entropy (bits) | updates |", "|---|---|---|---|---|"]
    lines += [known[name] for name in VARIANTS if name in known]
    if missing := [name for name in VARIANTS if name not in known]:
        lines += ["", f"Not run yet with this budget: {', '.join(missing)}."]
    head = "# Alignment scores\n\n" + __doc__.strip() + "\n\n" + NOTES + "\n\n"
    page.write_text(head + "\n".join(lines) + "\n\n" + TRIALS)


if __name__ == "__main__":
    main()
