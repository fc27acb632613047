"""Training one model in several processes: the rank of each, and how they agree on numbers.

    torchrun --nproc-per-node 2 -m regard train recipe.yaml

Every process gets its share of each batch's rows and sums gradients with the others (torch's DistributedDataParallel
over gloo), so a run equals that of one process with whole batches. The processes agree here on all numbers that affect
decisions, such as the number of tokens in a batch or whether to stop. Only the first process writes and validates.
"""

from __future__ import annotations

import contextlib
import datetime
import os
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class World:
    """This process among all of them."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sums(self, *numbers: float) -> list[float]:
        """Sum each number over the processes."""
        if self.size == 1:
            return list(numbers)
        together = torch.tensor(numbers, dtype=torch.float64)
        distributed.all_reduce(together)
        return together.tolist()

    def from_first(self, number: float) -> float:
        """The number of the first process."""
        if self.size == 1:
            return number
        told = torch.tensor(number, dtype=torch.float64)
        distributed.broadcast(told, 0)
        return told.item()

    def all_of(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, by rank."""
        if self.size == 1:
            return [tensor]
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        distributed.all_gather(parts, tensor)
        return parts

    def wait(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            distributed.barrier()


def join_world() -> World:
    """The processes that `torchrun` started, or this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if not distributed.is_initialized():
        # While the first process prepares data or searches, the others wait: for hours, if that is what it takes.
        distributed.init_process_group("gloo", timeout=datetime.timedelta(days=30))
    return World(distributed.get_rank(), size)


def synchronised(module: nn.Module, last: bool) -> contextlib.AbstractContextManager[object]:
    """Sum gradients over the processes once per update, with its last batch."""
    if last or not isinstance(module, DistributedDataParallel):
        return contextlib.nullcontext()
    return module.no_sync()
