"""EfficientNet-Lite (Tan and Le 2019; Liu 2020): a small convolutional network for images.

    stem 3 × 3, stride 2 → stages of bottlenecks → head 1 × 1 to d_model → mean over the grid → classes

`stages` has a row for each stage: repeats, kernel, stride of its first block, expansion, width. Lite differs from
EfficientNet: it has no squeeze-and-excite, it has ReLU6 instead of swish, and the widths of stem and head and the
depths of the first and last stage are not scaled. With images of 224 pixels per side the grid is 7 × 7 cells of 1,280
features. Batch norm has ε = 10⁻³ and a momentum of 0.01.

Where we differ: no blocks are dropped in training (stochastic depth).
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from regard.core.config import Config
from regard.core.keymap import KeyMap, Rename
from regard.layers.image_convolution import Bottleneck, ConvolutionUnit
from regard.models._image_encoder import ImageEncoder

_Few = Annotated[int, Field(gt=0, le=100)]
_Width = Annotated[int, Field(gt=0, le=10_000)]
Stage = tuple[_Few, Annotated[int, Field(gt=0, le=15)], Annotated[int, Field(gt=0, le=4)], _Few, _Width]

_STAGES: tuple[Stage, ...] = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)  # fmt: skip
_MOMENTUM = 0.01


class EfficientnetLiteConfig(Config):
    image_size: int = Field(224, gt=0)
    channels: int = Field(3, gt=0)
    d_stem: int = Field(32, gt=0)
    stages: Annotated[tuple[Stage, ...], Field(min_length=1, max_length=50)] = _STAGES
    d_model: int = Field(1280, gt=0, description="features of each cell of the grid")
    eps: float = Field(1e-3, gt=0)
    dropout: float = Field(0.2, ge=0, lt=1)
    n_labels: int = Field(1000, ge=0, description="0: no classifier")


def _scaled(width: float, depth: float) -> tuple[Stage, ...]:
    """The stages of a larger size: widths in steps of 8, and more blocks in all but the first and last stage."""

    def wide(d_output: int) -> int:
        rounded = max(8, int(width * d_output + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * width * d_output else rounded

    ends = 0, len(_STAGES) - 1
    return tuple(
        (repeats if place in ends else math.ceil(depth * repeats), kernel, stride, expansion, wide(d_output))
        for place, (repeats, kernel, stride, expansion, d_output) in enumerate(_STAGES)
    )


SIZES: dict[str, dict[str, Any]] = {
    "lite0": {},
    "lite1": {"image_size": 240, "stages": _scaled(1.0, 1.1)},
    "lite2": {"image_size": 260, "stages": _scaled(1.1, 1.2), "dropout": 0.3},
    "lite3": {"image_size": 280, "stages": _scaled(1.2, 1.4), "dropout": 0.3},
    "lite4": {"image_size": 300, "stages": _scaled(1.4, 1.8), "dropout": 0.3},
}


class EfficientnetLite(ImageEncoder):
    Config = EfficientnetLiteConfig
    SIZES = SIZES

    def __init__(self, config: EfficientnetLiteConfig) -> None:
        super().__init__()
        self.config, self.d_model = config, config.d_model
        norm: dict[str, Any] = {"eps": config.eps, "momentum": _MOMENTUM}
        self.stem = ConvolutionUnit(config.channels, config.d_stem, kernel=3, stride=2, activation="relu6", **norm)
        self.stride, width, blocks = 2, config.d_stem, []
        for repeats, kernel, stride, expansion, d_output in config.stages:
            self.stride *= stride
            for number in range(repeats):
                step = stride if number == 0 else 1
                blocks.append(Bottleneck(width, d_output, kernel=kernel, stride=step, expansion=expansion, **norm))
                width = d_output
        self.blocks = nn.ModuleList(blocks)
        self.head = ConvolutionUnit(width, config.d_model, activation="relu6", **norm)
        self._add_head(config.dropout)

    def features(self, pixel_values: Float[Tensor, "B C height width"]) -> Float[Tensor, "B D h w"]:
        x = self.stem(pixel_values)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def _units() -> list[tuple[str, str, str]]:
    """Our name of each unit, and their names of its convolution and norm. If a block does not expand, its norms are
    still called `_bn1` and `_bn2`."""
    parts = (("expand", "_expand_conv", "_bn0"), ("depthwise", "_depthwise_conv", "_bn1"))
    inside = [
        (f"blocks.{{i}}.{ours}", f"_blocks.{{i}}.{convolution}", f"_blocks.{{i}}.{norm}")
        for ours, convolution, norm in (*parts, ("project", "_project_conv", "_bn2"))
    ]
    return [("stem", "_conv_stem", "_bn0"), *inside, ("head", "_conv_head", "_bn1")]


PUBLISHED_NAMES = KeyMap(
    [
        *(Rename(f"{ours}.convolution.weight", f"{theirs}.weight") for ours, theirs, _ in _units()),
        *(Rename(f"{ours}.norm.{{part}}", f"{theirs}.{{part}}") for ours, _, theirs in _units()),
        Rename("classifier.{part}", "_fc.{part}"),
    ]
)
"""The names under which PyTorch's ports of the published weights store them."""
