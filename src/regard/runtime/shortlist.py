"""A lexical shortlist: a translation consists of likely translations of its source tokens, and of frequent tokens.

    y = W[list] x + b[list]        list = frequent ∪ ⋃ translations of each source token

The output layer is the largest product of a small model, and most of the vocabulary is improbable for a given source
(Schwenk et al. 2007; Jean et al. 2015). Each path chooses from the list of its own source, so its output does not
depend on other sources; the product is computed for the union of the lists of all live sources. A token outside the
list cannot be chosen, so results may differ from those with the whole vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.state import State
from regard.runtime.prepared import Prepared
from regard.runtime.products import Product

_NAME = "shortlist"


@dataclass(frozen=True)
class Shortlist:
    best_SC: Tensor
    """Target tokens for each source token, padded with −1."""
    frequent_F: Tensor
    """Tokens that are allowed in any translation, special tokens included."""

    def allowed(self, source_RS: Tensor, mask_RS: Tensor, n_target: int) -> Tensor:
        """The tokens that are allowed for each source, as a mask [R,V]."""
        allowed_RV = torch.zeros(len(source_RS), n_target + 1, dtype=torch.bool)
        tokens_RSC = self.best_SC[source_RS].masked_fill(~mask_RS[..., None], -1)
        allowed_RV.scatter_(1, tokens_RSC.flatten(1).where(tokens_RSC.flatten(1) >= 0, n_target), True)
        allowed_RV[:, self.frequent_F] = True
        return allowed_RV[:, :n_target]


class Shortlisted:
    """A `Decodable`. Only a prepared model becomes faster; any other model gets the same restriction at its usual
    cost."""

    def __init__(self, model: Any, shortlist: Shortlist) -> None:
        self.model, self._shortlist = model, shortlist
        self.coverage_site, self.longest = model.coverage_site, model.longest
        self._reads = 0
        self._latest: tuple[int, set[int], Tensor, Product] | None = None

    @property
    def vocab_size(self) -> int:
        return int(self.model.vocab_size)

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        state: State = self.model.new_state(sources=sources, paths=paths, capacity=capacity)
        return state

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        self.model.read(inputs, state, sources_R)
        allowed_RV = self._shortlist.allowed(inputs["source"], inputs["source_mask"], self.vocab_size)
        state.put_sources(_NAME, sources_R, allowed_RV)
        self._reads += 1

    def step(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, state: State) -> Tensor:
        allowed_PV = state.rows(paths_N, counts_N, tokens_NT.shape[1]).source_buffer(_NAME)
        sources_N = state.source_P[paths_N]
        if not isinstance(self.model, Prepared) or not self.model.selects(tokens_NT):
            logits_NV: Tensor = self.model.step(tokens_NT, counts_N, paths_N, state)
            return logits_NV.masked_fill(~allowed_PV[sources_N], -math.inf)
        listed_C, product = self._selected(allowed_PV, sources_N)
        logits_NC = self.model.step(tokens_NT, counts_N, paths_N, state, output=product)
        logits_NC.masked_fill_(~allowed_PV[sources_N[:, None], listed_C], -math.inf)
        whole_NV = logits_NC.new_full((len(paths_N), self.vocab_size), -math.inf)
        return whole_NV.index_copy_(1, listed_C, logits_NC)

    def _selected(self, allowed_PV: Tensor, sources_N: Tensor) -> tuple[Tensor, Product]:
        """The union of the lists of these sources, and the output layer for it; both are kept until a new source."""
        live = set(sources_N.tolist())
        needed_V = allowed_PV[sorted(live)].any(0)
        if self._latest is not None:
            reads, before, listed_C, product = self._latest
            # When sources end, the list is longer than needed; a new list is made when new sources are read. A source
            # may also have moved to the slot of one that has ended, so the list must hold all that is needed.
            if reads == self._reads and live <= before and bool(needed_V[listed_C].sum() == needed_V.sum()):
                return listed_C, product
        listed_C = needed_V.nonzero()[:, 0]
        product = self.model.output_of(listed_C)
        self._latest = self._reads, live, listed_C, product
        return listed_C, product
