"""The base of convolutional image encoders: a grid of features, its mean, and a classifier on the mean.

    grid = features(image) [B,P,D]        pooled = mean over the P cells        logits = W pooled + b

`n_labels` 0 is a bare encoder. The states at "encoder.grid" are the grid; "encoder.input" are the image's own patches,
one for each cell (`layers.image_convolution.tap_patches`).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core import taps
from regard.core.errors import ShapeError
from regard.core.output import Output
from regard.layers.dropout import Dropout
from regard.layers.image_convolution import tap_patches


class ImageEncoder(nn.Module):
    """A subclass defines `features` [B,D,h,w], `d_model` and the total `stride`; it calls `_add_head` last."""

    config: Any
    d_model: int
    stride: int
    n_special = 0
    channels_last = False
    """Compute with the channels innermost. On CPUs a training step of small images then takes half the time."""

    @staticmethod
    def task_of(config: Any) -> str:
        """The task of a loaded model."""
        return "image_classification"

    def _add_head(self, dropout: float = 0.0) -> None:
        self.dropout = Dropout(dropout)
        if self.config.n_labels:
            self.classifier = nn.Linear(self.d_model, self.config.n_labels)
            nn.init.normal_(self.classifier.weight, std=0.01)
            nn.init.zeros_(self.classifier.bias)

    def features(self, pixel_values: Float[Tensor, "B C height width"]) -> Float[Tensor, "B D h w"]:
        """The output of the convolutions for an image; each encoder defines it."""
        raise NotImplementedError

    def grid(self, pixel_values: Float[Tensor, "B C height width"]) -> Float[Tensor, "B P D"]:
        """The features of each cell, row by row."""
        if pixel_values.dim() != 4 or pixel_values.shape[1] != self.config.channels or 0 in pixel_values.shape[2:]:
            raise ShapeError(
                "the images do not fit the model",
                got=tuple(pixel_values.shape[1:]),
                expected=f"{self.config.channels} channels, and a height and width",
                remedy="Prepare them as the model's folder says.",
            )
        seen = tap_patches("encoder.input", pixel_values, self.grid_of(*pixel_values.shape[2:]))
        if self.channels_last:
            seen = seen.contiguous(memory_format=torch.channels_last)
        return taps.point("encoder.grid", self.features(seen).flatten(2).transpose(1, 2), "image")

    def forward(self, pixel_values: Float[Tensor, "B C height width"]) -> Output:
        """Logits of each image's classes."""
        grid_BPD = self.grid(pixel_values)
        pooled = grid_BPD.mean(1)
        logits = self.classifier(self.dropout(pooled)) if self.config.n_labels else None
        return Output(grid_BPD, logits, pooled=pooled)

    def head_logits(self, hidden: Float[Tensor, "B P D"]) -> Float[Tensor, "B C"] | None:
        """The logits of a grid; None without a classifier."""
        return self.classifier(hidden.mean(1)) if self.config.n_labels else None

    def grid_of(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the grid for images of this size."""
        return -(-height // self.stride), -(-width // self.stride)

    @property
    def n_patches(self) -> int:
        """The number of cells for images of the configured size."""
        rows, columns = self.grid_of(self.config.image_size, self.config.image_size)
        return rows * columns
