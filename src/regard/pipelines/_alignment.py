"""The attention of each word of a translation to its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UnknownName, UsageError
from regard.views.result import Matrix, Result

Words = Sequence[tuple[str, list[int]]]
"""The text of each word and the indices of its tokens."""


@dataclass(frozen=True)
class Alignment:
    """The attention of each target word: for each attention site the weights [heads][target][source].

    A word's weight is the sum over its source tokens and the mean over its target tokens, so that each row sums to 1,
    as it does for tokens.
    """

    source: list[str]
    target: list[str]
    translation: str
    sites: dict[str, list[list[list[float]]]]
    pieces: Alignment | None = None
    """The same by tokens; None if this is by tokens already."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        own = {"source": self.source, "target": self.target, "translation": self.translation, "sites": self.sites}
        return own if self.pieces is None else {**own, "pieces": self.pieces.as_dict()}

    def matrix(self, site: str | None = None, head: int | None = None) -> list[list[float]]:
        """[target][source] of one site and head; by default the mean over all heads of all sites."""
        if site is not None and site not in self.sites:
            raise UnknownName("attention site", site, self.sites)
        heads = [weights for name in ([site] if site else self.sites) for weights in self.sites[name]]
        if head is not None and not 0 <= head < len(heads):
            raise UsageError("no such head", got=head, expected=f"0 to {len(heads) - 1}")
        kept = heads if head is None else [heads[head]]
        return torch.tensor(kept).mean(0).tolist()

    def picture(self, site: str | None = None, head: int | None = None) -> Result:
        """The matrix as a result that can be shown or saved."""
        what = f"{site or 'all sites'}, {'mean of the heads' if head is None else f'head {head}'}"
        panel = Matrix(what, self.target, self.source, self.matrix(site, head))
        return Result("align", self.translation, [panel], data=self.as_dict())


def by_pieces(source: list[str], target: list[str], translation: str, sites: Mapping[str, Tensor]) -> Alignment:
    """As computed by the model: weights [heads,target,source] of each site."""
    return Alignment(source, target, translation, {site: weights.tolist() for site, weights in sites.items()})


def by_words(pieces: Alignment, source: Words, target: Words, sites: Mapping[str, Tensor]) -> Alignment:
    """The same, with the tokens of each word merged."""
    summed = _membership(source, len(pieces.source))
    meant = _membership(target, len(pieces.target))
    meant = meant / meant.sum(1, keepdim=True)
    merged = {site: (meant @ weights.double() @ summed.T).float().tolist() for site, weights in sites.items()}
    texts = [text for text, _ in source], [text for text, _ in target]
    return Alignment(*texts, pieces.translation, merged, pieces)


def _membership(words: Words, n_pieces: int) -> Tensor:
    """[words, tokens]: 1 where a token belongs to a word."""
    table = torch.zeros(len(words), n_pieces, dtype=torch.float64)
    for row, (_, places) in enumerate(words):
        table[row, places] = 1
    return table
