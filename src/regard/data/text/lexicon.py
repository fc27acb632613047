"""Which target tokens translate each source token: IBM model 1 (Brown et al. 1993), fitted to parallel text.

    t(f|e) ← Σ_pairs count of (e, f), each occurrence of f shared among the e of its sentence in proportion to t(f|e)

It needs only pairs of sentences. It starts with equal probabilities, so its first round counts co-occurrences. Every
source sentence also has an empty word, for target tokens that no source token explains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_EMPTY = 0  # source ids are shifted by one


def best_translations(
    source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], *, n_source: int, n_target: int, best: int = 50,
    rounds: int = 4,
) -> Tensor:  # fmt: skip
    """The `best` most probable target tokens of each source token [n_source, best], −1 where there are fewer."""
    word, token, place = _occurrences(source, target)
    pairs, pair = np.unique(word * n_target + token, return_inverse=True)
    share = np.ones(len(pairs))
    n_places = int(place.max()) + 1 if len(place) else 0
    for _ in range(rounds):
        weight = share[pair]
        weight /= np.bincount(place, weight, n_places)[place]
        counts = np.bincount(pair, weight, len(pairs))
        share = counts / np.bincount(pairs // n_target, counts, n_source + 1)[pairs // n_target]
    table = np.full((n_source, best), -1, dtype=np.int64)
    order = np.lexsort((pairs % n_target, -share, pairs // n_target))
    words, tokens = pairs[order] // n_target, pairs[order] % n_target
    firsts = np.searchsorted(words, words)  # where each word's run begins
    rank = np.arange(len(words)) - firsts
    kept = (rank < best) & (words != _EMPTY)
    table[words[kept] - 1, rank[kept]] = tokens[kept]
    return torch.from_numpy(table)


def frequent_tokens(target: Sequence[Sequence[int]], *, n_target: int, count: int) -> Tensor:
    """The most frequent target tokens."""
    flat = np.fromiter((token for row in target for token in row), dtype=np.int64)
    counts = np.bincount(flat, minlength=n_target)
    order = np.argsort(-counts, kind="stable")[:count]
    return torch.from_numpy(order[counts[order] > 0].copy())


def _occurrences(
    source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every pair of a source word and a target token in the same sentence pair, and the number of that occurrence of
    the target token."""
    words, tokens, places, seen = [], [], [], 0
    for row, translation in zip(source, target, strict=True):
        every = np.concatenate([[_EMPTY], np.asarray(row, dtype=np.int64) + 1])
        own = np.asarray(translation, dtype=np.int64)
        words.append(np.tile(every, len(own)))
        tokens.append(np.repeat(own, len(every)))
        places.append(np.repeat(np.arange(seen, seen + len(own)), len(every)))
        seen += len(own)
    if not words:
        return (np.empty(0, dtype=np.int64),) * 3
    return np.concatenate(words), np.concatenate(tokens), np.concatenate(places)
