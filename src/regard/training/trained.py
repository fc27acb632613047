"""The protocols between the engine, tasks and data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from regard.core.batch import Batch


class Task(Protocol):
    """What is learnt: the number of items in a batch's loss, their name, and the summed loss."""

    @property
    def unit(self) -> str: ...
    def count(self, batch: Batch) -> int: ...
    def loss(self, model: Any, batch: Batch) -> Tensor: ...


@runtime_checkable
class Carries(Protocol):
    """A task that may carry something from batch to batch (`carry`); checkpoints hold it."""

    carry: bool

    def carried(self) -> Mapping[str, Tensor]: ...
    def load_carried(self, tensors: Mapping[str, Tensor]) -> None: ...


class Data(Protocol):
    """The source of batches: the same batches in the same order for the same epoch, starting anywhere in it."""

    def batches_in_epoch(self, number: int) -> int: ...
    def epoch(self, number: int, start: int = 0, *, rank: int = 0, world: int = 1) -> Iterator[Batch]: ...


class Trained(nn.Module):
    """A model with its task: batch in, loss out."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Batch) -> Tensor:
        """The loss summed over the batch's items."""
        loss = self.task.loss(self.model, batch)
        return loss * 0.0 if batch.idle else loss
