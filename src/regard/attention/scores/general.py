"""General (Luong et al. 2015): score(s, h) = sᵀ W h.

The score is computed as (Wᵀs)ᵀh: a projection of the query and then a dot product. So it runs in the fused kernel, and
the query and the keys may have different widths.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.scores._dot_form import DotForm


class General(DotForm):
    same_width = False

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.project = nn.Linear(d_query, d_key, bias=False)
        nn.init.xavier_uniform_(self.project.weight)

    def as_dot(
        self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E_key"]
    ) -> tuple[Float[Tensor, "*BH Q E_key"], Float[Tensor, "*BG K E_key"], float]:
        return self.project(query), keys, 1.0
