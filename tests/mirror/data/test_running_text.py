"""Running text: the tokens on disk are those of the whole text, however it was cut, and windows cover all of it."""

import gzip
import lzma
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.core.errors import DataError, UsageError
from regard.data import arrays, running_text
from regard.data.running_text import RunningText, TextColumn, TokenText, encode_text
from regard.data.text import make_tokenizer
from regard.data.windows import Windows

TEXT = "First line, of three.\nSecond  line;\tit has more!\n\nA third\u00e9 one with a Ωmega\n" * 40


def text_of(folder: Path, text: str = TEXT, name: str = "a.txt", **options: object) -> RunningText:
    (folder / name).write_bytes(text.encode())
    return RunningText((folder / name,), **options)


@pytest.mark.parametrize("size", [10, 57, 1000, 10**6])
@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_pieces_join_to_the_tokens_of_the_whole(kind, size, tmp_path, monkeypatch):
    monkeypatch.setattr(running_text, "_PIECE", size)
    text = text_of(tmp_path)
    assert "".join(text.pieces()) == TEXT
    tokenizer = make_tokenizer(kind, text.pieces(), vocab_size=100) if kind == "bpe" else make_tokenizer(kind, [TEXT])
    made = encode_text(text, tokenizer, tmp_path / "made")
    assert tokenizer.decode(made.tokens) == TEXT
    assert made.tokens.tolist() == tokenizer.encode_batch([TEXT])[0]
    assert (made.characters, made.words) == (len(TEXT), 40 * (4 + 5 + 6 + 4))


@pytest.mark.parametrize("body", ["ab" * 5000, "abcdefg\n" * 900, "天地玄黄。\n" * 900, " a\n" * 2000, "\n" * 3000])
def test_text_without_a_good_place_to_cut(body, tmp_path, monkeypatch):
    monkeypatch.setattr(running_text, "_PIECE", 100)
    text = text_of(tmp_path, body)
    whole = body.rstrip("\n") + "\n" if not body.endswith("\n") else body
    assert "".join(text.pieces()) == whole
    assert max(map(len, text.pieces())) <= 500
    tokenizer = make_tokenizer("char", text.pieces())
    assert tokenizer.decode(encode_text(text, tokenizer, tmp_path / "made").tokens) == whole


