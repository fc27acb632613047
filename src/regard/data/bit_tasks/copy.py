"""Copy: a sequence of random vectors, a delimiter, then the same sequence.

As a text: "1011 0010 1110".
"""

from __future__ import annotations

from regard.data.bit_tasks._steps import Bits, BitTask, Steps


class Copy(BitTask):
    example = "1011 0010 1110"

    def n_steps(self, length: int, choice: int) -> int:
        return 2 * length + 1

    def make(self, vectors: Bits, choice: int = 0) -> Steps:
        return self.laid_out([*((vector, 0.0, 0.0) for vector in vectors), (None, 1.0, 0.0)], vectors)

    def read(self, text: str) -> Steps:
        return self.make(self.words(text))
