"""The vectors of a word in its sentence, by layer, and which words they depend on (claim 14)."""

from __future__ import annotations

from itertools import combinations, pairwise
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.explain import trace
from regard.pipelines import Loaded
from regard.pipelines.bidirectional_lm import BidirectionalLmPipeline
from regard.story import Claim, Verdict
from regard.story.senses import PLACE, SIDES, Use, minimal_pairs
from regard.story.steps._spread import spread
from regard.views.result import Curves, Table

KINDS = ("same sense", "other sense")
_ONE, _MOVED = 0.9999, 0.999

ByLayer = dict[str, list[list[float]]]
"""By kind of pair, for each seed: the mean cosine in each layer, from 0 (no context) on."""
Moves = dict[str, list[tuple[float, float]]]
"""By side whose words are exchanged, for each seed: mean cosine in the last layer, and the largest change."""


def word_vectors(model: Loaded, texts: list[str], place: int = PLACE) -> Tensor:
    """The vectors of the word at this place of each text, in every layer [N,L,D]; layer 0 is the input."""
    if isinstance(model, BidirectionalLmPipeline):
        return torch.stack([layers_LTD[:, place] for layers_LTD in model.features(texts, rows=len(texts))])
    record: Any = trace(model, texts, weights=False)
    names = list(record.hidden)
    labels = record.labels(record.side_of(names[0]))
    first = place + len(labels) - len(texts[0].split()) - int(labels[-1] == "[SEP]")
    return torch.stack([record.states(name)[:, first] for name in names], 1)


def cosines(model: Loaded, uses: list[Use]) -> dict[str, list[float]]:
    """The mean cosine of pairs of sentences with the same word, in each layer."""
    unit_NLD = F.normalize(word_vectors(model, [use.text for use in uses]).double(), dim=-1)
    by_kind: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
    for (left, first), (right, second) in combinations(enumerate(uses), 2):
        if first.word == second.word:
            by_kind[KINDS[first.topic != second.topic]].append((unit_NLD[left] * unit_NLD[right]).sum(-1))
    return {kind: torch.stack(rows).mean(0).tolist() for kind, rows in by_kind.items()}


def moves(model: Loaded) -> dict[str, tuple[float, float]]:
    """How the word's last vector changes if only the words on one side of it are exchanged."""
    results = {}
    for side in SIDES:
        first, second = (word_vectors(model, list(texts))[:, -1] for texts in zip(*minimal_pairs(side), strict=True))
        results[side] = float(F.cosine_similarity(first, second).mean()), float((first - second).abs().max())
    return results


def curves(models: dict[str, ByLayer]) -> Curves:
    series = {
        f"{name}, {kind}": [(float(layer), mean(part)) for layer, part in enumerate(zip(*seeds, strict=True))]
        for name, by_kind in models.items()
        for kind, seeds in by_kind.items()
    }
    note = "the same word in two sentences, mean of all pairs and seeds; layer 0 is the word without its context"
    return Curves("Cosine by layer", "layer", "cosine", series, note=note)


def layer_table(models: dict[str, ByLayer]) -> Table:
    rows: list[list[str | float | int | None]] = []
    for name, by_kind in models.items():
        for layer in range(len(by_kind[KINDS[0]][0])):
            parts = [[seed[layer] for seed in by_kind[kind]] for kind in KINDS]
            rows.append([name, layer, *(number for part in parts for number in (mean(part), spread(part)))])
    columns = ["model", "layer", *(column for kind in KINDS for column in (kind, f"± of {kind}"))]
    return Table("The same word in two sentences", columns, rows, "cosine; mean and standard deviation of the seeds")


def move_table(models: dict[str, Moves]) -> Table:
    rows: list[list[str | float | int | None]] = [
        [name, side, mean(cosine for cosine, _ in seeds), spread([cosine for cosine, _ in seeds]),
         max(change for _, change in seeds), min(change for _, change in seeds)]
        for name, by_side in models.items()
        for side, seeds in by_side.items()
    ]  # fmt: skip
    columns = ["model", "words exchanged", "cosine", "± of the seeds", "largest change", "least of the seeds"]
    return Table("Words before and after it", columns, rows, "of the word's vector in the last layer")


def claim(layers: dict[str, ByLayer], moved: dict[str, Moves]) -> Claim:
    """It holds if, for BERT and ELMo: vectors in layer 0 are equal, the mean cosine of both kinds of pairs falls from
    each layer to the next, the last vector moves with the words on either side (cosine below 0.999 with every seed),
    and pairs of one sense are closer than pairs of two by more than both standard deviations. In part: the words on
    both sides move it, but something else fails."""
    whole, ordered, apart, told = [], [], [], []
    for name, by_kind in layers.items():
        whole.append(all(cosine < _MOVED for side in SIDES for cosine, _ in moved[name][side]))
        paths = [[mean(part) for part in zip(*by_kind[kind], strict=True)] for kind in KINDS]
        ordered += [path[0] > _ONE and all(low < high for high, low in pairwise(path)) for path in paths]
        same, other = ([seed[-1] for seed in by_kind[kind]] for kind in KINDS)
        apart.append(mean(same) - mean(other) > spread(same) + spread(other))
        told.append(f"{name} {mean(same):.3f} ± {spread(same):.3f} and {mean(other):.3f} ± {spread(other):.3f}")
    holds = all(whole) and all(ordered) and all(apart)
    verdict: Verdict = "holds" if holds else "holds in part" if all(whole) else "does not hold here"
    sides = "; ".join(
        f"{name} {mean(cosine for cosine, _ in moved[name]['before']):.2f} and "
        f"{mean(cosine for cosine, _ in moved[name]['after']):.2f}"
        for name in layers
    )
    return Claim(
        "ELMo and BERT word representations are functions of the entire input sentence.",
        verdict,
        f"The cosine of a word with itself in another sentence is 1 in layer 0; in the last layer it is, in one sense "
        f"and in two: {'; '.join(told)}. With other words before it only, or after it only: {sides}. Rule: equal in "
        "layer 0, falling from layer to layer, moved by either side, and one sense closer than two by more than both "
        "standard deviations; in part: moved by either side. The text was changed after a first trial that did not "
        "hold: see the page.",
    )
