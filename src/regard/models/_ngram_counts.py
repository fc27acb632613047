"""Counts of n-grams in sorted arrays, and the probabilities computed from them (see `ngram.py` for the equations).

An n-gram is identified by its parent (the n-gram of its first n-1 words) and its last word: its key is parent · V +
word, and its number is its index among the sorted keys of its order. So a trie of all orders is one array of integers
per order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# The discounts of kenlm's lmplz with --discount_fallback: they cannot be estimated if no n-gram has some count.
_FALLBACK = (0.0, 0.5, 1.0, 1.5)


@dataclass(frozen=True)
class Level:
    """The n-grams of one order. For unigrams the key is the word itself, and every word of the vocabulary has one."""

    keys: Ints
    counts: Ints
    first: Ints
    """The position in the text at which each n-gram ends for the first time."""
    numbers: Ints
    """The number of the n-gram that ends at each position of the text; -1 if there is none."""


@dataclass(frozen=True)
class Estimate:
    """Probabilities of the n-grams of one order, and the mass left for unseen words after each n-gram as a context."""

    keys: Ints
    probabilities: Floats
    left: Floats
    """The weight of the shorter context (Kneser–Ney), or the probability of each unseen word (add-k)."""


def count(text: Ints, *, order: int, vocab_size: int, bos: int) -> list[Level]:
    """Count the n-grams of a text in which every sentence begins with `bos`; none spans two sentences."""
    unigrams = np.bincount(text, minlength=vocab_size)
    levels = [Level(np.arange(vocab_size), unigrams, np.zeros(vocab_size, np.int64), text)]
    for _ in range(1, order):
        parents, words = levels[-1].numbers[:-1], text[1:]
        places = np.flatnonzero((parents >= 0) & (words != bos))
        keys, first, inverse, counts = np.unique(
            parents[places] * vocab_size + words[places], return_index=True, return_inverse=True, return_counts=True
        )
        numbers = np.full(len(text), -1, np.int64)
        numbers[places + 1] = inverse
        levels.append(Level(keys, counts, places[first] + 1, numbers))
    return levels


def check_order(levels: Sequence[Level]) -> None:
    """Refuse an order larger than the longest sentence of the text."""
    sizes = [len(level.keys) for level in levels]
    if 0 in sizes:
        most = sizes.index(0)
        raise DataError(
            "the order is larger than the text",
            got=f"order {len(levels)}, and the longest sentence has {most} words with its beginning and end",
            remedy=f"Set model.options.order to {most} or less.",
        )


def add_k(levels: Sequence[Level], k: float, *, never: Sequence[int]) -> list[Estimate]:
    """p(w | c) = (C(cw) + k) / (C(c) + kV); k = 0 is maximum likelihood. Words in `never` are not predicted."""
    vocab_size = len(levels[0].keys)
    n_words = vocab_size - len(never)
    counts = _without(levels[0].counts, never)
    total = float(counts.sum()) + k * n_words
    probabilities = np.asarray((counts + k) / total, np.float64)
    probabilities[list(never)] = 0.0
    estimates = [Estimate(levels[0].keys, probabilities, np.ones(0))]
    for lower, level in pairwise(levels):
        parents = level.keys // vocab_size
        totals = np.bincount(parents, level.counts, len(lower.keys)) + k * n_words
        left = np.divide(k, totals, out=np.ones_like(totals), where=totals > 0)
        estimates[-1] = Estimate(lower.keys, estimates[-1].probabilities, left)
        estimates.append(Estimate(level.keys, (level.counts + k) / totals[parents], np.ones(0)))
    return estimates


def kneser_ney(levels: Sequence[Level], *, bos: int, never: Sequence[int]) -> tuple[list[Estimate], float]:
    """The estimates of interpolated modified Kneser–Ney, and the uniform part of every word's unigram probability."""
    vocab_size = len(levels[0].keys)
    adjusted = [_adjusted(levels, n, bos) for n in range(len(levels))]
    adjusted[0] = _without(adjusted[0], never)
    amount, share = _discounted(adjusted[0], np.zeros(vocab_size, np.int64), 1)
    uniform = float(share[0]) / (vocab_size - len(never))
    probabilities = amount + uniform
    probabilities[list(never)] = 0.0
    estimates = [Estimate(levels[0].keys, probabilities, np.ones(0))]
    for n, (lower, level) in enumerate(pairwise(levels), 1):
        parents = level.keys // vocab_size
        amount, share = _discounted(adjusted[n], parents, len(lower.keys))
        shorter = lower.numbers[level.first]  # the n-gram without its first word ends at the same place
        interpolated = amount + share[parents] * estimates[-1].probabilities[shorter]
        estimates[-1] = Estimate(lower.keys, estimates[-1].probabilities, share)
        estimates.append(Estimate(level.keys, interpolated, np.ones(0)))
    return estimates, uniform


def discounts(counts: Ints) -> tuple[float, float, float, float]:
    """D(0) = 0, D(1), D(2), D(3 and more), by Chen & Goodman (1998), equation 26."""
    n1, n2, n3, n4 = (float((counts == c).sum()) for c in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return _FALLBACK
    y = n1 / (n1 + 2 * n2)
    made = (0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return made if all(0 <= amount <= c for c, amount in enumerate(made)) else _FALLBACK


def _adjusted(levels: Sequence[Level], n: int, bos: int) -> Ints:
    """The number of different words that an n-gram follows; its count if its order is the highest, or if it begins a
    sentence."""
    level = levels[n]
    if n + 1 == len(levels):
        return level.counts
    longer = levels[n + 1]
    follows = np.bincount(level.numbers[longer.first], minlength=len(level.keys))
    if n == 0:
        return follows
    text = levels[0].numbers
    return np.where(text[level.first - n] == bos, level.counts, follows)


def _discounted(counts: Ints, parents: Ints, n_parents: int) -> tuple[Floats, Floats]:
    """(C − D(C)) / ΣC of each n-gram, and the discounted mass of each parent."""
    amounts = np.array(discounts(counts))[np.minimum(counts, 3)]
    totals = np.bincount(parents, counts, n_parents)
    taken = np.bincount(parents, amounts, n_parents)
    # A context that no word follows leaves all its mass to the shorter context.
    share = np.divide(taken, totals, out=np.ones_like(totals), where=totals > 0)
    return (counts - amounts) / totals[parents], share


def _without(counts: Ints, never: Sequence[int]) -> Ints:
    kept = counts.copy()
    kept[list(never)] = 0
    return kept
