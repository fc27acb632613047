"""The rows of a decoding step, grouped by the source that they read from."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import UsageError


class Groups:
    """Puts rows that read from the same source side by side on the query axis, so that a source's keys are read once.

    There are R sources, and W is the largest number of rows that read from one source.
    """

    def __init__(self, sources: list[int], device: torch.device) -> None:
        order = {source: number for number, source in enumerate(sorted(set(sources)))}
        counts = dict.fromkeys(order, 0)
        lanes = []
        for source in sources:
            lanes.append(counts[source])
            counts[source] += 1
        self.sources, self.n_sources, self.width = list(order), len(order), max(counts.values(), default=0)
        places = [order[source] * self.width + lane for source, lane in zip(sources, lanes, strict=True)]
        self.index = as_index(torch.tensor(self.sources, dtype=torch.long, device=device))
        self.places_N = torch.tensor(places, dtype=torch.long, device=device)
        """The place of row n among the R·W places."""
        self._in_order = places == list(range(self.n_sources * self.width))

    def together(self, x_NHTE: Tensor) -> Tensor:
        """[N,H,T,E] → [R,H,W·T,E]; places without a row hold zeros."""
        if self.width == 1 and self._in_order:
            return x_NHTE
        if not self._in_order:
            filled = x_NHTE.new_zeros(self.n_sources * self.width, *x_NHTE.shape[1:])
            x_NHTE = filled.index_copy(0, self.places_N, x_NHTE)
        return x_NHTE.unflatten(0, (self.n_sources, self.width)).transpose(1, 2).flatten(2, 3)

    def apart(self, x_RHQE: Tensor) -> Tensor:
        """[R,H,W·T,E] → [N,H,T,E]."""
        if self.width == 1 and self._in_order:
            return x_RHQE
        x_NHTE = x_RHQE.unflatten(2, (self.width, -1)).transpose(1, 2).flatten(0, 1)
        return x_NHTE if self._in_order else x_NHTE[self.places_N]


def as_index(rows: Tensor) -> Tensor | slice:
    """The rows as an index: a slice if their numbers are consecutive, so that reading copies nothing."""
    numbers = rows.tolist()
    if not numbers:
        raise UsageError("a step needs rows", got="none")
    first = numbers[0]
    return slice(first, first + len(numbers)) if numbers == list(range(first, first + len(numbers))) else rows
