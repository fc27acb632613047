"""Generated tasks on sequences of bits (Graves et al. 2014). Each file is a task, which is found by the file's name.

A task turns vectors of bits and one choice into `Steps`: the machine's input at each step, and the right answers at
the steps where it is asked. It also reads a text such as "10110101 00101101", in which each word is a vector.
"""

from __future__ import annotations

from regard.core import lookup
from regard.data.bit_tasks._steps import BitTask, Steps

__all__ = ["BitTask", "Steps", "make_bit_task"]


def make_bit_task(name: str, bits: int) -> BitTask:
    """The task of file `name`, on vectors of `bits` bits."""
    task: BitTask = lookup.find(__name__, name)(bits)
    return task
