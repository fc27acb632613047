"""Prepared models: they give the same results as the original model, but run its blocks on packed weights."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.attention import Mask
from regard.attention.causal_positions import step_positions
from regard.core import taps
from regard.core.devices import HOST
from regard.core.state import Rows, State
from regard.runtime.native import Kernels
from regard.runtime.products import Product
from regard.runtime.program import Program
from regard.runtime.release import release
from regard.runtime.stack import Block, Pack, Spread, why_not


def cannot(model: Any) -> str | None:
    """The reason why a model cannot be prepared; None if it can."""
    blocks = [*getattr(model, "decoder", []), *getattr(model, "encoder", [])] if _is_stack(model) else []
    if not blocks:
        return f"{type(model).__name__} is not made of Transformer blocks"
    weight = next(model.parameters())
    if weight.dtype != torch.float32 or weight.device != HOST:
        return f"weights of {weight.dtype} on {weight.device}"
    return next(filter(None, map(why_not, blocks)), None)


def _is_stack(model: Any) -> bool:
    """Whether the model's encoder and decoder, if it has them, are lists of blocks."""
    sides = [getattr(model, side) for side in ("encoder", "decoder") if hasattr(model, side)]
    return all(isinstance(side, torch.nn.ModuleList) for side in sides)


class PreparedEncoder:
    """An encoder such as BERT or ViT. It is called like the model; the parts around the blocks are unchanged."""

    def __init__(self, model: Any, pack: Pack, kernels: Kernels) -> None:
        self.model = model
        self._quick = copy.copy(model)
        self._quick._modules = {
            **model._modules,
            "encoder": torch.nn.ModuleList([_Stack(model.encoder, pack, kernels)]),
        }

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        plain = taps.watched() or torch.is_grad_enabled() or self.model.training
        return (self.model if plain else self._quick)(*inputs, **named)


class _Stack(torch.nn.Module):
    """All blocks of an encoder as one block."""

    def __init__(self, blocks: Iterable[Any], pack: Pack, kernels: Kernels) -> None:
        super().__init__()
        self._blocks = _packed(blocks, pack, kernels)

    def forward(self, x_BTD: Tensor, *, mask: Mask | None = None, positions: Tensor | None = None) -> Tensor:
        places = torch.arange(x_BTD.shape[1]) if positions is None else positions
        return run_blocks(self._blocks, x_BTD, mask, places)


def _packed(blocks: Iterable[Any], pack: Pack, kernels: Kernels) -> list[Block]:
    result = []
    for block in blocks:
        result.append(Block(block, pack))
        release(block.parameters(), kernels)  # block by block, so that only one block is ever in memory twice
    return result


def run_blocks(blocks: Iterable[Block], x_BTD: Tensor, mask: Mask | None, positions: Tensor) -> Tensor:
    """Run whole sequences through a stack of blocks; the outputs of padding are zeros."""
    batch, length, _ = x_BTD.shape
    spread = Spread(batch, length, None if mask is None else mask.keys)
    x_MD = spread.back(x_BTD.flatten(0, 1))
    for block in blocks:
        x_MD = block.whole(x_MD, spread, mask, positions)
    return spread.out(x_MD).view(batch, length, -1)


class Prepared:
    """A `Decodable`. Steps under a `taps.watch`, and forced prefixes of translations, run on the model itself."""

    def __init__(self, model: Any, pack: Pack, kernels: Kernels) -> None:
        self.model = model
        self.coverage_site, self.longest = model.coverage_site, model.longest
        self._blocks = _packed(model.decoder, pack, kernels)
        self._encoder = _packed(getattr(model, "encoder", []), pack, kernels)
        self._norm = model.decoder_norm if self._encoder else model.norm
        bias = getattr(model.output, "bias", None)
        self._pack = pack
        self._output = pack(model.output.weight, bias)
        release([model.output.weight], kernels)
        self._reach = getattr(model, "reach", None)
        self._step = Program(self._blocks, self._norm, self._output, kernels)

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the model itself on whole texts."""
        return self.model(*inputs, **named)

    @property
    def vocab_size(self) -> int:
        return int(self.model.vocab_size)

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        state: State = self.model.new_state(sources=sources, paths=paths, capacity=capacity)
        return state

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        if not self._encoder or self._plain():
            self.model.read(inputs, state, sources_R)
            return
        source, mask = inputs["source"], inputs["source_mask"]
        model, n_rows = self.model, len(source)
        positions = torch.arange(source.shape[1])
        x_BSD = model.source_position.embed(model.source_embedding(source), positions)
        x_BSD = model.encoder_norm(run_blocks(self._encoder, x_BSD, Mask(keys=mask), positions))
        state.put_sources("source_mask", sources_R, mask, dim=1)
        for index, block in enumerate(self._blocks):
            assert block.cross is not None
            for name, part in zip(("keys", "values"), block.cross.prepare(x_BSD.flatten(0, 1), n_rows), strict=True):
                state.put_sources(f"{index}.cross.{name}", sources_R, part, dim=2)

    def selects(self, tokens_NT: Tensor) -> bool:
        """Whether a step with these tokens can use an output layer for only some tokens of the vocabulary."""
        return tokens_NT.shape[1] == 1 and not self._plain()

    def output_of(self, tokens_C: Tensor) -> Product:
        """The output layer for some tokens of the vocabulary."""
        bias = getattr(self.model.output, "bias", None)
        with torch.inference_mode():
            return self._pack(self.model.output.weight[tokens_C], None if bias is None else bias[tokens_C])

    def step(
        self,
        tokens_NT: Tensor,
        counts_N: Tensor,
        paths_N: Tensor,
        state: State,
        output: Product | None = None,
    ) -> Tensor:
        """As `Decodable.step`. If `output` is given, it replaces the output layer."""
        several = tokens_NT.shape[1] > 1
        if self._plain() or (several and self._encoder):
            logits: Tensor = self.model.step(tokens_NT, counts_N, paths_N, state)
            return logits
        if several:
            rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
            return self._output(self._norm(rows.last(self._read_tokens(rows, tokens_NT))))
        rows = state.rows(paths_N, counts_N, 1)
        positions = rows.starts_N[:1] if rows.uniform_start is not None else rows.positions_NT
        x_ND = self.model.embed(tokens_NT, positions)[:, 0]
        sources_N = state.source_P[paths_N] if self._encoder else None
        logits_NV = self._step(x_ND, rows, positions, self._reach, sources_N, output or self._output)
        rows.advance()
        return logits_NV

    def verify(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, state: State) -> Tensor:
        """The logits after each of several tokens [N,T,V]."""
        if self._plain():
            logits: Tensor = self.model.verify(tokens_NT, counts_N, paths_N, state)
            return logits
        x_NTD = self._read_tokens(state.rows(paths_N, counts_N, tokens_NT.shape[1]), tokens_NT)
        return self._output(self._norm(x_NTD).flatten(0, 1)).unflatten(0, tokens_NT.shape)

    def _read_tokens(self, rows: Rows, tokens_NT: Tensor) -> Tensor:
        """Run several tokens of each path through the blocks; return their states [N,T,D]."""
        positions, mask = step_positions(rows, reach=self._reach)
        x_MD = self.model.embed(tokens_NT, positions).flatten(0, 1)
        for index, block in enumerate(self._blocks):
            x_MD = block.prompt(x_MD, rows, index, mask, positions)
        rows.advance()
        return x_MD.view(*tokens_NT.shape, -1)

    def _plain(self) -> bool:
        """Whether the model itself must run: under a watch, or in training mode."""
        return taps.watched() or bool(self.model.training)
