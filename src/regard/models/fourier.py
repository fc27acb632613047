"""A coordinate network with Fourier features (Tancik et al. 2020): maps points to values, such as x, y → red, green,
blue.

    γ(v) = [cos 2πBv; sin 2πBv]        value = σ(MLP(γ(v)))        v in [0, 1)^d

    plain         γ(v) = v: the network learns low frequencies first and high ones hardly at all (spectral bias)
    basic         B = I: one period on each axis
    positional    frequencies σ^(j/m), j = 0 … m−1, on each axis separately, as the sinusoids of a Transformer
    gaussian      B ~ N(0, σ²): directions in the plane, not only the axes

σ is `scale`, m is the number of frequencies per axis, and `n_frequencies` is the number of all frequencies. B is drawn
once and stored. A large σ fits more detail; too large a σ gives noise between the training points.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from regard.core import taps
from regard.core.config import Config
from regard.core.errors import ConfigError, ShapeError
from regard.core.output import Output
from regard.layers.mlp import Mlp


class FourierConfig(Config):
    d_input: int = Field(2, gt=0, le=16, description="coordinates of a point")
    d_output: int = Field(3, gt=0)
    features: Literal["plain", "basic", "positional", "gaussian"] = "gaussian"
    n_frequencies: int = Field(128, gt=0)
    scale: float = Field(10.0, gt=0, description="σ, in periods over the range from 0 to 1")
    d_hidden: int = Field(128, gt=0)
    n_layers: int = Field(3, gt=0, description="hidden layers")


SIZES: dict[str, dict[str, Any]] = {
    "small": {"d_hidden": 128, "n_layers": 3, "n_frequencies": 128},
    "published": {"d_hidden": 256, "n_layers": 3, "n_frequencies": 256},
}


class Fourier(nn.Module):
    Config = FourierConfig
    SIZES = SIZES
    turns: Tensor

    @staticmethod
    def task_of(config: FourierConfig) -> str:
        """The task of a loaded model."""
        return "coordinates"

    def __init__(self, config: FourierConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("turns", _turns(config))
        width = 2 * len(self.turns) if config.features != "plain" else config.d_input
        self.layers = Mlp(width, [config.d_hidden] * config.n_layers, site="encoder")
        self.output = nn.Linear(config.d_hidden, config.d_output)

    def forward(self, points: Float[Tensor, "B D"]) -> Output:
        """Values from 0 to 1 at points from 0 to 1, as `logits` [B,C]."""
        if points.dim() != 2 or points.shape[1] != self.config.d_input:
            expected = f"[points, {self.config.d_input}]"
            raise ShapeError("the points do not fit the model", got=list(points.shape), expected=expected)
        features = taps.point("encoder.input", self.features(points)[:, None])
        hidden = self.layers(features)
        return Output(hidden, torch.sigmoid(self.output(hidden[:, 0])))

    def features(self, points: Float[Tensor, "B D"]) -> Float[Tensor, "B F"]:
        """γ of each point."""
        if self.config.features == "plain":
            return points
        angles = 2 * math.pi * points @ self.turns.T
        return torch.cat([angles.cos(), angles.sin()], -1)


def _turns(config: FourierConfig) -> Float[Tensor, "M D"]:
    """The rows of B; there are none for plain features."""
    axes, count = config.d_input, config.n_frequencies
    if config.features == "plain":
        return torch.zeros(0, axes)
    if config.features == "basic":
        return torch.eye(axes)
    if config.features == "gaussian":
        return config.scale * torch.randn(count, axes)
    each = count // axes
    if not each:
        raise ConfigError("there are fewer frequencies than coordinates", got=count, expected=f"{axes} or more")
    frequencies = config.scale ** (torch.arange(each) / each)
    return torch.cat([frequencies[:, None] * row for row in torch.eye(axes)])
