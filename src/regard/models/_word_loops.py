"""The loops of word2vec and GloVe: in C (`_word_vectors.c`) if the machine has a compiler, otherwise in numpy.

Both draw the same random numbers and, with one thread, give the same result up to rounding. Numpy is some hundred times
slower. With several threads the C loops share the weights without locks, so that runs differ slightly; set
OMP_NUM_THREADS=1 for bit-identical runs.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import UsageError
from regard.core.native import Missing, library

Array = NDArray[Any]
_SOURCE = Path(__file__).with_name("_word_vectors.c")
_VERSION = 1
_PIECE = 10_000
# The first ids of every vocabulary that is made here are special tokens; the last of them ends a document.
FIRST_WORD, END = 4, 3
_number, _place, _real = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double


class _Word2vec(ctypes.Structure):
    """See _word_vectors.c."""

    _fields_ = [
        *(("tokens", _place), ("count", _number), ("first", _number), ("key", ctypes.c_uint64)),
        *((name, _place) for name in ("input", "output")),
        *((name, _number) for name in ("width", "vocabulary", "specials", "end")),
        *((name, _place) for name in ("keep", "stay", "alias")),
        *((name, _number) for name in ("window", "negative", "cbow", "threads")),
        *((name, _real) for name in ("lr", "done", "total", "loss", "pairs")),
    ]


class _Glove(ctypes.Structure):
    """See _word_vectors.c."""

    _fields_ = [
        *((name, _place) for name in ("order", "rows", "columns", "counts")),
        *((name, _number) for name in ("count", "width", "threads")),
        *((name, _place * 2) for name in ("vectors", "biases", "vector_sums", "bias_sums")),
        *((name, _real) for name in ("lr", "limit", "power", "loss")),
    ]


@functools.cache
def compiled() -> ctypes.CDLL | Missing:
    """The loops in C, or the reason why there are none."""
    loops = library(_SOURCE)
    if isinstance(loops, Missing):
        return loops
    if loops.word_loops_version() != _VERSION:
        return Missing(f"{_SOURCE.name} is of another version")
    for name, kind in (("word2vec", _Word2vec), ("glove", _Glove)):
        function = getattr(loops, name)
        function.argtypes, function.restype = (ctypes.POINTER(kind),), _number
    return loops


def random_key(seed: int, epoch: int) -> int:
    """The key of an epoch's random numbers."""
    return int.from_bytes(hashlib.sha256(f"{seed} {epoch}".encode()).digest()[:8], "little")


@dataclass(frozen=True)
class Sampling:
    """The distributions of the random draws, from word counts: which words are kept, and the noise words.

    keep    min(1, √(s/f) + s/f) for a word with share f of the text, as in word2vec's code; s = `sample`
    noise   proportional to count^`power`, as an alias table (Walker 1977)
    """

    keep: Array
    stay: Array
    alias: Array

    @classmethod
    def of(cls, counts: Array, *, sample: float, power: float) -> Sampling:
        share = counts / max(1, counts.sum())
        ratio = np.divide(sample, share, out=np.full(len(counts), np.inf), where=share > 0)
        kept = np.minimum(1.0, np.sqrt(ratio) + ratio) if sample > 0 else np.ones(len(counts))
        most = np.float64(2**32 - 1)
        weights = np.where(counts > 0, counts.astype(np.float64) ** power, 0.0)
        stay, alias = _alias_table(weights / weights.sum())
        return cls((kept * most).astype(np.uint32), (stay * most).astype(np.uint32), alias)


def _alias_table(shares: Array) -> tuple[Array, Array]:
    """If n is drawn uniformly, and kept with probability stay[n] or else replaced by alias[n], words have `shares`."""
    stay, alias = shares * len(shares), np.arange(len(shares), dtype=np.int32)
    small, large = [list(np.flatnonzero(side)) for side in (stay < 1, stay >= 1)]
    while small and large:
        low, high = small.pop(), large[-1]
        alias[low] = high
        stay[high] -= 1 - stay[low]
        if stay[high] < 1:
            small.append(large.pop())
    stay[[*small, *large]] = 1.0
    return stay, alias


@dataclass(frozen=True)
class Passage:
    """Consecutive tokens, the index of the first token in the text, and the number of tokens done in all epochs."""

    tokens: Tensor
    first: int
    done: int


@dataclass(frozen=True)
class Word2vecLoop:
    """The weights (changed in place), the settings, and the random key of an epoch."""

    input: Tensor
    output: Tensor
    sampling: Sampling
    window: int
    negative: int
    cbow: bool
    specials: int
    end: int
    lr: float
    total: int
    key: int

    def train(self, passage: Passage) -> tuple[float, float]:
        """Train on the passage; return the summed loss and the number of predictions in the sum."""
        tokens = passage.tokens
        assert tokens.dtype == torch.int32
        assert tokens.is_contiguous()
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < len(self.input):
            raise UsageError("a token is not in the vocabulary", got=int(tokens.max()), expected=len(self.input))
        loops = compiled()
        if isinstance(loops, Missing):
            from regard.models._word_loops_plain import train_word2vec

            return train_word2vec(self, passage, _PIECE)
        work = _Word2vec(
            *(tokens.data_ptr(), len(tokens), passage.first, self.key),
            *(self.input.data_ptr(), self.output.data_ptr(), self.input.shape[1], len(self.input)),
            *(self.specials, self.end),
            *(array.ctypes.data for array in (self.sampling.keep, self.sampling.stay, self.sampling.alias)),
            *(self.window, self.negative, self.cbow, torch.get_num_threads()),
            *(self.lr, passage.done, self.total, 0.0, 0.0),
        )
        _run(loops.word2vec, work)
        return work.loss, work.pairs


@dataclass(frozen=True)
class GloveLoop:
    """Weights and AdaGrad's sums (changed in place), of words and of contexts, and the settings."""

    vectors: tuple[Tensor, Tensor]
    biases: tuple[Tensor, Tensor]
    vector_sums: tuple[Tensor, Tensor]
    bias_sums: tuple[Tensor, Tensor]
    lr: float
    limit: float
    power: float

    def train(self, rows: Array, columns: Array, counts: Array, order: Array) -> float:
        """Make one update for each entry of the table, in this order; return the summed loss."""
        loops = compiled()
        if isinstance(loops, Missing):
            from regard.models._word_loops_plain import train_glove

            return train_glove(self, rows, columns, counts, order)
        pairs = (self.vectors, self.biases, self.vector_sums, self.bias_sums)
        work = _Glove(
            *(array.ctypes.data for array in (order, rows, columns, counts)),
            *(len(order), self.vectors[0].shape[1], torch.get_num_threads()),
            *((_place * 2)(*(tensor.data_ptr() for tensor in pair)) for pair in pairs),
            *(self.lr, self.limit, self.power, 0.0),
        )
        _run(loops.glove, work)
        return float(work.loss)


def _run(function: Callable[..., int], work: ctypes.Structure) -> None:
    if not function(ctypes.byref(work)):
        raise MemoryError("there is not enough memory for the word vectors' loops")
