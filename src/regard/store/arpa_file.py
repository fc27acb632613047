"""ARPA files of n-gram models, as SRILM and kenlm read and write them; plain or compressed (.gz, .xz).

    \\data\\                      how many n-grams of each order there are
    ngram 1=10000
    \\1-grams:                   log10 p, the words, and log10 of the back-off weight if longer n-grams begin with them
    -2.41   the   -0.57
    \\end\\

A probability of 0 is written as -99. The counts that a file announces are compared with its contents, and memory is
allocated only for lines that have been read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.core.lines import open_bytes, read_lines

ZERO = -99.0
_HIGHEST = 10
_HEAD = 1 << 14
_SHORTEST_LINE, _BEST_PACKING = 4, 1100
_COUNT = re.compile(r"ngram (\d{1,2})\s*=\s*(\d{1,15})$")
_REMEDY = "Write it again, or download it again."


@dataclass(frozen=True)
class Section:
    """The n-grams of one order, as the file lists them."""

    words: list[list[str]]
    log_probs: NDArray[np.float64]
    """Base 10."""
    backoffs: NDArray[np.float64]
    """Base 10; NaN if the file gives no number."""


def is_arpa(path: Path) -> bool:
    """Whether a file begins as an ARPA file does, after at most some lines of comment."""
    if not path.is_file():
        return False
    try:
        with open_bytes(path) as file:
            return re.search(rb"(?:^|\n)\\data\\\s", file.read(_HEAD)) is not None
    except DataError:
        return False


def read_arpa(path: Path) -> list[Section]:
    """The sections of a file, orders 1, 2, …"""
    lines = ((number, text) for number, line in enumerate(read_lines(path), 1) if (text := line.strip()))
    counts = _counts(path, lines)
    _check_size(path, counts)
    sections = [_section(path, lines, order, count, len(counts)) for order, count in enumerate(counts, 1)]
    if next(lines, (0, ""))[1] != "\\end\\":
        raise DataError(f"{path} is cut short", got="no \\end\\ after its n-grams", remedy=_REMEDY)
    return sections


def _counts(path: Path, lines: Iterator[tuple[int, str]]) -> list[int]:
    counts: list[int] = []
    for _, line in lines:
        if line == "\\data\\":
            break
    for number, line in lines:
        if line == "\\1-grams:":
            break
        match = _COUNT.match(line)
        if match is None or int(match[1]) != len(counts) + 1 or len(counts) == _HIGHEST:
            expected = f"ngram {len(counts) + 1}=…, at most {_HIGHEST} orders"
            raise DataError(f"line {number} of {path} is no count of n-grams", got=line[:40], expected=expected)
        counts.append(int(match[2]))
    if not counts:
        raise DataError(f"{path} announces no n-grams", expected="lines such as ngram 1=10000 after \\data\\")
    return counts


def _check_size(path: Path, counts: Sequence[int]) -> None:
    """Refuse counts that no file of this size can hold, from the shortest possible line and the best compression."""
    packed = path.suffix.lower() in (".gz", ".xz")
    most = path.stat().st_size * (_BEST_PACKING if packed else 1) // _SHORTEST_LINE
    if sum(counts) > most:
        raise DataError(
            f"{path} announces more n-grams than it can hold", got=f"{sum(counts):,}", expected=f"at most {most:,}"
        )


def _section(path: Path, lines: Iterator[tuple[int, str]], order: int, count: int, highest: int) -> Section:
    words: list[list[str]] = []
    log_probs: list[float] = []
    backoffs: list[float] = []
    while len(words) < count:
        number, line = next(lines, (0, "\\end\\"))
        if line.startswith("\\") and (line == "\\end\\" or line.endswith("-grams:")):
            raise _miscounted(path, order, count, len(words))
        cells = line.split()
        if not order + 1 <= len(cells) <= order + 2 or (order == highest and len(cells) > order + 1):
            raise DataError(f"line {number} of {path} is no {order}-gram", got=line[:60], remedy=_REMEDY)
        words.append(cells[1 : order + 1])
        log_probs.append(_number(path, number, cells[0], most=1e-6))
        backoffs.append(_number(path, number, cells[order + 1]) if len(cells) > order + 1 else math.nan)
    if order < highest:
        number, line = next(lines, (0, "\\end\\"))
        if line != f"\\{order + 1}-grams:":
            more = 0 if line.startswith("\\") else 1 + sum(1 for _ in takewhile(_is_ngram, lines))
            if not more:
                expected = f"\\{order + 1}-grams:"
                raise DataError(f"line {number} of {path} is damaged", got=line[:40], expected=expected, remedy=_REMEDY)
            raise _miscounted(path, order, count, count + more)
    return Section(words, np.array(log_probs), np.array(backoffs))


def _number(path: Path, line: int, text: str, most: float = 1e6) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value) or value > most:
        kind = "a log10 of a probability, 0 or less" if most < 1 else "a number"
        raise DataError(f"line {line} of {path} is damaged", got=text[:40], expected=kind, remedy=_REMEDY)
    return value


def _is_ngram(numbered: tuple[int, str]) -> bool:
    return not numbered[1].startswith("\\")


def _miscounted(path: Path, order: int, count: int, got: int) -> DataError:
    return DataError(
        f"{path} has a wrong count of {order}-grams",
        got=f"{got:,} of them",
        expected=f"{count:,}, as it announces",
        remedy=f"It is damaged or cut short: write or download it again, or correct its line 'ngram {order}={count}'.",
    )


def arpa_lines(sections: Sequence[Section]) -> Iterator[str]:
    """The lines of a file, with their ends."""
    yield "\\data\\\n"
    for order, section in enumerate(sections, 1):
        yield f"ngram {order}={len(section.words)}\n"
    for order, section in enumerate(sections, 1):
        yield f"\n\\{order}-grams:\n"
        numbers = zip(section.words, _rounded(section.log_probs), _rounded(section.backoffs), strict=True)
        for words, log_prob, backoff in numbers:
            left = "" if math.isnan(backoff) else f"\t{backoff:.7g}"
            yield f"{log_prob:.7g}\t{' '.join(words)}{left}\n"
    yield "\n\\end\\\n"


def _rounded(values: NDArray[np.float64]) -> list[float]:
    """Python numbers, with -99 for the logarithm of 0."""
    limited: list[float] = np.maximum(values, ZERO).tolist()
    return limited
