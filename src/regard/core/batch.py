"""A batch: named tensors whose dimension 0 is the batch.

A batch also holds the row numbers of its examples in the dataset, so that a result, a bad loss or an explanation can
be traced back to its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import torch
from torch import Tensor

from regard.core.errors import ShapeError, UnknownName


@dataclass(frozen=True, eq=False)
class Batch:
    """`batch["ids"]` is a tensor; `rows` are row numbers in the dataset, empty where there is no dataset."""

    tensors: Mapping[str, Tensor]
    rows: tuple[int, ...] = ()
    idle: bool = False
    """True for a placeholder: this process got no rows of the batch, so its results must not count."""

    def __post_init__(self) -> None:
        # A plain dict, not a read-only proxy: batches travel between processes, and a proxy cannot.
        object.__setattr__(self, "tensors", dict(self.tensors))
        object.__setattr__(self, "rows", tuple(self.rows))
        sizes = {name: len(tensor) if tensor.ndim else None for name, tensor in self.tensors.items()}
        if self.rows:
            sizes["rows"] = len(self.rows)
        if None in sizes.values() or len(set(sizes.values())) > 1:
            got = ", ".join(f"{name} {'no dimensions' if size is None else size}" for name, size in sizes.items())
            raise ShapeError("the tensors of a batch differ in batch size", got=got, expected="one size in dimension 0")

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise UnknownName("tensor of the batch", name, self.tensors)
        return self.tensors[name]

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    @property
    def size(self) -> int:
        """The number of examples."""
        return next((len(tensor) for tensor in self.tensors.values()), len(self.rows))

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return replace(self, tensors={name: tensor.to(device) for name, tensor in self.tensors.items()})


def pad(sequences: Sequence[Sequence[int]], *, value: int, left: bool = False) -> tuple[Tensor, Tensor]:
    """Token sequences as ids [B,T], padded with `value`, and a mask [B,T] that is True at real tokens.

    T is the longest length. Padding goes after the tokens, or before them if `left`.
    """
    lengths_B = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.int64)
    longest = max(lengths_B.tolist(), default=0)
    steps_T = torch.arange(longest)
    mask_BT = (steps_T.flip(0) if left else steps_T) < lengths_B[:, None]
    ids_BT = torch.full(mask_BT.shape, value, dtype=torch.int64)
    # Boolean indexing fills the tensor row by row, which is also the order of the tokens.
    ids_BT[mask_BT] = torch.tensor(list(chain.from_iterable(sequences)), dtype=torch.int64)
    return ids_BT, mask_BT
