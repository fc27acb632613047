"""A Transformer whose encoder reads the patches of an image."""

from __future__ import annotations

import torch
from pydantic import Field

from regard.attention import Mask
from regard.core.output import Output
from regard.layers.embedding import PatchEmbedding
from regard.models.transformer import Transformer, TransformerConfig


class GlimpserConfig(TransformerConfig):
    d_model: int = 32
    n_heads: int = 4
    d_ff: int = 64
    n_encoder_layers: int = 1
    n_decoder_layers: int = 1
    dropout: float = 0.0
    image_size: int = Field(16, gt=0)
    patch_size: int = Field(8, gt=0)


class Glimpser(Transformer):
    Config = GlimpserConfig
    SIZES = {}  # noqa: RUF012

    @staticmethod
    def task_of(config) -> str:
        return "naming"

    def __init__(self, config: GlimpserConfig) -> None:
        super().__init__(config)
        self.patches = PatchEmbedding(config.image_size, config.patch_size, config.d_model)

    def look(self, pixel_values):
        patches = self.patches(pixel_values)
        x = self.source_position.embed(patches, torch.arange(patches.shape[1]))
        for block in self.encoder:
            x = block(x)
        return self.encoder_norm(x)

    def forward(self, pixel_values, target) -> Output:
        memory = self.look(pixel_values)
        prepared = [block.cross.prepare(memory) for block in self.decoder]
        hidden = self._decode(target, prepared, Mask(), None)
        return Output(hidden, lambda: self.output(hidden))

    def read(self, inputs, state, sources_R) -> None:
        memory = self.look(inputs["pixel_values"])
        state.put_sources("source_mask", sources_R, torch.ones(memory.shape[:2], dtype=torch.bool), dim=1)
        for index, block in enumerate(self.decoder):
            for name, part in block.cross.prepare(memory)._asdict().items():
                state.put_sources(f"{index}.cross.{name}", sources_R, part, dim=2)
