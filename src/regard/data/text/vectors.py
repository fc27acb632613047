"""Files of word vectors, read and written: word2vec's text and binary formats, and GloVe's text.

    word2vec text      "N D\\n", then a line for each word: the word and D numbers, separated by spaces
    word2vec binary    "N D\\n", then for each word its bytes, a space, D little-endian float32, and (mostly) a line end
    GloVe text         the lines of word2vec's text without the first

Files may be compressed (.gz, .xz). A file is read piece by piece: memory grows with its contents, not with the sizes in
its first line. NaN and infinity, lines of another width and an early end are refused.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.core.lines import open_bytes
from regard.core.weights import replacing

Form = Literal["word2vec", "word2vec_binary", "glove"]
Array = NDArray[Any]
_HEADER = re.compile(rb"\s*(\d{1,12})[ \t]+(\d{1,9})\s*")
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|nan|[-+]?inf", re.IGNORECASE)
_TOGETHER = 4096
_LONGEST_WORD = 10_000
_WIDEST = 100_000
_REMEDY = "Copy or download it again."


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors [N,D] (float32)."""

    words: list[str]
    vectors: Array


def vector_format(path: Path) -> Form | None:
    """The format of a file, by its first bytes; None if it is none of these."""
    try:
        with open_bytes(path) as file:
            first, rest = file.readline(_LONGEST_WORD + 32 * _WIDEST), file.read(1 << 16)
    except DataError:
        return None
    if header := _HEADER.fullmatch(first):
        return "word2vec" if _is_line(rest.split(b"\n", 1)[0], int(header[2])) else "word2vec_binary"
    fields = first.split()
    return "glove" if len(fields) > 2 and all(map(_NUMBER.fullmatch, fields[-(len(fields) - 1) :])) else None


def read_vectors(path: str | Path) -> WordVectors:
    """Read a file of any of the formats."""
    path = Path(path)
    if path.is_file():
        form = vector_format(path)
        if form is not None:
            return check_vectors(path, _read_binary(path) if form == "word2vec_binary" else _read_text(path))
    with open_bytes(path):  # raises an error if there is no such file
        pass
    raise DataError(f"{path} holds no word vectors", expected="word2vec's text or binary format, or GloVe's text")


def write_vectors(path: str | Path, words: Sequence[str], vectors: Array, form: Form) -> None:
    """Write a file. Numbers in text have nine digits, which is enough to read back every float32 exactly."""
    if spaced := [word for word in words if not word or re.search(r"[ \n]", word)]:
        raise DataError("this format cannot hold words with spaces", got=repr(spaced[0]))
    numbers = np.ascontiguousarray(vectors, dtype="<f4")
    with replacing(path) as file:
        if form != "glove":
            file.write(b"%d %d\n" % numbers.shape)
        for word, row in zip(words, numbers, strict=True):
            if form == "word2vec_binary":
                file.write(word.encode() + b" " + row.tobytes() + b"\n")
            else:
                file.write(f"{word} {' '.join(map(_digits, row.tolist()))}\n".encode())


def _digits(number: float) -> str:
    return f"{number:.9g}"


def _is_line(line: bytes, width: int) -> bool:
    """Whether this is a word and `width` numbers, or text that is mostly numbers: damaged, but no binary vector."""
    fields = line.rsplit(maxsplit=width) if 0 < width <= _WIDEST else []
    if len(fields) == width + 1 and all(map(_NUMBER.fullmatch, fields[1:])):
        return True
    if not line.decode("utf-8", "replace").replace("\t", " ").strip("\r").isprintable():
        return False
    numbers = line.split()[1:]
    return 2 * sum(map(bool, map(_NUMBER.fullmatch, numbers))) > len(numbers)


def _read_text(path: Path) -> WordVectors:
    words: list[str] = []
    blocks: list[Array] = []
    with open_bytes(path) as file:
        first = file.readline(_LONGEST_WORD + 32 * _WIDEST)
        header = _HEADER.fullmatch(first)
        wanted = int(header[1]) if header else None
        width = int(header[2]) if header else len(first.split()) - 1
        _check_size(path, wanted, width)
        for number, lines in _blocks(file, [] if header else [first], start=2 if header else 1):
            parted = [_parted(line, width, path, number + k) for k, line in enumerate(lines)]
            words.extend(_text(word, path) for word, _ in parted)
            blocks.append(_numbers([rest for _, rest in parted], width, path, number))
    if wanted is not None and len(words) != wanted:
        raise DataError(f"{path} is damaged or cut short", got=f"{len(words):,} words", expected=wanted, remedy=_REMEDY)
    return WordVectors(words, np.concatenate(blocks) if blocks else np.empty((0, width), np.float32))


