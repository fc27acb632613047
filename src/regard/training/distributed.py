"""Several processes that train one model: who each is, and how they agree on numbers.

    torchrun --nproc-per-node 2 -m regard train recipe.yaml

Every process gets its share of each batch's rows and sums gradients with the others (torch's DistributedDataParallel
over gloo), so a run does what one process does with the whole batches. The numbers that decide anything, such as how
many tokens a batch has or whether to stop, are agreed on here; the first process alone writes and validates.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import Tensor, distributed


@dataclass(frozen=True)
class World:
    """This process among all of them."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sums(self, *numbers: float) -> list[float]:
        """Each number, summed over the processes."""
        if self.size == 1:
            return list(numbers)
        together = torch.tensor(numbers, dtype=torch.float64)
        distributed.all_reduce(together)
        return together.tolist()

    def from_first(self, number: float) -> float:
        """The number that the first process has."""
        if self.size == 1:
            return number
        told = torch.tensor(number, dtype=torch.float64)
        distributed.broadcast(told, 0)
        return told.item()

    def all_of(self, tensor: Tensor) -> list[Tensor]:
        """A tensor of each process, by rank."""
        if self.size == 1:
            return [tensor]
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        distributed.all_gather(parts, tensor)
        return parts

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            distributed.barrier()


def join_world() -> World:
    """The processes that `torchrun` started together; alone where it did not."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return World()
    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return World(distributed.get_rank(), size)
