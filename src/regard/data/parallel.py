"""Sentence pairs: from two text files or one table, through the tokenizers, to token ids on disk.

Everything streams: a corpus may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice, zip_longest
from pathlib import Path

from regard.core.errors import DataError, UsageError
from regard.core.lines import read_lines
from regard.data.text import Tokenizer
from regard.data.token_pairs import TokenPairs, writing

__all__ = ["ParallelText", "Report", "TokenPairs", "encode"]
_CHUNK = 4096


@dataclass
class Report:
    """How many pairs were read and skipped, and why. `malformed` counts lines, the others count pairs."""

    pairs: int = 0
    malformed: int = 0
    empty: int = 0
    too_long: int = 0
    kept: int = 0
    cut: int = 0

    def count_malformed(self) -> None:
        self.malformed += 1

    def summary(self) -> str:
        """One line for a log or a terminal."""
        left_out = f"{self.empty} with an empty side, {self.too_long} too long"
        cut = f", {self.cut} sources cut" if self.cut else ""
        return f"{self.pairs} pairs: {self.kept} kept, {left_out}{cut}; {self.malformed} lines were not UTF-8"


class ParallelText:
    """Two files whose lines are translations of each other, or two columns of a table (see `tsv`).

    A pair is skipped if a side is empty or has more than `max_chars` characters. `part` leaves out some more.
    """

    def __init__(self, source: str | Path, target: str | Path, *, max_chars: int = 5000) -> None:
        self.files, self.max_chars = (Path(source), Path(target)), max_chars
        self.columns: tuple[int, int] | None = None
        self._keeps: Callable[[str], bool] = lambda source: True

    @classmethod
    def tsv(cls, path: str | Path, source: int = 0, target: int = 1, *, max_chars: int = 5000) -> ParallelText:
        """Columns `source` and `target`, counted from 0, of a file with tabs between columns and without quoting."""
        if min(source, target) < 0 or source == target:
            raise UsageError("two different columns are needed", got=(source, target), expected="numbers from 0 on")
        text = cls(path, path, max_chars=max_chars)
        text.columns = (source, target)
        return text

    def part(self, share: float, *, held_out: bool) -> ParallelText:
        """About this share of the text (`held_out`), or the rest of it.

        Only the words of a source decide which part it is in. So all translations of a sentence are in the same part,
        in every run and whatever the order of the file.
        """
        text = copy(self)
        text._keeps = lambda source: (_place(source) < share) == held_out
        return text

    def pairs(self, report: Report | None = None) -> Iterator[tuple[str, str]]:
        """Yield the pairs to keep, in order; the report also counts the skipped ones."""
        report = Report() if report is None else report
        for source, target in self._rows(report):
            if not self._keeps(source):
                continue
            report.pairs += 1
            if not source.strip() or not target.strip():
                report.empty += 1
            elif max(len(source), len(target)) > self.max_chars:
                report.too_long += 1
            else:
                report.kept += 1
                yield source, target

    def _rows(self, report: Report) -> Iterator[tuple[str, str]]:
        if self.columns is None:
            return _aligned(*self.files, report)
        return _columns(self.files[0], *self.columns, report)


def _place(source: str) -> float:
    """A number from 0 to 1 that depends on the text alone, and is spread evenly over texts."""
    return int.from_bytes(sha256(source.strip().encode("utf-8", "replace")).digest()[:8], "big") / 2**64


def _aligned(source: Path, target: Path, report: Report) -> Iterator[tuple[str, str]]:
    both = zip_longest(read_lines(source, report.count_malformed), read_lines(target, report.count_malformed))
    for number, (left, right) in enumerate(both):
        if left is None or right is None:
            longer = number + 1 + sum(1 for _ in both)
            counts = (number, longer) if left is None else (longer, number)
            raise DataError(
                "the two files of a parallel text differ in length",
                got=f"{counts[0]} lines in {source}, {counts[1]} in {target}",
                expected="line n of one to be the translation of line n of the other",
                remedy="Give two files of the same text, unfiltered or filtered together.",
            )
        yield left, right


def _columns(path: Path, source: int, target: int, report: Report) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_lines(path, report.count_malformed), 1):
        cells = line.split("\t") if line.strip() else [""] * (max(source, target) + 1)
        if len(cells) <= max(source, target):
            wanted = f"at least {max(source, target) + 1}, with tabs between them"
            raise DataError(f"line {number} of {path} lacks a column", got=f"{len(cells)} columns", expected=wanted)
        yield cells[source], cells[target]


def encode(
    pairs: Iterable[tuple[str, str]],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    folder: str | Path,
    *,
    max_tokens: int | None = None,
    cut_source: int | None = None,
    report: Report | None = None,
) -> TokenPairs:
    """Write the pairs as token ids into the folder, replacing its contents, and open it.

    Pairs are skipped if a side has no tokens or more than `max_tokens`, special tokens not counted. With `cut_source`,
    longer sources are cut to this number of tokens instead. Pass the report of `ParallelText.pairs`, so that it counts
    these pairs too.
    """
    report, stream, seen, kept = Report() if report is None else report, iter(pairs), 0, 0
    with writing(folder, source_tokenizer.vocab_size, target_tokenizer.vocab_size) as write:
        while chunk := list(islice(stream, _CHUNK)):
            sources = source_tokenizer.encode_batch([source for source, _ in chunk])
            targets = target_tokenizer.encode_batch([target for _, target in chunk])
            fitting = [
                (source[:cut_source], target)
                for source, target in zip(sources, targets, strict=True)
                if _fits([target] if cut_source else [source, target], max_tokens, report, empty=not source)
            ]
            report.cut += sum(cut_source is not None and len(source) > cut_source for source in sources)
            write(fitting)
            seen, kept = seen + len(chunk), kept + len(fitting)
        report.pairs, report.kept = max(report.pairs, seen), kept
        if not kept:
            raise DataError("no pair is left to encode", got=report.summary(), remedy="Check the files and the limits.")
    return TokenPairs.open(folder)


def _fits(sides: list[list[int]], max_tokens: int | None, report: Report, *, empty: bool) -> bool:
    """Whether a pair is kept. `sides` are the sides that are not cut; `empty` is True if the source has no tokens."""
    if empty or not all(sides):
        report.empty += 1
    elif max_tokens is not None and max(map(len, sides)) > max_tokens:
        report.too_long += 1
    else:
        return True
    return False
