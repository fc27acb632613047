"""Running text: files of any size (plain, .gz, .xz) as one long sequence of tokens on disk.

A line end is a character like any other. A text is encoded in pieces of about ten thousand characters. Pieces are cut
before a space inside a line, where every kind of tokenizer would cut too. If a tokenizer adds a space before each text,
the piece's own leading space is removed. So the tokens are those of the whole text, and decode to it.

`documents` says where documents end: nowhere, at the end of each file, of each line (sentences of an n-gram model),
at empty lines, or at headings such as " = Title = " (WikiText). The text may also stand in a column of a table
(`TextColumn`); each row is then like a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.core.errors import DataError
from regard.core.lines import read_lines
from regard.data import arrays
from regard.data.arrays import Array
from regard.data.tables import Column, read_table
from regard.data.text import Tokenizer

Documents = Literal["none", "files", "lines", "blank_lines", "headings"]
KIND = "regard.running_text"
_PIECE = 50_000
_TOGETHER = 16
_CUT = re.compile(r"(?<=\S) (?=\w)")
_HEADING = re.compile(r" ?= [^=].* = ?$")


@dataclass(frozen=True)
class TextColumn:
    """The texts in a column of a table."""

    path: Path
    column: Column
    header: bool | None = None

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class RunningText:
    """Characters `start` to `end` of the files and columns, joined; `end` None means to the end."""

    sources: tuple[Path | TextColumn, ...]
    documents: Documents = "none"
    start: int = 0
    end: int | None = None

    def length(self) -> int:
        """The number of characters, line ends included. This reads the files once."""
        return sum(len(line) for line in self.lines() if line is not None)

    def split(self, share: float) -> tuple[RunningText, RunningText]:
        """Split the text in two: all but the last `share`, and the last `share`."""
        middle = int(self.length() * (1 - share))
        first = RunningText(self.sources, self.documents, self.start, self.start + middle)
        return first, RunningText(self.sources, self.documents, self.start + middle, self.end)

    def lines(self) -> Iterator[str | None]:
        """Yield lines with their ends, and None where a document ends; the last document ends with the text."""
        place, fresh = 0, True
        for line in self._all_lines():
            if line is None:
                if not fresh:
                    yield None
                fresh = True
                continue
            begin, place = place, place + len(line)
            kept = line[max(self.start - begin, 0) : None if self.end is None else max(self.end - begin, 0)]
            if kept:
                fresh = fresh and not kept.strip()
                yield kept
            if self.end is not None and place >= self.end:
                return

    def pieces(self) -> Iterator[str | None]:
        """The same text in longer pieces."""
        held: list[str] = []
        size, due = 0, _PIECE
        for line in self.lines():
            if line is None:
                yield from ["".join(held)] if held else []
                yield None
                held, size, due = [], 0, _PIECE
                continue
            held.append(line)
            size += len(line)
            if size >= due:
                *done, last = _cut("".join(held))
                yield from done
                held, size, due = [last], len(last), len(last) + _PIECE
        if held:
            yield "".join(held)

    def _all_lines(self) -> Iterator[str | None]:
        for source in self.sources:
            for lines in _texts(source):
                for line in lines:
                    if self.documents == "headings" and _HEADING.match(line):
                        yield None
                    yield line + "\n"
                    if self.documents == "lines" or (self.documents == "blank_lines" and not line.strip()):
                        yield None
                if self.documents != "none":
                    yield None


def _texts(source: Path | TextColumn) -> Iterator[Iterable[str]]:
    """The lines of each text of a source."""
    if isinstance(source, Path):
        yield read_lines(source)
        return
    for (text,) in read_table(source.path, [source.column], source.header):
        yield text.rstrip("\n").split("\n")


def _cut(text: str) -> list[str]:
    """Pieces that begin with a space, except the first; the last may still grow.

    If there are no spaces, as in Chinese, pieces begin after a line end, or anywhere if lines are too long.
    """
    parts, begin = [], 0
    while len(text) - begin >= _PIECE:
        least, most = begin + _PIECE - 1, begin + 4 * _PIECE
        boundary = _CUT.search(text, least, most)
        if boundary is None and len(text) < most:
            break
        end = boundary.start() if boundary is not None else text.find("\n", least, most) + 1 or most
        parts.append(text[begin:end])
        begin = end
    return [*parts, text[begin:]]


def encode_text(text: RunningText, tokenizer: Tokenizer, folder: Path, *, ends: bool = False) -> TokenText:
    """Write the text as token ids into the folder, replacing its contents, and open it.

    `ends` puts `</s>` after every document.
    """
    facts = {"characters": 0, "words": 0}
    stream, inside, keeps_lines = iter(text.pieces()), False, _keeps_lines(tokenizer)
    with arrays.writing(folder, KIND, {"tokens": arrays.id_type(tokenizer.vocab_size)}, facts) as files:
        while chunk := list(islice(stream, _TOGETHER)):
            whole = [piece for piece in chunk if piece is not None]
            facts["characters"] += sum(map(len, whole))
            facts["words"] += sum(len(piece.split()) for piece in whole)
            if keeps_lines:
                facts["words"] += sum(piece.count("\n") for piece in whole)
            elif ends:
                facts["words"] += len(chunk) - len(whole)
            texts = []
            for piece in chunk:
                if piece is not None:
                    texts.append(_joined(piece, tokenizer) if inside else piece)
                inside = piece is not None
            encoded = iter(tokenizer.encode_batch(texts))
            for piece in chunk:
                if piece is not None:
                    files["tokens"].write(next(encoded))
                elif ends:
                    files["tokens"].write([tokenizer.eos])
        if files["tokens"].items < 2:
            names = ", ".join(map(str, text.sources))
            raise DataError(
                f"{names} holds too little text", got=f"{files['tokens'].items} tokens", expected="2 or more"
            )
    return TokenText.open(folder)


def _keeps_lines(tokenizer: Tokenizer) -> bool:
    """Whether a line end has tokens of its own; tokenizers of words see only white space."""
    line_end, space = tokenizer.encode_batch(["a\na", "a a"])
    return line_end != space


def _joined(piece: str, tokenizer: Tokenizer) -> str:
    """A piece as it continues the one before: without its leading space if the tokenizer adds one itself."""
    if not _CUT.match(f"x{piece[:2]}", 1):
        return piece
    (letter,) = tokenizer.encode_batch([piece[1:2]])
    return piece[1:] if tokenizer.decode([*letter, *letter]) == f"{piece[1:2]} {piece[1:2]}" else piece


@dataclass(frozen=True)
class TokenText:
    """Encoded running text: all ids, memory-mapped, and counts of words and characters.

    What a model predicts between lines counts as a word: a line end if the tokenizer encodes it, otherwise `</s>`.
    """

    tokens: Array
    characters: int
    words: int

    @classmethod
    def open(cls, folder: Path) -> TokenText:
        files, facts = arrays.opened(folder, KIND)
        return cls(files["tokens"], int(facts["characters"]), int(facts["words"]))
