"""Allocates slots. The slots in use are always 0, 1, 2, … without gaps, so that a model reads them without copying."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Slots:
    """`size` slots, which owners take in blocks."""

    def __init__(self, size: int) -> None:
        self.size, self._blocks = size, dict[int, list[int]]()
        self.scattered = False
        """Whether the slots of some block are no longer consecutive. If all blocks have one size, they always are."""

    @property
    def used(self) -> int:
        return sum(map(len, self._blocks.values()))

    def __getitem__(self, owner: int) -> list[int]:
        return self._blocks[owner]

    def fits(self, count: int) -> bool:
        return self.used + count <= self.size

    def take(self, owner: int, count: int) -> list[int]:
        """Take the next `count` slots for an owner."""
        self._blocks[owner] = list(range(self.used, self.used + count))
        return self._blocks[owner]

    def continued(self, old: Sequence[int], owners: Sequence[int]) -> tuple[list[int], list[tuple[int, int]]]:
        """A slot for each new path, which extends its owner's path in slot `old`, and the slots to copy as (from, to).

        The first path that extends an old path stays in its slot.
        """
        kept = set(old)
        free = {owner: iter([slot for slot in self._blocks[owner] if slot not in kept]) for owner in set(owners)}
        chosen, forks = list[int](), list[tuple[int, int]]()
        for slot, owner in zip(old, owners, strict=True):
            if slot in kept:
                kept.remove(slot)
                chosen.append(slot)
            else:
                chosen.append(next(free[owner]))
                forks.append((slot, chosen[-1]))
        return chosen, forks

    def release(self, owners: Iterable[int]) -> dict[int, int]:
        """Free the blocks of these owners. Slots beyond the number still in use move into the gaps: {old: new}."""
        freed = [slot for owner in owners for slot in self._blocks.pop(owner, ())]
        used = self.used
        gaps = sorted(slot for slot in freed if slot < used)
        if not gaps:
            return {}
        outside = sorted(slot for block in self._blocks.values() for slot in block if slot >= used)
        moves = dict(zip(outside, gaps, strict=True))
        for block in self._blocks.values():
            block[:] = [moves.get(slot, slot) for slot in block]
        self.scattered = any(block != list(range(block[0], block[0] + len(block))) for block in self._blocks.values())
        return moves
