"""Embeddings of a model's inputs, and the output layer tied to them.

token     e = E[id], times √d when `scale` (Vaswani et al. 2017, §3.4); E is `weight` [V, D]
segment   e = S[segment], where the segment is the sentence that a token belongs to (Devlin et al. 2019)
patch     e = W · patch + b: an image cut into squares, row by row (Dosovitskiy et al. 2021); W, b are `projection`
output    logits = x · Eᵀ (+ b): the transposed embedding (Press and Wolf 2017)

E starts normal with σ = 1/√d: the scaled embedding then has variance 1 per feature, and so have the logits of a
normalised x. The row of the padding id starts at zero and gets no gradient from the look-up. A tied output does give it
a gradient (the loss pushes padding down like any wrong word), so models mask padding and do not rely on its row.

Where we differ: the patch projection is a convolution whose stride is its kernel size, which equals cutting, flattening
and multiplying. The tied output has no weight of its own: it reads the embedding's weight, which is therefore counted,
trained and stored once. The √d of `scale` is not applied to the output, as in Vaswani et al.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.errors import ShapeError


def _look_up(ids: Tensor, weight: Tensor, *, padding: int | None = None, what: str, remedy: str) -> Tensor:
    """Rows of `weight`. Torch checks the range while it copies; we only replace its error text, at no cost."""
    try:
        return F.embedding(ids, weight, padding_idx=padding)
    except IndexError as error:
        outside = ids[(ids < 0) | (ids >= len(weight))]
        raise ShapeError(
            f"{what} is out of range",
            got=outside[0].item(),
            expected=f"0 to {len(weight) - 1}, for a table of {len(weight)}",
            remedy=remedy,
        ) from error


class TokenEmbedding(nn.Module):
    """Maps ids of any shape to vectors."""

    def __init__(self, vocab_size: int, d_model: int, *, padding: int | None = None, scale: bool = False) -> None:
        super().__init__()
        if padding is not None and not 0 <= padding < vocab_size:
            raise ShapeError("padding id is out of range", got=padding, expected=f"0 to {vocab_size - 1}")
        self.padding = padding
        self.scale = math.sqrt(d_model) if scale else 1.0
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)
        if self.padding is not None:
            with torch.no_grad():
                self.weight[self.padding].zero_()

    def forward(self, ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch D"]:
        remedy = "Use the model's own tokenizer."
        vectors = _look_up(ids, self.weight, padding=self.padding, what="token id", remedy=remedy)
        return vectors if self.scale == 1.0 else vectors * self.scale

    def extra_repr(self) -> str:
        vocab_size, d_model = self.weight.shape
        return f"{vocab_size}, {d_model}, padding={self.padding}, scale={self.scale:g}"


class SegmentEmbedding(nn.Module):
    """A vector for each sentence of the input, to be added to the vectors of its tokens."""

    def __init__(self, n_segments: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_segments, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, segments: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch D"]:
        return _look_up(segments, self.weight, what="segment", remedy="The first sentence is segment 0.")


class PatchEmbedding(nn.Module):
    """Maps an image to one vector per patch, row by row; `any_size` accepts any multiple of the patch size."""

    def __init__(
        self,
        image_size: int | tuple[int, int],
        patch_size: int,
        d_model: int,
        channels: int = 3,
        *,
        any_size: bool = False,
    ) -> None:
        super().__init__()
        height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        if height % patch_size or width % patch_size or not min(height, width):
            raise ShapeError(
                "the image does not divide into patches",
                got=f"{height}x{width} pixels and patches of {patch_size}x{patch_size}",
                expected="height and width to be multiples of the patch",
                remedy=f"Try an image of {_round_up(height, patch_size)}x{_round_up(width, patch_size)} pixels.",
            )
        self.expected, self.patch_size, self.any_size = (channels, height, width), patch_size, any_size
        self.grid = (height // patch_size, width // patch_size)
        self.projection = nn.Conv2d(channels, d_model, patch_size, stride=patch_size)
        nn.init.normal_(self.projection.weight, std=(channels * patch_size**2) ** -0.5)
        nn.init.zeros_(self.projection.bias)  # type: ignore[arg-type]

    @property
    def n_patches(self) -> int:
        return self.grid[0] * self.grid[1]

    def forward(self, image_BCHW: Float[Tensor, "B C height width"]) -> Float[Tensor, "B P D"]:
        if not self._fits(tuple(image_BCHW.shape[1:])):
            raise ShapeError(
                "the images do not fit the model",
                got=tuple(image_BCHW.shape[1:]),
                expected=f"channels, height, width {self.expected}"
                + (f", or another multiple of {self.patch_size}" if self.any_size else ""),
                remedy="Resize or crop the images first.",
            )
        grid_BDHW: Tensor = self.projection(image_BCHW)
        return grid_BDHW.flatten(2).transpose(1, 2)

    def _fits(self, shape: tuple[int, ...]) -> bool:
        if not self.any_size or shape[0] != self.expected[0]:
            return shape == self.expected
        return min(shape[1:]) > 0 and not any(size % self.patch_size for size in shape[1:])


class TiedOutput(nn.Module):
    """Logits over the vocabulary from the embedding's weight."""

    def __init__(self, embedding: TokenEmbedding, bias: bool = False) -> None:
        super().__init__()
        # The tuple keeps torch from registering the embedding a second time, so its weight is stored under one name.
        # The weight is read at each call, so that copies, moves and replacements of the embedding take effect.
        self._source = (embedding,)
        self.bias = nn.Parameter(torch.zeros(len(embedding.weight))) if bias else None

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch V"]:
        return F.linear(x, self.weight, self.bias)

    @property
    def weight(self) -> Tensor:
        """The embedding's matrix [V, D]."""
        return self._source[0].weight


def _round_up(size: int, step: int) -> int:
    return max(1, math.ceil(size / step)) * step
