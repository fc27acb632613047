"""Residual networks (He et al. 2016): pairs of 3 × 3 convolutions, each with an identity shortcut.

    stem → stages of `blocks` pairs, each stage but the first at half the resolution → mean over the grid → classes

The `stem` "small" is one 3 × 3 convolution, for images of up to about 64 pixels per side (the paper's networks for
CIFAR-10). "large" is a 7 × 7 convolution with stride 2 and 3 × 3 max pooling with stride 2 (its networks for ImageNet).

Where we differ: if a pair changes the shape, the shortcut is a 1 × 1 convolution with a norm (the paper's option B) for
all sizes; for CIFAR-10 the paper pads with zeros.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from regard.core.config import Config
from regard.layers.image_convolution import ConvolutionUnit, ResidualPair
from regard.models._image_encoder import ImageEncoder

_Width = Annotated[int, Field(gt=0, le=10_000)]


class ResnetConfig(Config):
    image_size: int = Field(32, gt=0)
    channels: int = Field(3, gt=0)
    stem: Literal["small", "large"] = "small"
    widths: Annotated[tuple[_Width, ...], Field(min_length=1, max_length=8)] = (16, 32, 64)
    blocks: int = Field(3, gt=0, le=100, description="pairs of convolutions in each stage")
    dropout: float = Field(0.0, ge=0, lt=1)
    n_labels: int = Field(0, ge=0, description="0: no classifier")

    @property
    def d_model(self) -> int:
        """Features of each cell of the grid."""
        return self.widths[-1]


SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"blocks": 1},
    "resnet20": {"blocks": 3},
    "resnet32": {"blocks": 5},
    "resnet18": {"image_size": 224, "stem": "large", "widths": (64, 128, 256, 512), "blocks": 2},
}


class Resnet(ImageEncoder):
    Config = ResnetConfig
    SIZES = SIZES

    def __init__(self, config: ResnetConfig) -> None:
        super().__init__()
        self.config, self.d_model = config, config.d_model
        large, width = config.stem == "large", config.widths[0]
        self.stem = ConvolutionUnit(config.channels, width, kernel=7 if large else 3, stride=2 if large else 1)
        self.stride, blocks = 4 if large else 1, []
        for place, d_output in enumerate(config.widths):
            for number in range(config.blocks):
                stride = 2 if place and not number else 1
                self.stride *= stride
                blocks.append(ResidualPair(width, d_output, stride=stride))
                width = d_output
        self.blocks = nn.ModuleList(blocks)
        self._add_head(config.dropout)

    def features(self, pixel_values: Float[Tensor, "B C height width"]) -> Float[Tensor, "B D h w"]:
        x = self.stem(pixel_values)
        if self.config.stem == "large":
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        for block in self.blocks:
            x = block(x)
        return x
