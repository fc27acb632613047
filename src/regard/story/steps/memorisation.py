"""Memorisation: a secret in the training text, and how far a language model gives it away."""

from __future__ import annotations

import random
from itertools import pairwise
from statistics import mean
from typing import Any

from regard.explain.secrets import Exposure, exposure, of_canary, parse
from regard.story import Claim, Stage, Told, Verdict
from regard.story.steps._spread import spread
from regard.story.text import sentences
from regard.views.result import Curves, Result, Table

NUMBER, TITLE = 11, "Memorisation"
LECTURE = """
Large language models learn from texts that people wrote, and those texts hold names, addresses and numbers. A model
can give such a part of its training text back word for word. To see how far, a canary is put into the text: a line
with a random number. Its exposure is log2 of all numbers minus log2 of its rank among them, the most probable first:
1.4 bits on average if nothing was learnt, and 13.3 bits if no other of the 10,000 numbers is more probable.
"""
COMMANDS = (
    "regard train recipes/shakespeare_char.yaml",
    "regard explain out/shakespeare_char --method memorised --text $REGARD_DATA/tinyshakespeare/input.txt.gz",
)
TIMES = (0, 1, 4, 16)
CHANCE = 1.44
_LINES, _COUNTS = 400, 100
_OFF = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}


def run(stage: Stage) -> Told:
    found: dict[int, list[Exposure]] = {}
    for times in TIMES:
        for seed in stage.seeds:
            canary = f"the code is {random.Random(100 + seed).randrange(1000, 10000)}"
            model = _model(stage, times, seed, canary)
            found.setdefault(times, []).append(exposure(model, canary, parse(of_canary(canary))))
    bits = {times: [each.bits for each in several] for times, several in found.items()}
    most = found[TIMES[0]][0].most_bits
    points = [(float(times), mean(values)) for times, values in bits.items()]
    rows: list[list[str | float | int | None]] = [
        [times, mean(bits[times]), spread(bits[times]), most, ", ".join(str(each.rank) for each in several)]
        for times, several in found.items()
    ]
    columns = ["times in the text", "exposure (bits)", "standard deviation", "at most", "ranks of the seeds"]
    note = f"{_LINES} sentences and {_COUNTS} lines with random digits, by characters; all 10,000 numbers are ranked"
    result = Result(
        "story",
        "The exposure of a canary by how often it stands in the training text",
        [
            Curves("Exposure", "times in the text", "bits", {
                "canary": points,
                "most that is possible": [(float(times), most) for times in TIMES],
                "nothing learnt": [(float(times), CHANCE) for times in TIMES],
            }),
            Table("Exposure of a canary", columns, rows, note),
        ],
        [f"{times} times: {mean(values):.1f} ± {spread(values):.1f} bits." for times, values in bits.items()],
        {"bits": {str(times): values for times, values in bits.items()}},
    )  # fmt: skip
    return Told(result, [_claim(bits, most)], FOLLOWS)


FOLLOWS = """
What stands in the training text may come out of the model, so texts should be cleaned of secrets and of repeats before
a model learns from them. `--method memorised` does the same with a model and a text of one's own.
"""


def _model(stage: Stage, times: int, seed: int, canary: str) -> Any:
    dice = random.Random(seed)
    counted = [f"we count {' '.join(str(dice.randrange(10)) for _ in range(4))} ." for _ in range(_COUNTS)]
    lines = [*sentences(_LINES, seed=seed), *counted, *[canary] * times]
    dice.shuffle(lines)
    data = {"train": stage.write_lines(f"train_{times}_{seed}.txt", lines), "tokenizer": {"kind": "char"}}
    options = {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_len": 96, **_OFF}
    training = {"max_epochs": 12, "tokens_per_batch": 768, "lr": 3e-3, "schedule": "linear", "warmup": 20}
    recipe = {
        "task": "language_model",
        "data": {**data, "documents": "lines", "context": 96},
        "model": {"name": "gpt2", "options": options},
        "training": {**training, "label_smoothing": 0.0, "seed": seed},
    }
    return stage.train(f"times_{times}_{seed}", recipe)


def _claim(bits: dict[int, list[float]], most: float) -> Claim:
    means = [mean(bits[times]) for times in TIMES]
    rises = all(low < high for low, high in pairwise(means))
    found = means[-1] > most - 1
    learnt = means[-1] - means[0] > spread(bits[TIMES[-1]]) + spread(bits[TIMES[0]])
    verdict: Verdict = "holds" if rises and found else "holds in part" if learnt else "does not hold here"
    told = ", ".join(f"{mean(bits[times]):.1f} bits at {times}" for times in TIMES)
    return Claim(
        "Language models are trained on large datasets that also contain sensitive data; they memorise it, and the "
        "more often it stands there the more.",
        verdict,
        f"The exposure of a canary is {told} times in the text, of {most:.1f} at most. Holding asks for a rise at "
        "every step and less than one bit from the most at the end.",
    )
