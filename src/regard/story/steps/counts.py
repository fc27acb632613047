"""n-grams and windows: how well a fixed number of words predicts the next one."""

from __future__ import annotations

from typing import Any

from regard.story import Claim, Stage, Told
from regard.story.text import sentences
from regard.views.result import Curves, Result, Table

NUMBER, TITLE = 2, "n-grams and windows"
LECTURE = """
A language model gives the probability of the next word. The oldest way is to count: how often did this word follow
these n − 1 words? A longer context says more, but most long contexts were never seen, so counts must be smoothed with
those of shorter ones. A feed-forward net over a window of words shares what it learns between similar words, but it
still sees a fixed number of words.
"""
COMMANDS = ("regard train recipes/ptb_ngram.yaml", "regard train recipes/ptb_window.yaml")
ORDERS = (1, 2, 3, 4, 5)
SMOOTHINGS = {"add one": "add_k", "Kneser–Ney": "kneser_ney"}
_TRAIN, _HELD = 2000, 500


def run(stage: Stage) -> Told:
    files = {"train": stage.write_lines("train.txt", sentences(_TRAIN, seed=1))}
    files["validation"] = stage.write_lines("held.txt", sentences(_HELD, seed=2))
    series: dict[str, list[tuple[float, float]]] = {name: [] for name in (*SMOOTHINGS, "window of a net")}
    for order in ORDERS:
        for name, smoothing in SMOOTHINGS.items():
            counted = {"name": "ngram", "options": {"order": order, "smoothing": smoothing}}
            series[name].append((float(order), _perplexity(stage, f"{smoothing}_{order}", files, counted)))
        if order > 1:
            net = {"name": "window_lm", "options": {"window": order - 1, "d_embedding": 32, "hidden": [64]}}
            training = {"max_epochs": 6, "tokens_per_batch": 256, "lr": 3e-3, "schedule": "linear", "warmup": 20}
            score = _perplexity(stage, f"window_{order}", files, net, training)
            series["window of a net"].append((float(order), score))
    rows: list[list[str | float | int | None]] = [
        [order, *(dict(points).get(float(order)) for points in series.values())] for order in ORDERS
    ]
    result = Result(
        "story",
        "Perplexity of unseen sentences by the words that are seen",
        [
            Curves("Perplexity by order", "n (words, the next one included)", "perplexity", series),
            Table("Perplexity", ["n", *series], rows, f"{_TRAIN} generated sentences to learn from, {_HELD} held out"),
        ],
        [
            f"{name}: {points[0][1]:.1f} at n = {points[0][0]:.0f}, {points[-1][1]:.1f} at n = {points[-1][0]:.0f}."
            for name, points in series.items()
        ],
        {"perplexity": series},
    )
    return Told(result, [_claim(series)], FOLLOWS)


FOLLOWS = """
Verbs here agree with a subject that may stand many words before them ("the dogs that saw the cat run"). No window
reaches it for certain; a state that is carried along might. That is what recurrent nets are for.
"""


def _perplexity(
    stage: Stage, name: str, files: dict[str, str], model: dict[str, Any], training: dict[str, Any] | None = None
) -> float:
    data = {**files, "tokenizer": {"kind": "space", "vocab_size": 500}, "documents": "lines", "context": 64}
    recipe = {"task": "language_model", "data": data, "model": model, "training": training or {"max_epochs": 1}}
    stage.train(name, recipe)
    return stage.validated(name)["perplexity"]


def _claim(series: dict[str, list[tuple[float, float]]]) -> Claim:
    counted, smoothed = (dict(series[name]) for name in SMOOTHINGS)
    gain, loss = smoothed[1.0] / smoothed[3.0], counted[5.0] / counted[2.0]
    says_more, sparse = gain > 1.2, loss > 1.0 and smoothed[5.0] < counted[5.0]
    return Claim(
        "A longer context says more, but its counts are sparse and must be smoothed.",
        "holds" if says_more and sparse else "holds in part" if says_more or sparse else "does not hold here",
        f"With Kneser–Ney smoothing n = 3 gives a perplexity of {smoothed[3.0]:.1f} and n = 1 {smoothed[1.0]:.1f}; "
        f"with one added to every count, five words give {counted[5.0]:.1f} and two {counted[2.0]:.1f}. Rule: a factor "
        "above 1.2 from one word to three; five words with one added worse than two, and than five with Kneser–Ney; in "
        "part: one of these.",
    )
