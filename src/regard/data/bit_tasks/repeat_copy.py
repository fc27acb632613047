"""Repeat copy: a sequence of random vectors and a number; the answer is that number of copies and an end.

As a text: "1011 0010 x3" asks for three copies. The number is on the second control channel, divided by 10 (the paper
normalises it too); the end is a separate bit of the answer.
"""

from __future__ import annotations

import numpy as np

from regard.data.bit_tasks._steps import MOST_STEPS, Bits, BitTask, Steps

_MOST = 10


class RepeatCopy(BitTask):
    example = "1011 0010 x3"

    def __init__(self, bits: int) -> None:
        super().__init__(bits)
        self.d_output = bits + 1

    def choices(self, length: int) -> int:
        return _MOST

    def n_steps(self, length: int, choice: int) -> int:
        return length + 2 + length * (choice + 1)

    def make(self, vectors: Bits, choice: int) -> Steps:
        times = choice + 1
        answers = np.zeros((len(vectors) * times + 1, self.d_output), dtype=np.float32)
        answers[:-1, : self.bits], answers[-1, self.bits] = np.tile(vectors, (times, 1)), 1.0
        return self.laid_out([*((vector, 0.0, 0.0) for vector in vectors), (None, 1.0, times / _MOST)], answers)

    def read(self, text: str) -> Steps:
        body, _, times = text.strip().rpartition("x")
        if not times.isdecimal() or len(times) > 6 or int(times) < 1:
            raise self.wrong("no number of copies such as x3")
        vectors = self.words(body)
        if (steps := self.n_steps(len(vectors), int(times) - 1)) > MOST_STEPS:
            raise self.wrong(f"{steps:,} steps")
        return self.make(vectors, int(times) - 1)
