"""Associative recall: items of three vectors each, then one item again; the answer is the item that followed it.

As a text: "1011 0010 1110 | 0001 0100 1111 ? 1011 0010 1110". There is a delimiter before each item; the second control
channel is 1 before and after the repeated item.
"""

from __future__ import annotations

import numpy as np

from regard.data.bit_tasks._steps import Bits, BitTask, Steps

_ITEM = 3


class AssociativeRecall(BitTask):
    example = "1011 0010 1110 | 0001 0100 1111 ? 1011 0010 1110"
    shortest = 2

    def vectors(self, length: int) -> int:
        return _ITEM * length

    def choices(self, length: int) -> int:
        return length - 1

    def n_steps(self, length: int, choice: int) -> int:
        return (_ITEM + 1) * length + (_ITEM + 2) + _ITEM

    def make(self, vectors: Bits, choice: int) -> Steps:
        items = vectors.reshape(-1, _ITEM, self.bits)
        read: list[tuple[Bits | None, float, float]] = []
        for item in items:
            read += [(None, 1.0, 0.0), *((vector, 0.0, 0.0) for vector in item)]
        read += [(None, 0.0, 1.0), *((vector, 0.0, 0.0) for vector in items[choice]), (None, 0.0, 1.0)]
        return self.laid_out(read, items[choice + 1])

    def read(self, text: str) -> Steps:
        listed, mark, query = text.partition("?")
        parts = [self.words(part) for part in listed.split("|")]
        asked = self.words(query) if mark else None
        if asked is None or len(parts) < self.shortest or any(len(part) != _ITEM for part in parts):
            raise self.wrong(f"{len(parts)} items" if mark else "no item after ?")
        places = [place for place, part in enumerate(parts[:-1]) if np.array_equal(part, asked)]
        if not places:
            raise self.wrong("an item after ? that is not among those with a follower")
        return self.make(np.concatenate(parts), places[0])
