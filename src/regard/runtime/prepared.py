"""A model that generates the same as another, faster: the other's state, with steps through packed products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.attention import Mask
from regard.core import taps
from regard.core.state import State
from regard.runtime.native import Kernels
from regard.runtime.stack import Block, Pack, why_not


def cannot(model: Any) -> str | None:
    """What keeps a model from being prepared; None: nothing does."""
    blocks = getattr(model, "decoder", None)
    if not isinstance(blocks, torch.nn.ModuleList) or not hasattr(model, "embed"):
        return f"{type(model).__name__} is not made of Transformer blocks"
    weight = next(model.parameters())
    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        return f"weights of {weight.dtype} on {weight.device}"
    reasons = (why_not(block) for block in [*blocks, *getattr(model, "encoder", [])])
    return next(filter(None, reasons), None)


class Prepared:
    """A `Decodable`. Steps of several tokens, and those that somebody watches, run on the model itself."""

    def __init__(self, model: Any, pack: Pack, kernels: Kernels) -> None:
        self.model = model
        self.coverage_site, self.longest = model.coverage_site, model.longest
        self._blocks = [Block(block, pack, kernels) for block in model.decoder]
        self._encoder = [Block(block, pack, kernels) for block in getattr(model, "encoder", [])]
        self._norm = model.decoder_norm if self._encoder else model.norm
        bias = getattr(model.output, "bias", None)
        self._output = pack(model.output.weight, bias)
        self._reach = getattr(model, "reach", None)

    @property
    def vocab_size(self) -> int:
        return int(self.model.vocab_size)

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        state: State = self.model.new_state(sources=sources, paths=paths, capacity=capacity)
        return state

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        if not self._encoder or taps.watched():
            self.model.read(inputs, state, sources_R)
            return
        source, mask = inputs["source"], inputs["source_mask"]
        positions = torch.arange(source.shape[1])
        model, allowed = self.model, Mask(keys=mask)
        x_MD = model.source_position.embed(model.source_embedding(source), positions).flatten(0, 1)
        for block in self._encoder:
            x_MD = block.whole(x_MD, len(source), allowed, positions)
        x_MD = model.encoder_norm(x_MD)
        state.put_sources("source_mask", sources_R, mask, dim=1)
        for index, block in enumerate(self._blocks):
            assert block.cross is not None
            for name, part in zip(("keys", "values"), block.cross.prepare(x_MD, len(source)), strict=True):
                state.put_sources(f"{index}.cross.{name}", sources_R, part, dim=2)

    def step(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, state: State) -> Tensor:
        if tokens_NT.shape[1] > 1 or taps.watched():
            logits: Tensor = self.model.step(tokens_NT, counts_N, paths_N, state)
            return logits
        rows = state.rows(paths_N, counts_N, 1)
        positions = rows.starts_N[:1] if rows.uniform_start is not None else rows.positions_NT
        x_ND = self.model.embed(tokens_NT, positions)[:, 0]
        sources_N = state.source_P[paths_N] if self._encoder else None
        for index, block in enumerate(self._blocks):
            x_ND = block.step(x_ND, rows, index, positions, self._reach, sources_N)
        rows.advance()
        return self._output(self._norm(x_ND))
