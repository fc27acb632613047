"""The interface of generated tasks on bits: steps to read and to answer."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import UsageError

Bits = NDArray[np.float32]
MOST_STEPS = 100_000
"""The limit for one row, so that a short text cannot ask for more than memory holds."""
CONTROLS = 2
"""Channels beside the bits: for delimiters, and for a number or a query."""


class Steps(NamedTuple):
    """`inputs` [T,I] are read, one row per step; `targets` [T,O] are the right answers where `asked` [T] is True."""

    inputs: Bits
    targets: Bits
    asked: NDArray[np.bool_]
    labels: list[str]
    """Names the steps: the bits that are read, a delimiter, or the number of an answer."""


class BitTask(ABC):
    example: ClassVar[str]
    """A text with vectors of four bits."""
    shortest: ClassVar[int] = 1

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.d_input, self.d_output = bits + CONTROLS, bits

    def vectors(self, length: int) -> int:
        """How many vectors make a sequence of this length."""
        return length

    def choices(self, length: int) -> int:
        """The number of choices for a sequence of this length: which item is asked for, or how many copies."""
        return 1

    @abstractmethod
    def n_steps(self, length: int, choice: int) -> int:
        """The number of steps to read a sequence and to answer."""

    @abstractmethod
    def make(self, vectors: Bits, choice: int) -> Steps:
        """The steps for these vectors [N,bits] and the choice numbered from 0."""

    @abstractmethod
    def read(self, text: str) -> Steps:
        """The steps for a text of vectors."""

    def words(self, text: str) -> Bits:
        """Vectors from words such as 1011."""
        words = text.split()
        for word in words:
            if len(word) != self.bits or set(word) - {"0", "1"}:
                raise self.wrong(f"the word {word[:40]!r}")
        if not 0 < len(words) <= MOST_STEPS // 2:
            raise self.wrong(f"{len(words)} vectors")
        return np.array([[float(bit) for bit in word] for word in words], dtype=np.float32)

    @property
    def text(self) -> str:
        """`example` with vectors of as many bits as the model's."""
        return re.sub("[01]{4}", lambda word: (word[0] * self.bits)[: self.bits], self.example)

    def wrong(self, got: str) -> UsageError:
        return UsageError(
            "this text is not a sequence of bits for the model",
            got=got,
            expected=f"vectors of {self.bits} bits, such as {self.text}",
        )

    def laid_out(self, read: list[tuple[Bits | None, float, float]], answers: Bits) -> Steps:
        """Steps that read (a vector or None, and both controls), then one step without input for each answer."""
        n_read, total = len(read), len(read) + len(answers)
        inputs = np.zeros((total, self.d_input), dtype=np.float32)
        targets, asked = np.zeros((total, self.d_output), dtype=np.float32), np.zeros(total, dtype=np.bool_)
        labels = []
        for step, (vector, first, second) in enumerate(read):
            inputs[step, self.bits :] = first, second
            if vector is not None:
                inputs[step, : self.bits] = vector
            labels.append(written(vector) if vector is not None else "|" if first else "?")
        targets[n_read:], asked[n_read:] = answers, True
        return Steps(inputs, targets, asked, [*labels, *(f"answer {n}" for n in range(1, len(answers) + 1))])


def written(vector: NDArray[np.float32]) -> str:
    """Bits as a word."""
    return "".join("1" if bit > 0.5 else "0" for bit in vector)
