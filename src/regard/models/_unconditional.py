"""The methods other than `step` that decoding needs, for a language model without inputs before its first token."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from torch import Tensor, nn

from regard.core.state import State


class Unconditional(nn.Module):
    """A model with `config.vocab_size`, and with a state that begins empty."""

    config: Any

    @property
    def vocab_size(self) -> int:
        return int(self.config.vocab_size)

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        device = next(chain(self.parameters(), self.buffers())).device
        return State(sources=sources, paths=paths, capacity=capacity, device=device)

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        """Nothing is read before the first token."""
