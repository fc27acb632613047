"""Lines are what stands between line feeds, in any packing; what cannot be read says so."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DataError
from regard.core.lines import malformed, malformed_note, open_lines, read_lines
from regard.data.parallel import Report

PACKERS: dict[str, Callable[[bytes], bytes]] = {"txt": bytes, "gz": gzip.compress, "xz": lzma.compress}
PACKED = pytest.mark.parametrize("suffix", PACKERS)


def written(folder: Path, content: bytes, suffix: str = "txt") -> Path:
    path = folder / f"text.{suffix}"
    path.write_bytes(PACKERS[suffix](content))
    return path


@PACKED
@given(lines=st.lists(st.text().map(lambda text: text.replace("\n", "").rstrip("\r")), max_size=8))
def test_lines_come_back(suffix: str, lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = [lines[0].lstrip("\ufeff"), *lines[1:]] if lines else []
    path = written(tmp_path_factory.mktemp("lines"), "".join(line + "\n" for line in lines).encode(), suffix)
    report = Report()
    assert list(read_lines(path, report.count_malformed)) == lines
    assert report == Report()


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\rh"
    assert list(read_lines(written(tmp_path, f"{text}\nlast".encode()))) == [text, "last"]


def test_line_ends_and_byte_order_mark_are_dropped(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbfone\r\ntwo\r\n\r\nfour\n \xef\xbb\xbf\n")
    assert list(read_lines(path)) == ["one", "two", "", "four", " \ufeff"]
    assert list(open_lines(path))[:2] == [b"\xef\xbb\xbfone", b"two"]


def test_malformed_lines_keep_their_place_and_are_counted(tmp_path: Path) -> None:
    report = Report()
    path = written(tmp_path, b"good\nb\xffd\n\xc3\x28\ngood \xf0\x9f\x98\x80\n\xed\xa0\x80\n")
    assert list(read_lines(path, report.count_malformed)) == ["good", "b\ufffdd", "\ufffd(", "good 😀", "\ufffd" * 3]
    assert report == Report(malformed=3)
    assert "3 lines were not UTF-8" in report.summary()


def test_malformed_lines_are_collected_by_file(tmp_path: Path) -> None:
    path = written(tmp_path, b"good\nb\xffd\n\xc3\x28\n")
    with malformed() as counts:
        list(read_lines(path))
        next(iter(read_lines(path)))  # a second reading, and one that is not finished
        list(read_lines(written(tmp_path, b"good\n", "gz")))
    assert counts == {str(path): 2}
    assert malformed_note("a", 2) == "note: a: 2 lines are not UTF-8; invalid bytes became U+FFFD"
    assert malformed_note("a", 1).startswith("note: a: 1 line is not UTF-8")


def test_utf_16_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="UTF-16.*iconv"):
        list(read_lines(written(tmp_path, "hello\n".encode("utf-16"))))


@PACKED
def test_an_empty_text_has_no_lines(suffix: str, tmp_path: Path) -> None:
    assert list(read_lines(written(tmp_path, b"", suffix))) == []


def test_packed_files_may_be_in_several_parts(tmp_path: Path) -> None:
    (tmp_path / "two.gz").write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n"))
    assert list(read_lines(tmp_path / "two.gz")) == ["a", "bc", "d"]


@PACKED
def test_reading_is_streamed(suffix: str, tmp_path: Path) -> None:
    """The first lines come without reading the rest, which is damaged."""
    path = written(tmp_path, b"".join(b"%d\n" % n for n in range(300_000)), suffix)
    if suffix != "txt":
        path.write_bytes(path.read_bytes()[:-100])
    assert list(islice(read_lines(path), 3)) == ["0", "1", "2"]


@pytest.mark.parametrize("suffix", ["gz", "xz"])
@pytest.mark.parametrize("cut", [0, 1, 5, -12, -1])
def test_a_file_cut_short_is_refused(suffix: str, cut: int, tmp_path: Path) -> None:
    path = written(tmp_path, b"some text\n" * 1000, suffix)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=rf"text\.{suffix} is damaged or cut short.*again"):
        list(read_lines(path))


@pytest.mark.parametrize("suffix", ["gz", "xz"])
def test_a_damaged_file_is_refused(suffix: str, tmp_path: Path) -> None:
    path = written(tmp_path, bytes(range(256)) * 50, suffix)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        list(read_lines(path))
    path.write_bytes(b"no such packing\n")
    with pytest.raises(DataError, match="damaged"):
        list(read_lines(path))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path / "none.gz", tmp_path):
        with pytest.raises(DataError, match=rf"{path.name} cannot be read.*path of a readable file"):
            list(read_lines(path))
