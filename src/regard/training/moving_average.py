"""An exponential moving average of the weights (Polyak and Juditsky 1992).

mean ← decay · mean + (1 − decay) · weights
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

PREFIX = "average/"
"""The prefix of its tensors' names in a checkpoint."""


class MovingAverage:
    """Starts with the weights of the first update; with a decay of 0 there is no average."""

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.tensors: dict[str, Tensor] = {}

    def update(self, model: nn.Module) -> None:
        """Move the average towards the weights."""
        if self.decay:
            for name, tensor in model.state_dict().items():
                mean = self.tensors.setdefault(name, tensor.clone())
                if tensor.is_floating_point():
                    mean.lerp_(tensor, 1 - self.decay)

    @contextlib.contextmanager
    def in_place_of(self, model: nn.Module) -> Iterator[None]:
        """Inside the block the model has the average as its weights, if there is one; then its own again."""
        if not self.tensors:
            yield
            return
        trained = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        _copy(self.tensors, model)
        try:
            yield
        finally:
            _copy(trained, model)


@torch.no_grad()
def _copy(tensors: Mapping[str, Tensor], model: nn.Module) -> None:
    """Write into the model's own tensors. `load_state_dict` would expect a counter for batch norms that have none."""
    for name, own in model.state_dict().items():
        own.copy_(tensors[name])
