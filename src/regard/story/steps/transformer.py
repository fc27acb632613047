"""The Transformer: residual connections (claim 6), steps (claim 9) and how fast it learns (claim 4)."""

from __future__ import annotations

import json
from statistics import mean
from typing import Any

from regard.story import Claim, Stage, Told, Verdict
from regard.story.steps import _depth
from regard.story.steps._spread import spread
from regard.story.text import sentences
from regard.views.result import Curves, Result, Table

NUMBER, TITLE = 8, "The Transformer"
LECTURE = """
Recurrent nets take a long time to converge, and a word waits for all words before it: O(n) sequential dependence. A
Transformer computes the entire sequence in parallel; its depth is not proportional to the length, so it converges
faster. Residual connections parallel to all attention and feed-forward layers help with cleaner gradient flows during
back-prop. Rotary positions (RoPE) generally show faster convergence than absolute position encodings.
"""
COMMANDS = ("regard train recipes/ptb_lstm.yaml", "regard train recipes/wikitext2_gpt2.yaml")
_OFF = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
_GPT2 = {"d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 128, "max_len": 64, **_OFF}
LSTM, LEARNED, SINES, ROTARY = "LSTM", "Transformer, learned", "Transformer, sinusoidal", "Transformer, rotary"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    LSTM: ("rnn", {"cell": "lstm", "d_embedding": 64, "d_hidden": 64, "n_layers": 2, "tie": True}),
    LEARNED: ("gpt2", _GPT2),
    SINES: ("gpt2", {**_GPT2, "position": "sinusoidal"}),
    ROTARY: ("gpt2", {**_GPT2, "position": "rotary"}),
}
_UPDATES, _EVERY, _BATCH = 600, 10, 512

Log = list[tuple[int, float, float]]
"""Updates, seconds and the mean loss since the line before."""


def run(stage: Stage) -> Told:
    norms, steps = _depth.gradient_norms(stage.seeds), _depth.steps()
    logs, sizes = dict[str, list[Log]](), dict[str, int]()
    for number, name in enumerate(MODELS):
        for seed in stage.seeds:
            logs.setdefault(name, []).append(_trained(stage, f"{number}_{seed}", name, seed, sizes))
    target = 1.03 * mean(loss for log in logs[LSTM] for _, _, loss in log[-5:])
    reached = {name: [_first(log, target) for log in lines] for name, lines in logs.items()}
    result = Result(
        "story",
        "Gradients by depth, steps, and the loss as it falls",
        [
            _depth.norm_curves(norms),
            _curves("Loss by updates", "updates", logs, 0),
            _curves("Loss by seconds", "seconds (first seed)", logs, 1),
            _depth.norm_table(norms),
            _table(logs, reached, sizes, target),
            _depth.step_table(steps),
        ],
        [
            f"{name}: a loss of {target:.2f} after {_told(values, 0)} updates and {_told(values, 1)} seconds."
            for name, values in reached.items()
        ],
        {"gradients": norms, "steps": steps, "reached": reached, "target": target},
    )
    return Told(result, [_claim(reached, target), _depth.residual_claim(norms), _depth.step_claim(steps)], FOLLOWS)


FOLLOWS = """
The norm in every block already keeps the size of the gradient, so that leaving out the residual connections shows less
at the start than the lectures suggest; seeds differ more without them. Such a stack can be trained once on much text
and used for many tasks: that is what follows in the lectures.
"""


def _trained(stage: Stage, folder: str, name: str, seed: int, sizes: dict[str, int]) -> Log:
    kind, options = MODELS[name]
    data = {"train": stage.write_lines("train.txt", sentences(4000, seed=1)), "context": 64}
    training = {"max_steps": _UPDATES, "tokens_per_batch": _BATCH, "lr": 3e-3, "schedule": "constant", "warmup": 20}
    recipe = {
        "task": "language_model",
        "data": {**data, "tokenizer": {"kind": "space", "vocab_size": 500}},
        "model": {"name": kind, "options": options},
        "training": {**training, "label_smoothing": 0.0, "log_every": _EVERY, "seed": seed},
    }
    sizes[name] = sum(part.numel() for part in stage.train(folder, recipe).model.parameters())
    log, seconds = Log(), 0.0
    for line in (stage.folder / folder / "log.jsonl").read_text(encoding="utf-8").splitlines():
        facts = json.loads(line)
        if "loss" in facts:
            seconds += _EVERY * _BATCH / facts["tokens_per_second"]
            log.append((facts["step"], seconds, facts["loss"]))
    return log


def _first(log: Log, target: float) -> tuple[int, float] | None:
    """The updates and seconds at which the loss is at most the target for the first time; None if it never is."""
    return next(((step, seconds) for step, seconds, loss in log if loss <= target), None)


def _mean(values: list[tuple[int, float] | None], which: int) -> float | None:
    """The mean of the seeds; None if a seed never reached the target."""
    return None if None in values else mean(value[which] for value in values if value)


def _told(values: list[tuple[int, float] | None], which: int) -> str:
    average = _mean(values, which)
    return f"more than {_UPDATES}" if average is None and not which else "—" if average is None else f"{average:.3g}"


def _curves(name: str, axis: str, logs: dict[str, list[Log]], which: int) -> Curves:
    series = {}
    for model, lines in logs.items():
        rows = zip(*(lines if which == 0 else lines[:1]), strict=True)
        series[model] = [(float(row[0][which]), mean(line[2] for line in row)) for row in rows]
    return Curves(name, axis, "loss of the training text", series)


def _table(logs: dict[str, list[Log]], reached: dict[str, Any], sizes: dict[str, int], target: float) -> Table:
    rows: list[list[str | float | int | None]] = []
    for name, values in reached.items():
        last = [mean(loss for _, _, loss in log[-5:]) for log in logs[name]]
        numbers: list[float | None] = []
        for which in (0, 1):
            average = _mean(values, which)
            numbers += [average, None if average is None else spread([value[which] for value in values])]
        rows.append([name, sizes[name], *numbers, mean(last), spread(last)])
    columns = ["model", "parameters", "updates", "± updates", "seconds", "± seconds", "last loss", "± last loss"]
    note = f"to a loss of {target:.3f} (3 % above the LSTM's last), one learning rate; empty: a seed never got there"
    return Table("How fast they learn", columns, rows, note)


def _claim(reached: dict[str, list[tuple[int, float] | None]], target: float) -> Claim:
    def faster(one: str, other: str, which: int) -> bool:
        first, second = _mean(reached[one], which), _mean(reached[other], which)
        if first is None or second is None:
            return first is not None
        noise = [spread([value[which] for value in reached[name] if value]) for name in (one, other)]
        return second - first > sum(noise)

    pairs = ((LEARNED, LSTM, 0), (LEARNED, LSTM, 1), (ROTARY, LEARNED, 0), (ROTARY, LEARNED, 1))
    true = sum(faster(*pair) for pair in pairs)
    verdict: Verdict = "holds" if true == len(pairs) else "holds in part" if true else "does not hold here"
    told = ", ".join(f"{_told(reached[name], 0)} ({name}, {_told(reached[name], 1)} s)" for name in MODELS)
    return Claim(
        "RNNs take a long time to converge; Transformers converge faster, and RoPE shows faster convergence than "
        "absolute position encodings.",
        verdict,
        f"Updates to a loss of {target:.2f}: {told}; {true} of {len(pairs)} comparisons are as the lectures say, "
        "by more than both standard deviations (learned positions against the LSTM, rotary against learned; in updates "
        "and in seconds).",
    )