def _blocks(file: BinaryIO, held: list[bytes], start: int) -> Iterator[tuple[int, list[bytes]]]:
    """Lines that are not empty, some thousand at a time, with the number of the first."""
    while line := file.readline(_LONGEST_WORD + 32 * _WIDEST):
        if line.strip():
            held.append(line)
        if len(held) == _TOGETHER:
            yield start, held
            start, held = start + len(held), []
    if held:
        yield start, held


def _parted(line: bytes, width: int, path: Path, number: int) -> tuple[bytes, bytes]:
    word, _, rest = line.strip(b" \t\r\n").partition(b" ")
    if rest.count(b" ") != width - 1:  # some words of large files have spaces in them
        fields = line.split()
        word, rest = b" ".join(fields[:-width]), b" ".join(fields[-width:])
        if len(fields) <= width:
            got = f"{len(fields) - 1} numbers"
            raise DataError(f"line {number} of {path} has another width", got=got, expected=width, remedy=_REMEDY)
    return word, rest


def _numbers(rows: list[bytes], width: int, path: Path, number: int) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            flat = np.fromstring(b" ".join(rows).decode("ascii"), dtype=np.float32, sep=" ")
        except (DeprecationWarning, ValueError):
            flat = np.empty(0, np.float32)
    if len(flat) != len(rows) * width:
        cells = ((k, cell) for k, row in enumerate(rows) for cell in row.split() if not _NUMBER.fullmatch(cell))
        bad, cell = next(cells, (0, rows[0]))
        got = repr(cell[:40].decode("utf-8", "replace"))
        raise DataError(
            f"line {number + bad} of {path} is damaged", got=got, expected=f"a word and {width} numbers", remedy=_REMEDY
        )
    return flat.reshape(len(rows), width)


def _read_binary(path: Path) -> WordVectors:
    words: list[str] = []
    blocks: list[bytes] = []
    with open_bytes(path) as file:
        header = _HEADER.fullmatch(file.readline(100))
        assert header is not None
        wanted, width = int(header[1]), int(header[2])
        _check_size(path, wanted, width, bytes_of_number=4)
        buffer = b""
        for _ in range(wanted):
            while b" " not in buffer.lstrip(b"\n") and len(buffer) < _LONGEST_WORD and (more := file.read(1 << 16)):
                buffer += more
            word, space, buffer = buffer.lstrip(b"\n").partition(b" ")
            while len(buffer) < 4 * width and (more := file.read(max(1 << 16, 4 * width - len(buffer)))):
                buffer += more
            if not space or len(buffer) < 4 * width:
                got = f"{len(words):,} words"
                raise DataError(f"{path} is damaged or cut short", got=got, expected=wanted, remedy=_REMEDY)
            words.append(_text(word, path))
            blocks.append(buffer[: 4 * width])
            buffer = buffer[4 * width :]
    return WordVectors(words, np.frombuffer(b"".join(blocks), dtype="<f4").reshape(len(words), width))


def _check_size(path: Path, wanted: int | None, width: int, *, bytes_of_number: int = 2) -> None:
    """Refuse a first line that promises more than the file's bytes can hold."""
    most = path.stat().st_size // bytes_of_number
    if path.suffix.lower() in (".gz", ".xz"):
        most *= 1100  # gzip cannot compress text more than this; what is read is limited by the file's contents anyway
    if not 0 < width <= _WIDEST or (wanted or 0) * width > most:
        first = f"{wanted:,} words of {width:,} numbers" if wanted is not None else f"words of {width:,} numbers"
        raise DataError(
            f"{path} is damaged or cut short",
            got=f"{path.stat().st_size:,} bytes",
            expected=f"{first}, as its first line says",
            remedy=_REMEDY,
        )


def _text(word: bytes, path: Path) -> str:
    text = word.decode("utf-8", errors="replace")
    if not text or len(word) > _LONGEST_WORD:
        raise DataError(f"{path} has an entry without a word", remedy=_REMEDY)
    return text


def check_vectors(path: Path, read: WordVectors) -> WordVectors:
    """Refuse vectors without words, and numbers that are not finite."""
    if not read.words:
        raise DataError(f"{path} holds no words", remedy=_REMEDY)
    finite = np.isfinite(read.vectors).all(1)
    if not finite.all():
        word = read.words[int(np.argmin(finite))]
        raise DataError(
            f"{path} holds numbers that are not finite", got=f"NaN or infinity for {word!r}", remedy=_REMEDY
        )
    return read
