"""The same word in several sentences: how far its states are apart, layer by layer.

A word's embedding does not depend on the sentence; its states after each layer do (Peters et al. 2018, Devlin et al.
2019). The cosine of the word's states in two sentences says how much. Give two sentences with one sense of the word and
one with another: if the model tells senses apart, the second cosine falls below the first.
"""

from __future__ import annotations

from itertools import combinations

from torch import Tensor
from torch.nn.functional import cosine_similarity

from regard.core.errors import UsageError
from regard.explain.chosen import short
from regard.explain.traces import Trace
from regard.views.result import Curves, Result, Table

LOOKS_AT = "trace"
NEEDS = {"weights": False}
_MOST = 6


def senses(trace: Trace, *, word: str | None = None) -> Result:
    """The cosine of a word's states in each two sentences, by layer; by default a word that all of them have.

    The sentences are the lines of --file. A word of several pieces has the mean of their states.
    """
    if not 2 <= trace.rows <= _MOST:
        raise UsageError(
            "a word is compared between sentences", got=trace.rows, expected=f"2 to {_MOST}",
            remedy="Put one sentence on each line of a file: --file FILE.",
        )  # fmt: skip
    layers = list(trace.hidden)
    side = trace.side_of(layers[0])
    layers = [name for name in layers if trace.side_of(name) == side]
    texts = [_words(trace.labels(side, row)) for row in range(trace.rows)]
    wanted = (word or _shared(texts)).lower()
    places = [_place(text, wanted, number) for number, text in enumerate(texts, 1)]
    pairs = list(combinations(range(trace.rows), 2))
    words = {name: [_state(trace.hidden[name][row], places[row]) for row in range(trace.rows)] for name in layers}
    cosines = {
        f"{first + 1} and {second + 1}": [
            float(cosine_similarity(states[first], states[second], dim=0)) for states in words.values()
        ]
        for first, second in pairs
    }
    listed = [f"{number}: {short(said.split())}" for number, said in enumerate(_sentences(trace, side), 1)]
    series = {pair: [(float(depth), value) for depth, value in enumerate(row)] for pair, row in cosines.items()}
    rows: list[list[str | float | int | None]] = [
        [name, *(row[depth] for row in cosines.values())] for depth, name in enumerate(layers)
    ]
    return Result(
        "senses",
        f"‘{wanted}’ in {trace.rows} sentences: {trace.model}",
        [
            Curves(f"Cosine of ‘{wanted}’", "layer (0: the input)", "cosine", series, note="; ".join(listed)),
            Table("Cosine by layer", ["layer", *cosines], rows),
        ],
        [*listed, *(_statement(pair, row) for pair, row in cosines.items())],
        {"word": wanted, "layers": layers, "cosines": cosines},
    )


def _sentences(trace: Trace, side: str) -> list[str]:
    return trace.texts or [" ".join(trace.labels(side, row)) for row in range(trace.rows)]


def _words(labels: list[str]) -> list[tuple[str, list[int]]]:
    """Words in lower case with the positions of their pieces; reads both ways in which tokenizers mark pieces."""
    starts = any(label[:1] in ("▁", "␣") for label in labels)
    words: list[tuple[str, list[int]]] = []
    for place, label in enumerate(labels):
        piece = label.lstrip("▁␣").removeprefix("##").lower()
        inside = not label.startswith(("▁", "␣")) if starts else label.startswith("##")
        if inside and words and piece.isalnum():
            words[-1] = words[-1][0] + piece, [*words[-1][1], place]
        else:
            words.append((piece, [place]))
    return words


def _shared(texts: list[list[tuple[str, list[int]]]]) -> str:
    """The longest word that every sentence has."""
    shared = set.intersection(*({word for word, _ in text if word.isalpha()} for text in texts))
    if not shared:
        raise UsageError("these sentences share no word", remedy="Name a word that they have: --word bank.")
    return max(sorted(shared), key=len)


def _place(text: list[tuple[str, list[int]]], wanted: str, number: int) -> list[int]:
    for word, places in text:
        if word == wanted:
            return places
    raise UsageError(f"sentence {number} lacks the word", got=wanted, expected=", ".join(word for word, _ in text[:12]))


def _state(states_TD: Tensor, places: list[int]) -> Tensor:
    return states_TD[places].float().mean(0)


def _statement(pair: str, row: list[float]) -> str:
    return f"Sentences {pair}: cosine {row[0]:.2f} at the input, {row[-1]:.2f} after the last layer."
