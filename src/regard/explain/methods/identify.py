"""Token identifiability (Brunner et al. 2020): can a token be recovered from its hidden state in layer l?

A map ĝ_l is trained to map the hidden state c_i^l of token i back to its input embedding x_i. A token of a sentence
that ĝ has not seen is recovered if its own embedding is the nearest neighbour of ĝ_l(c_i^l)

    sequence      among the embeddings x_1 … x_n that the first layer received for its sentence, positions included
    vocabulary    among the token embeddings of the whole vocabulary (ĝ is then trained towards those)

by cosine, L1 or L2. The map is linear (ridge), an MLP, or none: c is compared with x directly, which is always reported
too. Both maps are trained on the squared error, as `inverse` describes.

Sentences are split into training and test, never tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UnknownName, UsageError
from regard.explain import inverse as _inverse
from regard.explain.neighbours import DISTANCES, nearest
from regard.explain.sentences import Division, Sample, divide, sample
from regard.explain.shares import wilson
from regard.explain.traces import Trace
from regard.views.result import Curves, Panel, Result, Table

LOOKS_AT = "trace"
NEEDS = {"weights": False}
MAPS, AMONG = ("none", "linear", "mlp"), ("sequence", "vocabulary")
_WHERE = {"sequence": "within the sentence", "vocabulary": "within the vocabulary"}

Key = tuple[str, str, str, str]
"""Candidates, map, distance, layer."""


def identify(
    trace: Trace,
    *,
    layers: str | None = None,
    map: str = "linear",
    distance: str = "cosine",
    among: str = "both",
    test_share: float = 0.3,
    epochs: int = 100,
    width: int | None = None,
    seed: int = 0,
) -> Result:
    """The share of tokens that the states of each layer identify.

    `layers` is a side (`encoder`, `decoder`) or layer names separated by commas; by default all layers of the first
    side. `map`: linear, mlp, none or all. `distance`: cosine, l1, l2 or all. `among`: sequence, vocabulary or both.
    `epochs` (at most) and hidden `width` (by default twice the model's) are for the MLP.
    """
    maps = list(dict.fromkeys(["none", *_asked("map", map, MAPS, "all")]))
    distances = _asked("distance", distance, DISTANCES, "all")
    wanted = _asked("candidates (among)", among, AMONG, "both")
    tokens = sample(trace, layers)
    if tokens.vocabulary_VD is None and among == "vocabulary":
        raise UsageError(
            f"the {tokens.side} side has no token embeddings to search",
            remedy="Give the model and texts instead of a file, or search within the sequence: among=sequence.",
        )
    if tokens.vocabulary_VD is None:
        wanted = ["sequence"]
    parts = divide(tokens.sentences, test_share, seed)
    hits: dict[Key, int] = {}
    for layer, states in tokens.layers.items():
        for where in wanted:
            targets = tokens.inputs if where == "sequence" else _embeddings(tokens)
            for kind in maps:
                lead = _fitted(kind, states, targets, parts, epochs, width, seed)
                if lead is None:
                    continue
                guesses = [lead(states[row]).float() for row in parts.test]
                for by in distances:
                    hits[where, kind, by, layer] = _recovered(tokens, parts.test, guesses, where, by)
    return _result(tokens, parts, hits, among)


def _asked(what: str, name: str, known: Sequence[str], every: str) -> list[str]:
    if name == every:
        return list(known)
    if name not in known:
        raise UnknownName(what, name, [*known, every])
    return [name]


def _embeddings(tokens: Sample) -> list[Tensor]:
    assert tokens.ids is not None
    assert tokens.vocabulary_VD is not None
    return [tokens.vocabulary_VD[ids] for ids in tokens.ids]


def _fitted(
    kind: str,
    states: list[Tensor],
    targets: list[Tensor],
    parts: Division,
    epochs: int,
    width: int | None,
    seed: int,
) -> _inverse.Map | None:
    """The map from states to targets; None if states and targets cannot be compared without one."""
    if kind == "none":
        return (lambda x: x) if states[0].shape[-1] == targets[0].shape[-1] else None
    train, held = (
        (torch.cat([states[row] for row in rows]), torch.cat([targets[row] for row in rows]))
        for rows in (parts.train, parts.held)
    )
    if kind == "linear":
        return _inverse.linear(train, held)
    return _inverse.mlp(train, held, width=width or 2 * train[0].shape[-1], epochs=epochs, seed=seed)


def _recovered(tokens: Sample, rows: list[int], guesses: list[Tensor], where: str, by: str) -> int:
    """The number of tokens whose own embedding is the nearest neighbour."""
    if where == "vocabulary":
        assert tokens.ids is not None
        assert tokens.vocabulary_VD is not None
        ids = torch.cat([tokens.ids[row] for row in rows])
        return int((nearest(torch.cat(guesses), tokens.vocabulary_VD, by) == ids).sum())
    hits = 0
    for row, guesses_TD in zip(rows, guesses, strict=True):
        own_TD = tokens.inputs[row]
        # Equal input vectors at other positions cannot be told apart, so they count as right.
        hits += int((own_TD[nearest(guesses_TD, own_TD, by)] == own_TD).all(-1).sum())
    return hits


def _chance(tokens: Sample, rows: list[int]) -> dict[str, float]:
    """The share recovered by guessing any position of the sentence, any token, or always the commonest token."""
    count = sum(len(tokens.inputs[row]) for row in rows)
    alike = [tokens.inputs[row].unique(dim=0, return_counts=True)[1].double() for row in rows]
    chance = {"sequence": sum((k.square().sum() / k.sum()).item() for k in alike) / count}
    if tokens.vocabulary_VD is not None and tokens.ids is not None:
        ids = torch.cat([tokens.ids[row] for row in rows])
        chance["vocabulary"] = 1 / len(tokens.vocabulary_VD)
        chance["commonest token"] = ids.unique(return_counts=True)[1].max().item() / count
    return chance


def _result(tokens: Sample, parts: Division, hits: dict[Key, int], asked: str) -> Result:
    count = sum(len(tokens.inputs[row]) for row in parts.test)
    chance = _chance(tokens, parts.test)
    panels: list[Panel] = [
        _curves(tokens, hits, where, count, chance[where]) for where in dict.fromkeys(key[0] for key in hits)
    ]
    rows: list[list[str | float | int | None]] = []
    exact = []
    for (where, kind, by, layer), hit in hits.items():
        low, high = wilson(hit, count)
        rows.append([layer, where, kind, by, *(round(100 * share, 1) for share in (hit / count, low, high))])
        exact.append(
            {"layer": layer, "among": where, "map": kind, "distance": by, "recovered": hit, "tokens": count,
             "share": hit / count, "interval": [low, high]}
        )  # fmt: skip
    note = "from … to: 95 % interval (Wilson), which assumes independent tokens; in a sentence they are not quite"
    columns = ["layer", "among", "map", "distance", "recovered %", "from", "to"]
    panels.append(Table("Tokens recovered", columns, rows, note=note))
    data: dict[str, Any] = {
        "side": tokens.side,
        "layers": list(tokens.layers),
        "sentences": {"train": parts.train, "held": parts.held, "test": parts.test},
        "chance": chance,
        "shares": exact,
    }
    statements = _statements(tokens, parts, hits, count, chance, asked)
    return Result("identify", "Can tokens be recovered from their hidden states?", panels, statements, data)


def _curves(tokens: Sample, hits: dict[Key, int], where: str, count: int, chance: float) -> Curves:
    places = {layer: float(number) for number, layer in enumerate(tokens.layers, start=1)}
    series: dict[str, list[tuple[float, float]]] = {}
    bands: dict[str, list[tuple[float, float, float]]] = {}
    for (searched, kind, by, layer), hit in hits.items():
        if searched == where:
            name = f"{'no map' if kind == 'none' else kind}, {by}"
            series.setdefault(name, []).append((places[layer], hit / count))
            bands.setdefault(name, []).append((places[layer], *wilson(hit, count)))
    names = list(tokens.layers)
    note = f"layers {names[0]} to {names[-1]}; by chance {chance:.4g}; bands: 95 % intervals"
    return Curves(f"Own token nearest, {_WHERE[where]}", "layer", "share", series, bands=bands, note=note)


def _statements(
    tokens: Sample, parts: Division, hits: dict[Key, int], count: int, chance: dict[str, float], asked: str
) -> list[str]:
    n_train = len(parts.train) + len(parts.held)
    statements = [f"Trained on {n_train} sentences, tested on {len(parts.test)} others with {count} tokens."]
    if asked == "both" and tokens.vocabulary_VD is None:
        statements.append(
            "This trace has no token embeddings for this side: tokens were searched in their sentence only."
        )
    last = list(tokens.layers)[-1]
    for where in dict.fromkeys(key[0] for key in hits):
        at_end = {key: hit for key, hit in hits.items() if key[0] == where and key[3] == last}
        best = max(at_end, key=lambda key: at_end[key])
        low, high = wilson(at_end[best], count)
        plain = max((hit for key, hit in at_end.items() if key[1] == "none"), default=None)
        beside = "" if plain is None or best[1] == "none" else f"; without a map {100 * plain / count:.1f} %"
        guess = f"by chance {100 * chance[where]:.3g} %"
        if where == "vocabulary":
            guess += f", always the commonest token {100 * chance['commonest token']:.1f} %"
        statements.append(
            f"After {last}, {100 * at_end[best] / count:.1f} % of the tokens ({100 * low:.1f} to {100 * high:.1f} %) "
            f"are recovered {_WHERE[where]} ({'no' if best[1] == 'none' else best[1]} map, {best[2]})"
            f"{beside}; {guess}."
        )
        totals: dict[str, int] = {}
        for key, hit in hits.items():
            if key[0] == where and key[1] == best[1]:
                totals[key[2]] = totals.get(key[2], 0) + hit
        if len(totals) > 1:
            shares = ", ".join(
                f"{by} {100 * hit / count / len(tokens.layers):.1f} %"
                for by, hit in sorted(totals.items(), key=lambda item: -item[1])
            )
            statements.append(f"Distances {_WHERE[where]}, best first, over all layers with that map: {shares}.")
    return statements
