"""Content score (Graves et al. 2014): score(s, h) = β · cos(s, h).

β (`strength`) sharpens the choice. The Neural Turing Machine emits one β per read, so it may be a tensor that
broadcasts over the query [B,H,Q,1]. A zero vector has cosine 0 with everything, and no gradient.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.attention.scores._dot_form import DotForm


class Cosine(DotForm):
    def __init__(self, *, strength: float | Tensor = 1.0) -> None:
        super().__init__()
        self.strength = strength
        # A strength per query depends on the query's position; `as_dot` moves it into the query.
        self.by_index = isinstance(strength, Tensor) and strength.numel() > 1

    def as_dot(
        self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E"]
    ) -> tuple[Float[Tensor, "*BH Q E"], Float[Tensor, "*BG K E"], float]:
        query, keys = functional.normalize(query, dim=-1), functional.normalize(keys, dim=-1)
        if isinstance(self.strength, Tensor):
            return query * self.strength, keys, 1.0
        return query, keys, self.strength