def test_packed_files_follow_each_other(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\r\ntwo"))
    (tmp_path / "b.xz").write_bytes(lzma.compress(b"\xef\xbb\xbfthree\n"))
    text = RunningText((tmp_path / "a.gz", tmp_path / "b.xz"))
    assert list(text.lines()) == ["one\n", "two\n", "three\n"]
    assert list(RunningText(text.sources, "files").lines()) == ["one\n", "two\n", None, "three\n", None]


def test_a_column_of_a_table_is_text_and_each_row_a_document(tmp_path):
    table = tmp_path / "a.jsonl"
    table.write_text('{"n": 1, "text": "one\\n\\ntwo"}\n{"n": 2, "text": "three"}\n')
    (tmp_path / "b.txt").write_text("four\n")
    for documents, ends in {
        "none": [],
        "files": ["two", "three", "four"],
        "blank_lines": ["one", "two", "three", "four"],
    }.items():
        text = RunningText((TextColumn(table, "text"), tmp_path / "b.txt"), documents)
        lines = [line and line.strip() for line in text.lines() if line != "\n"]
        assert [line for line in lines if line] == ["one", "two", "three", "four"]
        assert [before for before, line in pairwise(lines) if line is None] == ends
    with pytest.raises(DataError, match="has no text 'txt'"):
        list(RunningText((TextColumn(table, "txt"),)).lines())


def test_a_share_is_split_off_by_characters(tmp_path):
    for share in (0.1, 0.5, 0.013):
        first, rest = text_of(tmp_path).split(share)
        middle = int(len(TEXT) * (1 - share))
        assert ("".join(first.pieces()), "".join(rest.pieces())) == (TEXT[:middle], TEXT[middle:])
        again = [part.length() for part in rest.split(0.5)]
        assert sum(again) == rest.length() == len(TEXT) - middle


def test_documents_end_where_they_are_said_to(tmp_path):
    body = " \n = One = \n a \n = = Part = = \n b \n \n = Two = \n c \n"
    tokenizer = make_tokenizer("char", [body])

    def documents(how: str) -> list[str]:
        made = encode_text(text_of(tmp_path, body, documents=how), tokenizer, tmp_path / "made", ends=True)
        parts = np.split(made.tokens, np.flatnonzero(made.tokens == tokenizer.eos) + 1)
        return [tokenizer.decode(part) for part in parts]

    assert documents("headings") == [" \n = One = \n a \n = = Part = = \n b \n \n", " = Two = \n c \n", ""]
    assert documents("blank_lines") == [" \n = One = \n a \n = = Part = = \n b \n \n", " = Two = \n c \n", ""]
    assert documents("files") == [body, ""]
    assert documents("none") == [body]


@pytest.mark.parametrize("kind", ["space", "word", "wordform", "wordpiece", "char", "byte", "bpe"])
def test_a_line_end_counts_as_a_word_only_if_it_is_predicted(kind, tmp_path):
    body = "a b c d\n" * 300
    tokenizer = make_tokenizer(kind, [body])
    encoded = kind in ("char", "byte", "bpe")
    for how, ends in (("none", 0), ("files", 1), ("lines", 300)):
        text = text_of(tmp_path, body, documents=how)
        made = encode_text(text, tokenizer, tmp_path / "made", ends=how != "none")
        assert made.words == 1200 + (300 if encoded else ends)


def test_too_little_text_is_refused(tmp_path):
    tokenizer = make_tokenizer("char", ["ab"])
    with pytest.raises(DataError, match="a.txt holds too little text: got 0 tokens"):
        encode_text(text_of(tmp_path, ""), tokenizer, tmp_path / "made")
    with pytest.raises(DataError, match="cannot be read"):
        encode_text(RunningText((tmp_path / "absent",)), tokenizer, tmp_path / "made")


@pytest.mark.parametrize("fault", ["short", "changed", "gone", "meta", "kind"])
def test_damage_is_told(fault, tmp_path):
    encode_text(text_of(tmp_path), make_tokenizer("char", [TEXT]), tmp_path / "made")
    tokens, meta = tmp_path / "made" / "tokens.bin", tmp_path / "made" / "meta.json"
    content = tokens.read_bytes()
    if fault == "gone":
        tokens.unlink()
    elif fault == "meta":
        meta.write_text('{"format": 3}')
    elif fault == "kind":
        meta.write_text(meta.read_text().replace("running_text", "images"))
    else:
        tokens.write_bytes(content[:-1] if fault == "short" else b"\x07\x07" + content[2:])
    with pytest.raises(DataError, match=r"(tokens\.bin|meta\.json).*Prepare the data again"):
        TokenText.open(tmp_path / "made")


def windows(length: int = 1000, **options: object) -> Windows:
    return Windows(np.arange(length, dtype="<u2"), **{"context": 7, "rows": 5, "seed": 3, **options})


def starts(made: Windows, number: int) -> list[int]:
    return [row for batch in made.epoch(number) for row in batch.rows]


def test_windows_do_not_overlap_and_labels_are_one_further_on():
    made = windows()
    for number in range(4):
        begins = sorted(starts(made, number))
        assert set(np.diff(begins)) == {7}
        assert begins[0] < 7
        assert 1000 - 1 - begins[-1] - 7 < 7
        assert made.batches_in_epoch(number) == len(list(made.epoch(number)))
    batch = next(made.epoch(0))
    assert batch["input_ids"].shape == (5, 7)
    assert torch.equal(batch["labels"], batch["input_ids"] + 1)
    assert batch["input_ids"][:, 0].tolist() == list(batch.rows)


def test_the_order_follows_from_seed_and_epoch_alone():
    first, second = windows(), windows()
    list(second.epoch(5))
    assert starts(first, 2) == starts(second, 2) != starts(first, 1)
    assert {min(starts(first, n)) for n in range(20)} == set(range(7)), "every start is drawn"
    assert starts(windows(seed=1), 2) != starts(windows(seed=2), 1)


@pytest.mark.parametrize("start", [0, 1, 13, 28])
def test_an_epoch_goes_on_at_any_batch(start):
    whole, rest = list(windows().epoch(1)), list(windows().epoch(1, start))
    assert [batch.rows for batch in rest] == [batch.rows for batch in whole[start:]]
    assert all(torch.equal(a["labels"], b["labels"]) for a, b in zip(rest, whole[start:], strict=True))


@pytest.mark.parametrize("length", [2, 7, 8, 9, 15, 99, 1000])
@pytest.mark.parametrize("rows", [1, 4])
def test_in_order_every_token_but_the_first_is_asked_for_once(length, rows):
    made = windows(length, rows=rows, shuffle=False)
    labels = torch.cat([batch["labels"].flatten() for batch in made.epoch(0)])
    assert labels.tolist() == list(range(1, length))
    assert starts(windows(length, rows=rows), 0), "and there is something to train on"


def test_wrong_numbers_are_refused():
    with pytest.raises(UsageError, match="seed"):
        windows(seed=-1)
    with pytest.raises(UsageError, match="no such epoch"):
        windows().batches_in_epoch(-1)
    with pytest.raises(UsageError, match="no batch 30"):
        windows().epoch(0, 30)


def test_a_failure_leaves_the_former_arrays(tmp_path):
    with arrays.writing(tmp_path, "x", {"a": "<i4"}, {}) as files:
        files["a"].write([1, 2])
    with pytest.raises(ValueError), arrays.writing(tmp_path, "x", {"a": "<i4"}, {}) as files:
        files["a"].write(["no number"])
    assert arrays.opened(tmp_path, "x")[0]["a"].tolist() == [1, 2]


def test_shakespeare_is_split_as_elsewhere(data, tmp_path):
    """1,003,854 characters to train on and 111,540 to validate with, of 65 kinds."""
    train, rest = RunningText((data / "tinyshakespeare" / "input.txt.gz",)).split(0.1)
    assert (train.length(), rest.length()) == (1_003_854, 111_540)
    assert len(set("".join(train.pieces()))) == 65
