"""Alignment scores: six of them, and ways to look at a part of the source, with the same task and budget."""

from __future__ import annotations

import math
import time
from statistics import mean, stdev
from typing import Any

import torch

from regard.core import taps
from regard.pipelines.translation import TranslationPipeline
from regard.story import Claim, Stage, Told, Verdict
from regard.story.sequences import Pair, reversals, train_reverser, written
from regard.views.result import Panel, Result, Table

NUMBER, TITLE = 6, "Alignment scores"
LECTURE = """
How well a decoder state s_t and an encoder state h_i match is a score: additive, vᵀ tanh(W [s_t; h_i]); general,
s_tᵀ W h_i; dot, s_tᵀ h_i; scaled dot, the same divided by √n; content-based, their cosine; location-based, softmax(W
s_t), which does not look at h_i. Global attention looks at all of the source, local attention at a window: around
the same place as in the target (local-m), or around a predicted place (local-p). Hard attention selects one place at
a time: it needs less calculation at the inference time, but it is not differentiable and is learned by
reinforcement. Here each of them learns to write a sequence backwards: every target word needs one source word.
"""
COMMANDS = (
    "regard train recipes/multi30k_de_en_luong.yaml --model.options.score dot --out out/multi30k_dot",
    "regard train recipes/multi30k_de_en_luong.yaml --model.options.reach local_p --out out/multi30k_local_p",
)
SCORES = ("additive", "general", "dot", "scaled_dot", "cosine", "location")
_CHOICES: dict[str, dict[str, Any]] = {
    **{score: {"score": score} for score in SCORES[:-1]},
    "location": {"score": "location", "max_len": 260},
    "general, local-m": {"score": "general", "reach": "local_m", "radius": 3},
    "general, local-p": {"score": "general", "reach": "local_p", "radius": 3},
    "general, hard": {"score": "general", "chooser": "hard"},
}
_HELD, _UPDATES, _LONGEST = 500, 400, 10
_OPTIONS = {"attention": "luong", "input_feeding": False, "cell": "gru", "d_embedding": 32, "d_hidden": 64}
_OPTIONS |= {"dropout": 0.0, "max_len": 32}
Found = dict[str, list[tuple[float, float, float]]]
"""For each seed: the share that is right, the mean weight on the right word, and the weights' entropy."""


def run(stage: Stage) -> Told:
    held = reversals(_HELD, 2, _LONGEST)
    found, seconds = Found(), dict[str, float]()
    for name, choice in _CHOICES.items():
        for seed in stage.seeds:
            folder = f"{name.replace(', ', '_').replace('-', '_')}_{seed}"
            training = {"seed": seed, "max_steps": _UPDATES, "lr": 5e-3, "tokens_per_batch": 256}
            trained = train_reverser(
                stage, folder, {"name": "seq2seq", "options": _OPTIONS | choice}, training, _LONGEST
            )
            exact = mean(float(target == got) for (_, target), got in zip(held, written(trained, held), strict=True))
            found.setdefault(name, []).append((exact, *_sharpness(trained, held)))
        seconds[name] = _seconds(trained, held)
    statements = [f"{name}: {_share(found, name):.1%} of the sequences are right." for name in found]
    result = Result("story", "Six scores, and three ways to look at less", _panels(found, seconds), statements)
    return Told(result, [_local(found), _hard(seconds)], FOLLOWS)


def _panels(found: Found, seconds: dict[str, float]) -> list[Panel]:
    rows: list[list[str | float | int | None]] = [
        [name, *(cell for values in zip(*runs, strict=True) for cell in _spread(list(values)))]
        for name, runs in found.items()
    ]
    columns = ["score", "all right", "sd", "weight on the right word", "sd of it", "entropy in bits", "sd of entropy"]
    seeds = len(next(iter(found.values())))
    note = f"Luong's decoder, {seeds} seeds, {_UPDATES} updates each, {_HELD} sequences of 2 to {_LONGEST} words"
    times: list[list[str | float | int | None]] = [[name, taken] for name, taken in seconds.items()]
    return [
        Table("Scores and reach", columns, rows, note),
        Table("Time to write", ["score", "CPU seconds"], times, "the least of three passes over all sequences"),
    ]


FOLLOWS = """
A score compares one state with another. Nothing says that they must come from two sequences, or that a recurrent net
must have made them: when a sequence asks itself, and the states are the words, the recurrence can go.
"""


def _spread(values: list[float]) -> tuple[float, float | None]:
    return mean(values), stdev(values) if len(values) > 1 else None


def _sharpness(model: TranslationPipeline, held: list[Pair]) -> tuple[float, float]:
    """The mean weight on the source word that a target word needs, and the mean entropy of the weights."""
    weight, bits = [], []
    for source, target in held[:100]:
        ids, written_ids = (model.source_tokenizer.encode_batch([" ".join(side)])[0] for side in (source, target))
        tokens, mask, read, _ = model.sides([ids], [written_ids])
        with taps.watch(["align"]) as record, torch.no_grad():
            model.model(tokens, mask, read)
        rows = torch.cat([entry.weights[0, 0] for entry in record.calls("align") if entry.weights is not None])
        for place, row in enumerate(rows[: len(target)].tolist()):
            weight.append(row[len(source) - 1 - place])
            bits.append(-sum(share * math.log2(share) for share in row if share > 0))
    return mean(weight), mean(bits)


def _share(found: Found, name: str) -> float:
    return mean(one[0] for one in found[name])


def _local(found: Found) -> Claim:
    """It holds if local-p is right more often than hard attention by ten points; in part if more often at all."""
    local, hard, same = (_share(found, f"general, {way}") for way in ("local-p", "hard", "local-m"))
    verdict: Verdict = "holds" if local > hard + 0.1 else "holds in part" if local > hard else "does not hold here"
    return Claim(
        "Local attention is a blend between hard and soft, an improvement over hard attention: it is differentiable.",
        verdict,
        f"With the same training {local:.1%} of the sequences are right with a predicted window (local-p), "
        f"{hard:.1%} with hard attention and {same:.1%} with a window around the same place (local-m), "
        "which is the wrong place here. Rule: local-p is ahead of hard by ten points; in part: ahead.",
    )


def _hard(seconds: dict[str, float]) -> Claim:
    """It holds if hard attention takes at most 90 % of the time, and in part if at most 98 %."""
    share = seconds["general, hard"] / seconds["general"]
    verdict: Verdict = "holds" if share <= 0.9 else "holds in part" if share <= 0.98 else "does not hold here"
    return Claim(
        "Hard attention: less calculation at the inference time.",
        verdict,
        f"Writing {_HELD} sequences takes {share:.2f} times the seconds of soft attention. The score of every source "
        "word is still needed to choose one; only the weighted sum could be left out. Rule: 0.9 or less; in part: "
        "0.98 or less.",
    )


def _seconds(model: TranslationPipeline, held: list[Pair]) -> float:
    """The least CPU time of three passes over all sequences."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        written(model, held)
        taken.append(time.process_time() - start)
    return min(taken)
