"""Word vectors from characters (Kim et al. 2016, as in Peters et al. 2018): convolutions, highway layers, a projection.

    c_k = E[character k]                                    characters of one word
    f_j = relu(max_k (W_j · c_{k … k+w_j−1} + b_j))         a filter of width w_j; the maximum over all its positions
    y   = t ⊙ relu(W_H y + b_H) + (1 − t) ⊙ y,  t = σ(W_T y + b_T)      a highway layer (Srivastava et al. 2015)
    x   = W_P y + b_P

E is `embedding`, W_j are `filters`, (W_H, W_T) is `highway`, W_P is `projection`. Each distinct word is computed once.
Trailing characters that are padding in every word are cut before the convolutions, except for as many as the widest
filter has. A window of padding alone gives the same number at every position, so the maximum does not change.

Highway layers begin with b_T = −2, so that a new layer mostly passes its input on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.embedding import TokenEmbedding

N_CHARACTERS, LONGEST = 262, 50
"""The number of character ids, and the longest word in characters, as in data/text/spelling.py."""


class CharacterWords(nn.Module):
    """Computes word vectors from characters; `filters` are pairs (width, count)."""

    def __init__(
        self, n_characters: int, d_character: int, d_output: int, *, filters: Sequence[tuple[int, int]], n_highway: int
    ) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(n_characters, d_character)
        self.filters = nn.ModuleList(nn.Conv1d(d_character, count, width) for width, count in filters)
        self.widest = max(width for width, _ in filters)
        wide = sum(count for _, count in filters)
        self.highway = nn.ModuleList(nn.Linear(wide, 2 * wide) for _ in range(n_highway))
        self.projection = nn.Linear(wide, d_output)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for layer in self.highway:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
            layer.bias.zero_()
            layer.bias[layer.in_features :].fill_(-2.0)

    def forward(self, characters: Int[Tensor, "B T L"]) -> Float[Tensor, "B T D"]:
        words, back = self._different(characters)
        x = self.embedding(words).transpose(1, 2)
        y = torch.relu(torch.cat([layer(x).amax(-1) for layer in self.filters], dim=1))
        for layer in self.highway:
            new, weight = layer(y).chunk(2, dim=1)
            y = torch.lerp(y, torch.relu(new), torch.sigmoid(weight))
        return self.projection(y)[back].view(*characters.shape[:2], -1)

    def _different(self, characters: Tensor) -> tuple[Tensor, Tensor]:
        """The distinct words, without characters that are padding in all of them, and the index of each position's
        word."""
        flat = characters.flatten(0, 1)
        longest = flat.shape[1]
        differs = (flat != flat[:, -1:]).any(0).nonzero()
        kept = min(longest, (int(differs[-1]) + 1 if len(differs) else 0) + self.widest)
        words, back = torch.unique(flat[:, :kept], dim=0, return_inverse=True)
        return words.long(), back
