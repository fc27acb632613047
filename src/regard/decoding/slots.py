"""Which slots are taken. They stay a run from 0 on without gaps, so that a model reads them without copying."""

from __future__ import annotations

from collections.abc import Iterable


class Slots:
    """`size` slots, taken in blocks by whoever needs them."""

    def __init__(self, size: int) -> None:
        self.size, self._blocks = size, dict[int, list[int]]()
        self.scattered = False
        """Whether some block is no run of slots any more; blocks of one size always are."""

    @property
    def used(self) -> int:
        return sum(map(len, self._blocks.values()))

    def __getitem__(self, owner: int) -> list[int]:
        return self._blocks[owner]

    def fits(self, count: int) -> bool:
        return self.used + count <= self.size

    def take(self, owner: int, count: int) -> list[int]:
        """The next slots."""
        self._blocks[owner] = list(range(self.used, self.used + count))
        return self._blocks[owner]

    def release(self, owners: Iterable[int]) -> dict[int, int]:
        """Give blocks back. Slots past the end of what is left move into the gaps: {old: new}."""
        for owner in owners:
            self._blocks.pop(owner, None)
        taken = {slot for block in self._blocks.values() for slot in block}
        outside = sorted(slot for slot in taken if slot >= len(taken))
        gaps = [slot for slot in range(len(taken)) if slot not in taken]
        moves = dict(zip(outside, gaps, strict=True))
        for block in self._blocks.values():
            block[:] = [moves.get(slot, slot) for slot in block]
        self.scattered = any(block != list(range(block[0], block[0] + len(block))) for block in self._blocks.values())
        return moves
