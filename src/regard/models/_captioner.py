"""The base of image captioning models: an image encoder, and captions that are generated word by word.

The encoder is any image encoder of this folder, without its classifier. A `frozen` encoder, as in the papers, is never
trained and runs in evaluation mode, so its features of an image never change: they can be computed once and given as
`features` [B,P,D] in place of `pixel_values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from regard.core.config import Config
from regard.core.errors import ShapeError
from regard.core.state import State
from regard.models._inner_encoder import inner_encoder


class CaptionerConfig(Config):
    vocab_size: int = Field(gt=0)
    encoder: str = Field("efficientnet_lite", description="an image encoder of regard/models")
    encoder_options: dict[str, Any] = Field(default_factory=dict, description="its configuration")
    frozen: bool = Field(True, description="the encoder is not trained")
    d_embedding: int = Field(256, gt=0)
    d_hidden: int = Field(512, gt=0)
    dropout: float = Field(0.5, ge=0, lt=1)


SIZES: dict[str, dict[str, int]] = {
    "small": {"d_embedding": 256, "d_hidden": 256},
    "base": {"d_embedding": 256, "d_hidden": 512},
    "published": {"d_embedding": 512, "d_hidden": 512},
}


class Captioner(nn.Module):
    """The encoder, and the parts of a `Decodable` model other than its steps."""

    SIZES = SIZES
    config: Any
    whole = False
    """True if the model reads one vector for the whole image instead of the grid."""
    longest: int | None = None
    coverage_site: str | None = None
    embedding: nn.Module

    @staticmethod
    def task_of(config: CaptionerConfig) -> str:
        """The task of a loaded model."""
        return "captioning"

    def _add_encoder(self, config: CaptionerConfig) -> None:
        self.config = config
        self.encoder = inner_encoder(config.encoder, config.encoder_options).requires_grad_(not config.frozen)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.config.frozen:
            self.encoder.eval()
        return self

    def seen(self, pixel_values: Tensor | None, features: Tensor | None) -> Float[Tensor, "B P D"]:
        """The features of each image's cells, or of the whole image (P = 1)."""
        if features is None:
            if pixel_values is None:
                raise ShapeError("there is no image", expected="pixel_values [B,C,H,W] or features [B,P,D]")
            features = self.encoder.grid(pixel_values)
        if features.dim() != 3 or features.shape[2] != self.encoder.d_model:
            expected = f"[B, cells, {self.encoder.d_model}]"
            raise ShapeError("the features do not fit the model", got=list(features.shape), expected=expected)
        return features.mean(1, keepdim=True) if self.whole else features

    @property
    def vocab_size(self) -> int:
        return int(self.config.vocab_size)

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        device = next(self.parameters()).device
        return State(sources=sources, paths=paths, capacity=capacity, device=device)

    def _first_features(self, inputs: Mapping[str, Tensor]) -> Tensor:
        return self.seen(inputs.get("pixel_values"), inputs.get("features"))
