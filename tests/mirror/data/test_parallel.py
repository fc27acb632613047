"""Pairs stay aligned from the files to the tokens on disk, and whatever is left out is counted."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DataError, UsageError
from regard.data import arrays, token_pairs
from regard.data.parallel import ParallelText, Report, TokenPairs, encode
from regard.data.text import make_tokenizer

ENGLISH, GERMAN = ["a dog", "", "the cat", "x" * 50, "last"], ["ein hund", "nichts", "die katze", "y", "letzte"]
CHARS = make_tokenizer("char", [chr(c) for c in range(32, 127)])
FILES = ("source.bin", "source_offsets.bin", "target.bin", "target_offsets.bin")


def text(folder: Path, source: list[str], target: list[str], **options: int) -> ParallelText:
    for name, lines in (("s.txt", source), ("t.txt", target)):
        (folder / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    return ParallelText(folder / "s.txt", folder / "t.txt", **options)


def test_two_files_give_pairs_and_a_report(tmp_path: Path) -> None:
    report = Report()
    pairs = text(tmp_path, ENGLISH, GERMAN, max_chars=20).pairs(report)
    assert next(pairs) == ("a dog", "ein hund")
    assert list(pairs) == [("the cat", "die katze"), ("last", "letzte")]
    assert report == Report(pairs=5, empty=1, too_long=1, kept=3)
    assert report.summary() == "5 pairs: 3 kept, 1 with an empty side, 1 too long; 0 lines were not UTF-8"


def test_a_text_can_be_read_again(tmp_path: Path) -> None:
    parallel = text(tmp_path, ENGLISH, GERMAN)
    assert list(parallel.pairs()) == list(parallel.pairs())


def test_a_part_and_the_rest_share_no_source(tmp_path: Path) -> None:
    """Every translation of a sentence is on one side, whatever the order of the file."""
    source = [f"sentence {number % 200}" for number in range(600)]
    target = [f"Satz {number}" for number in range(600)]
    report = Report()
    held_out = list(text(tmp_path, source, target).part(0.2, held_out=True).pairs(report))
    rest = list(text(tmp_path, source, target).part(0.2, held_out=False).pairs())
    assert report.pairs == report.kept == len(held_out)
    assert sorted(held_out + rest) == sorted(zip(source, target, strict=True))
    assert not {pair[0] for pair in held_out} & {pair[0] for pair in rest}
    assert 0.1 < len(held_out) / 600 < 0.3
    backwards = text(tmp_path, source[::-1], target[::-1]).part(0.2, held_out=True)
    assert sorted(backwards.pairs()) == sorted(held_out)


@pytest.mark.parametrize(
    ("lines", "counts"), [((5, 3), "5 lines.*3 in"), ((0, 2), "0 lines.*2 in"), ((1, 9), "1 li.*9")]
)
def test_files_of_unequal_length_are_refused_with_both_counts(
    lines: tuple[int, int], counts: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=counts):
        list(text(tmp_path, ["a"] * lines[0], ["b"] * lines[1]).pairs())


def test_columns_of_a_table(tmp_path: Path) -> None:
    path, report = tmp_path / "t.tsv", Report()
    path.write_bytes(b'1\ta "dog"\tein hund\tx\r\n\r\n2\t\tkatze\n3\tcat\tka\xfftze\n')
    pairs = list(ParallelText.tsv(path, 2, 1).pairs(report))
    assert pairs == [("ein hund", 'a "dog"'), ("ka\ufffdtze", "cat")]
    assert report == Report(pairs=4, malformed=1, empty=2, kept=2)


def test_a_table_without_the_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("a\tb\nc\n")
    with pytest.raises(DataError, match=r"line 2 of .*t\.tsv lacks a column: got 1 columns"):
        list(ParallelText.tsv(path).pairs())
    for columns in ((-1, 0), (1, 1)):
        with pytest.raises(UsageError, match="two different columns"):
            ParallelText.tsv(path, *columns)


SENTENCE = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)


@given(pairs=st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=12))
def test_encoded_pairs_come_back(pairs: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("pairs")
    for stored in (encode(pairs, CHARS, CHARS, folder), TokenPairs.open(folder)):
        assert len(stored) == len(pairs)
        decoded = [(CHARS.decode(stored.source(i)), CHARS.decode(stored.target(i))) for i in range(len(stored))]
        assert decoded == pairs
        assert stored.source_lengths.tolist() == [len(source) for source, _ in pairs]
        assert stored.target_lengths.tolist() == [len(target) for _, target in pairs]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "meta.json"])


def test_pairs_with_too_many_tokens_are_left_out_and_counted(tmp_path: Path) -> None:
    report, parallel = Report(), text(tmp_path, ENGLISH, GERMAN, max_chars=40)
    stored = encode(parallel.pairs(report), CHARS, CHARS, tmp_path / "e", max_tokens=8, report=report)
    assert len(stored) == 2
    assert report == Report(pairs=5, empty=1, too_long=2, kept=2)
    alone = Report()
    encode([("a", "b"), ("a", "bb")], CHARS, CHARS, tmp_path / "e", max_tokens=1, report=alone)
    assert alone == Report(pairs=2, too_long=1, kept=1)


def test_chunks_join_without_a_seam(tmp_path: Path) -> None:
    pairs = [(str(n), str(n % 7)) for n in range(9000)]
    stored = encode(pairs, CHARS, CHARS, tmp_path)
    assert [CHARS.decode(stored.source(n)) for n in (0, 4095, 4096, 8999)] == ["0", "4095", "4096", "8999"]
    assert int(stored.source_lengths.sum()) == sum(len(source) for source, _ in pairs)


def test_the_type_follows_the_vocabulary(tmp_path: Path) -> None:
    class Wide:
        vocab_size = 2**16 + 1

        def encode_batch(self, lines: list[str]) -> list[list[int]]:
            return [[2**16, 5] for _ in lines]

    stored = encode([("a", "b")], Wide(), CHARS, tmp_path)  # type: ignore[arg-type]
    assert stored.source(0).tolist() == [2**16, 5]
    assert (stored.source(0).dtype, stored.target(0).dtype) == (np.dtype("<i4"), np.dtype("<u2"))


def test_encoding_holds_no_more_than_a_chunk(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        encode((("a b c d e f g h", "i j k l") for _ in range(count)), CHARS, CHARS, tmp_path)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    # What grows is the lengths, 16 bytes a pair and as much again while they are made.
    assert peak(16_000) - peak(8_000) < 8_000 * 100


def test_a_failure_leaves_the_former_encoding(tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield "c", "d"
        raise DataError("cut short")

    encode([("a", "b")], CHARS, CHARS, tmp_path)
    with pytest.raises(DataError, match="cut short"):
        encode(broken(), CHARS, CHARS, tmp_path)
    with pytest.raises(DataError, match="no pair is left.*0 pairs"):
        encode([], CHARS, CHARS, tmp_path)
    assert CHARS.decode(TokenPairs.open(tmp_path).source(0)) == "a"
    assert len(list(tmp_path.iterdir())) == 5


def test_encoding_replaces_what_was_there_while_it_is_in_use(tmp_path: Path) -> None:
    old = encode([("a", "b")], CHARS, CHARS, tmp_path)
    new = encode([("cc", "dd"), ("ee", "ff")], CHARS, CHARS, tmp_path)
    assert (CHARS.decode(old.source(0)), CHARS.decode(new.source(0))) == ("a", "cc")


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="was not written"):
        encode([("a", "b")], CHARS, CHARS, tmp_path / "file")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("fault", ["short", "long", "gone", "changed"])
def test_a_damaged_file_is_refused(name: str, fault: str, tmp_path: Path) -> None:
    encode([("abc", "de"), ("f", "ghi")], CHARS, CHARS, tmp_path)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).unlink()
    if fault != "gone":
        faulty = {"short": content[:-1], "long": content + b"\0", "changed": content[:-2] + b"\x01\x01"}[fault]
        (tmp_path / name).write_bytes(faulty)
    with pytest.raises(DataError, match=rf"{name} .*Prepare the data again"):
        TokenPairs.open(tmp_path)


@pytest.mark.parametrize(
    "meta",
    [
        *[b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000],
        b'{"format": "regard.pairs", "version": 2}',
        b'{"format": "regard.pairs", "version": 1, "facts": {"pairs": 1}, "files": {}}',
        b'{"format": "regard.token_pairs", "version": 1, "pairs": 1, "files": {}}',
    ],
)
def test_a_damaged_meta_file_is_refused(meta: bytes, tmp_path: Path) -> None:
    encode([("abc", "de")], CHARS, CHARS, tmp_path)
    (tmp_path / "meta.json").write_bytes(meta)
    with pytest.raises(DataError, match=r"meta\.json is damaged"):
        TokenPairs.open(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"), [("dtype", "O"), ("dtype", "<f4"), ("items", -1), ("items", 1.0), ("items", "5")]
)
def test_a_meta_file_cannot_ask_for_other_types(key: str, value: object, tmp_path: Path) -> None:
    encode([("abc", "de")], CHARS, CHARS, tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text())
    meta["files"]["source"][key] = value
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(DataError, match="damaged"):
        TokenPairs.open(tmp_path)


@pytest.mark.parametrize("pairs", [0, 1, 3, "2", None])
def test_the_number_of_pairs_must_be_that_of_the_offsets(pairs: object, tmp_path: Path) -> None:
    encode([("abc", "de"), ("f", "g")], CHARS, CHARS, tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert meta["facts"] == {"pairs": 2}
    meta["facts"]["pairs"] = pairs
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(DataError, match=r"meta\.json is damaged"):
        TokenPairs.open(tmp_path)


@pytest.mark.parametrize("offsets", [[1, 3], [0, 2], [0, 4], [0, 5, 3]])
def test_offsets_must_fit_the_ids(offsets: list[int], tmp_path: Path) -> None:
    types = {"source": "<u2", "source_offsets": "<i8", "target": "<u2", "target_offsets": "<i8"}
    with arrays.writing(tmp_path, token_pairs.KIND, types, {"pairs": len(offsets) - 1}) as files:
        for name in ("source", "target"):
            files[name].write([5, 6, 7])
        files["source_offsets"].write([0, 3, 3][: len(offsets)])
        files["target_offsets"].write(offsets)
    with pytest.raises(DataError, match=r"target_offsets\.bin does not fit target\.bin"):
        TokenPairs.open(tmp_path)


def test_an_unfinished_folder_and_a_wrong_row_are_refused(tmp_path: Path) -> None:
    stored = encode([("abc", "de")], CHARS, CHARS, tmp_path)
    for row in (-1, 1):
        with pytest.raises(IndexError, match="among 1"):
            stored.source(row)
    (tmp_path / "meta.json").unlink()
    with pytest.raises(DataError, match="holds no prepared data"):
        TokenPairs.open(tmp_path)


def test_real_text_survives(data: Path, tmp_path: Path) -> None:
    folder, report = data / "multi30k", Report()
    parallel = ParallelText(folder / "val.en.gz", folder / "val.de.gz")
    tokenizer = make_tokenizer("bpe", (side for pair in parallel.pairs() for side in pair), vocab_size=1000)
    stored = encode(parallel.pairs(report), tokenizer, tokenizer, tmp_path, max_tokens=200, report=report)
    assert report == Report(pairs=1014, kept=1014)
    for row, (source, target) in enumerate(parallel.pairs()):
        assert tokenizer.decode(stored.source(row)) == source
        assert tokenizer.decode(stored.target(row)) == target
