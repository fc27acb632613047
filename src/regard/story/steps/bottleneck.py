"""The bottleneck of one context vector: how much of a sequence is reproduced, by its length (claim 1)."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

from regard.story import Claim, Stage, Told
from regard.story.sequences import LONGEST, SHORTEST, Pair, reversals, right_words, train_reverser, written
from regard.story.steps import _bottleneck_full
from regard.views.result import Curves, Panel, Result, Table

NUMBER, TITLE = 4, "The bottleneck of one context vector"
LECTURE = """
An encoder reads the input words one by one into a vector of a fixed size, and a decoder writes the output words from
it. A critical disadvantage is that the vector cannot remember long sentences: the performance of the encoder–decoder
degrades rapidly as the input sentence gets longer. Attention was born to help: instead of one vector, every output
word has shortcuts to all input words. Here three models learn to write a sequence backwards. Each has two measures:
how often all of it is right, and how many of its words are.
Most sequences of two words also occur in training, few of three, hardly any longer one.
"""
COMMANDS = (
    "regard train recipes/multi30k_de_en_bahdanau.yaml --model.options.attention none --out out/multi30k_none",
    "regard train recipes/multi30k_de_en_bahdanau.yaml",
)
_HELD, _UPDATES = 1500, 700
_RECURRENT = {"cell": "gru", "d_embedding": 32, "d_hidden": 64, "dropout": 0.0}
_BLOCKS = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "one context vector": ("seq2seq", {**_RECURRENT, "attention": "none"}),
    "Bahdanau": ("seq2seq", {**_RECURRENT, "attention": "bahdanau"}),
    "Transformer": ("transformer", {**_BLOCKS, "order": "pre"}),
}
SPANS = ((2, 4), (5, 8), (9, 12), (13, 16))
Scores = dict[str, list[dict[int, float]]]
"""Of each model, for each seed, the share that is right by length."""


def run(stage: Stage) -> Told:
    held = reversals(_HELD, seed=2)
    exact, words = Scores(), Scores()
    for name, (kind, options) in MODELS.items():
        for seed in stage.seeds:
            training = {"seed": seed, "max_steps": _UPDATES, "lr": 3e-3}
            folder = f"{name.lower().replace(' ', '_')}_{seed}"
            got = written(train_reverser(stage, folder, {"name": kind, "options": options}, training), held)
            both = list(zip([target for _, target in held], got, strict=True))
            exact.setdefault(name, []).append(_by_length(held, [float(wanted == line) for wanted, line in both]))
            words.setdefault(name, []).append(_by_length(held, [right_words(wanted, line) for wanted, line in both]))
    seeds = f"{len(stage.seeds)} seeds, {_UPDATES} updates each, {_HELD} sequences held out"
    panels: list[Panel] = [
        Curves("All of it right", "words in the input", "share", _curves(exact), note=f"mean of {seeds}"),
        Curves("Right words", "words in the input", "share", _curves(words), note=f"mean of {seeds}"),
        _table("All right, by length", exact, seeds),
        _table("Right words, by length", words, seeds),
    ]
    statements = [
        f"{name}: {_span(exact[name], SPANS[0]):.0%} of the sequences of 2 to 4 words come back without an error, "
        f"{_span(exact[name], SPANS[-1]):.0%} of those of 13 to 16."
        for name in MODELS
    ]
    result = Result("story", "What comes back, by the length of the input", panels, statements)
    return Told(result, [_claim(exact, words)], FOLLOWS)


FOLLOWS = """
All three have the same training, and short sequences are learned by all. At this size and after so few updates one
vector does not carry long ones; a wider vector and longer training may move the limit. The Transformer is not done
with the longest either, but it loses far less. With attention the decoder can look back at the word that it needs.
Which one it looks at can be seen: that is the next step.
"""

FULL = (
    "BLEU by source length on Multi30k, of the models of recipes/multi30k_de_en_bahdanau.yaml (with and without "
    "attention) and recipes/multi30k_en_de.yaml."
)


def full(stage: Stage) -> Told:
    return _bottleneck_full.told(stage, FOLLOWS)


def _by_length(held: list[Pair], right: list[float]) -> dict[int, float]:
    lengths = [len(source) for source, _ in held]
    return {
        length: mean(share for share, own in zip(right, lengths, strict=True) if own == length)
        for length in range(SHORTEST, LONGEST + 1)
    }


def _curves(scores: Scores) -> dict[str, list[tuple[float, float]]]:
    return {
        name: [(float(length), mean(shares[length] for shares in runs)) for length in runs[0]]
        for name, runs in scores.items()
    }


def _table(title: str, scores: Scores, note: str) -> Table:
    rows: list[list[str | float | int | None]] = []
    for name, runs in scores.items():
        for span in SPANS:
            values = [_span([shares], span) for shares in runs]
            rows.append([name, f"{span[0]}–{span[1]}", mean(values), stdev(values) if len(values) > 1 else None])
    return Table(title, ["model", "words in the input", "mean of the seeds", "standard deviation"], rows, note)


def _span(runs: list[dict[int, float]], span: tuple[int, int]) -> float:
    return mean(shares[length] for shares in runs for length in range(span[0], span[1] + 1))


def _claim(exact: Scores, words: Scores) -> Claim:
    """It holds if, from short to long, one vector loses half of the sequences and a fifth of the words, and
    Bahdanau's model less than a tenth of both; in part if one vector loses 5 points of words more than Bahdanau's."""
    lost = {name: _span(words[name], SPANS[0]) - _span(words[name], SPANS[-1]) for name in MODELS}
    gone = {name: _span(exact[name], SPANS[0]) - _span(exact[name], SPANS[-1]) for name in MODELS}
    one, attentive = "one context vector", "Bahdanau"
    holds = gone[one] > 0.5 and lost[one] > 0.2 and gone[attentive] < 0.1 and lost[attentive] < 0.1
    short, long = (_span(words[one], SPANS[place]) for place in (0, -1))
    others = " and ".join(f"{_span(words[name], SPANS[-1]):.0%} ({name})" for name in MODELS if name != one)
    return Claim(
        "The performance of the encoder-decoder degrades rapidly as the length of the input sentence increases.",
        "holds" if holds else "holds in part" if lost[one] > lost[attentive] + 0.05 else "does not hold here",
        f"From one context vector {short:.0%} of the words are right at 2 to 4 words, {long:.0%} at 13 to 16, where "
        f"attention gets {others}; all of the sequence is right in {_span(exact[one], SPANS[0]):.0%} and "
        f"{_span(exact[one], SPANS[-1]):.0%}. Rule: a loss above 50 points of sequences and 20 of words, and below "
        "10 with Bahdanau's attention; in part: 5 points of words more than with it.",
    )
