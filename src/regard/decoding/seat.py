"""A request that is reading its prompt."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from regard.decoding.group import Group
from regard.decoding.request import Request


@dataclass
class Seat:
    """A request that has begun but has not read its whole prompt."""

    ticket: int
    request: Request
    group: Group
    facts: dict[str, int]
    read: int = 0
    cover_K: Tensor | None = field(default=None, repr=False)

    @property
    def left(self) -> int:
        return len(self.request.prefix) + 1 - self.read
