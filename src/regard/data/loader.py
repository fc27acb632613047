"""Batches of encoded pairs. A plan sorts all pairs at once in numpy and makes no tensors.

**Budget.** A batch of B pairs with longest source S and longest target T (special tokens counted) holds B × (S + T)
numbers, padding included. The limit is 2 × `tokens_per_batch`, that is, `tokens_per_batch` per side on average. This
bounds memory and time; a count of real tokens would not. A pair over the budget makes a batch of one.

**Little padding.** Pairs are grouped into bands by target length; a band spans just enough lengths for about three
batches. Inside a band they are sorted by source length, alternately rising and falling, so that neighbours have similar
lengths across the border of two bands. Then they are cut into batches. Sorting by target then source length, or by the
sum, gives far more padding.

**Still random.** Pairs of equal lengths come in random order, the bands differ in each epoch, and the batches are
shuffled. How often the same pairs share a batch again depends on how many pairs have the same lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.core.batch import Batch, pad
from regard.core.errors import UsageError
from regard.data.chance import Dice, Ints
from regard.data.epochs import Epochs
from regard.data.token_pairs import Cut, TokenPairs


@dataclass(frozen=True)
class _Plan:
    """Batch k holds the pairs rows[starts[j] : starts[j + 1]], where j = turns[k]."""

    rows: Ints
    starts: Ints
    turns: Ints

    def __len__(self) -> int:
        return len(self.turns)

    def __getitem__(self, k: int, /) -> Ints:
        j = self.turns[k]
        return self.rows[self.starts[j] : self.starts[j + 1]]


class Loader(Epochs):
    """Batches with `source` ids + eos [B,S], `target` bos + ids + eos [B,T], and a mask of each, True at real tokens.

    Every pair is in exactly one batch of an epoch; `batch.rows` gives the pairs. Without `shuffle` the batches are the
    same in each epoch, in order of length. `cuts`, one for sources and one for targets, split the texts into other
    tokens in each epoch (`text.merge_dropout`).
    """

    def __init__(
        self,
        pairs: TokenPairs,
        *,
        tokens_per_batch: int,
        seed: int,
        pad: int,
        bos: int,
        eos: int,
        shuffle: bool = True,
        cuts: tuple[Cut, Cut] | None = None,
    ) -> None:
        if tokens_per_batch < 1:
            raise UsageError("tokens_per_batch is too small", got=tokens_per_batch, expected="1 or more")
        super().__init__(seed=seed, shuffle=shuffle)
        self.pairs, self.tokens_per_batch = pairs, tokens_per_batch
        self._pad, self._bos, self._eos, self._cuts = pad, bos, eos, cuts
        self._latest_pairs: tuple[int, TokenPairs] | None = None

    def plan(self, number: int) -> _Plan:
        pairs, dice = self._pairs(number), Dice(self.seed, number) if self.shuffle else None
        sources, targets = pairs.source_lengths.astype(np.int64) + 1, pairs.target_lengths.astype(np.int64) + 2
        rows = _sorted(sources, targets, 2 * self.tokens_per_batch, dice)
        starts = _cut(sources[rows], targets[rows], 2 * self.tokens_per_batch)
        count = len(starts) - 1
        return _Plan(rows, starts, dice.order(count) if dice else np.arange(count))

    def batch(self, rows: Ints, number: int) -> Batch:
        pairs, numbers = self._pairs(number), tuple(rows.tolist())
        sources = [[*pairs.source(row).tolist(), self._eos] for row in numbers]
        targets = [[self._bos, *pairs.target(row).tolist(), self._eos] for row in numbers]
        source_BS, source_mask_BS = pad(sources, value=self._pad)
        target_BT, target_mask_BT = pad(targets, value=self._pad)
        tensors = {"source": source_BS, "source_mask": source_mask_BS}
        return Batch({**tensors, "target": target_BT, "target_mask": target_mask_BT}, numbers)

    def _pairs(self, number: int) -> TokenPairs:
        """The pairs with the tokens that they have in an epoch."""
        if self._cuts is None:
            return self.pairs
        if self._latest_pairs is None or self._latest_pairs[0] != number:
            # The plan uses the dice of the epoch; the sides use those of rows 0 and 1, so that no numbers are shared.
            dice = [Dice(self.seed, number, side) for side in range(2)]
            self._latest_pairs = number, self.pairs.cut(*self._cuts, dice)
        return self._latest_pairs[1]


def _sorted(sources: Ints, targets: Ints, budget: int, dice: Dice | None) -> Ints:
    """All rows, with rows of similar lengths next to each other."""
    rows = dice.order(len(sources)) if dice else np.arange(len(sources))
    size = (2 + 3 * dice.share()) if dice else 3.0
    bands = _bands(sources, targets, size * budget, dice.share() if dice else 0.0)[targets[rows]]
    width = int(sources.max(initial=0)) + 1
    within = np.where(bands % 2 == 0, sources[rows], width - 1 - sources[rows])
    return rows[np.argsort(bands * width + within, kind="stable")]


def _bands(sources: Ints, targets: Ints, size: float, filled: float) -> Ints:
    """The band of each target length: a band takes lengths until it holds `size` tokens; the first starts `filled`."""
    tokens = np.bincount(targets, weights=sources + targets)
    bands, band, held = np.zeros(len(tokens), dtype=np.int64), 0, filled * size
    for length in np.flatnonzero(tokens)[::-1]:
        bands[length], held = band, held + tokens[length]
        if held >= size:
            band, held = band + 1, 0.0
    return bands


def _cut(sources: Ints, targets: Ints, budget: int) -> Ints:
    """The starts of the batches, and the end: a batch takes rows while rows × (longest source + target) fits."""
    starts, total = [0], len(sources)
    while (start := starts[-1]) < total:
        # The length of the first row alone allows no more rows than this.
        most = max(budget // int(sources[start] + targets[start]), 1)
        first = slice(start, start + most)
        longest = np.maximum.accumulate(sources[first]) + np.maximum.accumulate(targets[first])
        held = longest * np.arange(1, len(longest) + 1)
        starts.append(start + max(int(np.searchsorted(held, budget, side="right")), 1))
    return np.array(starts, dtype=np.int64)
