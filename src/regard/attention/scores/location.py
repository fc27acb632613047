"""Location (Luong et al. 2015): weights = softmax(W s); scores depend on the query and the key's position only.

W has a row for each key position up to `max_keys`. Longer inputs are refused.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import LengthError


class Location(nn.Module):
    same_width = False
    by_index = True

    def __init__(self, d_query: int, max_keys: int) -> None:
        super().__init__()
        self.places = nn.Linear(d_query, max_keys, bias=False)
        nn.init.xavier_uniform_(self.places.weight)

    def as_dot(self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E_key"]) -> None:
        return None

    def forward(self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E_key"]) -> Float[Tensor, "*BH Q K"]:
        return self.compare(query, keys)

    def prepare(self, keys: Float[Tensor, "*BG K E_key"]) -> Float[Tensor, "*BG K E_key"]:
        return keys

    def compare(
        self, query: Float[Tensor, "*BH Q E"], prepared: Float[Tensor, "*BG K E_key"]
    ) -> Float[Tensor, "*BH Q K"]:
        n_keys, max_keys = prepared.shape[-2], self.places.out_features
        if n_keys > max_keys:
            raise LengthError(
                "the location score does not have a row for every key",
                got=f"{n_keys} keys",
                expected=f"at most {max_keys}",
                remedy="Make it with a larger max_keys, or use a score that reads the keys, such as 'general'.",
            )
        return nn.functional.linear(query, self.places.weight[:n_keys])
