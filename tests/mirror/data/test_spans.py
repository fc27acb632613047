"""Windows over long contexts: every token is read, answers stand where they were, and what is cut is no answer."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from regard.core.errors import DataError, UsageError
from regard.data.spans import SpanRows, windows
from regard.data.squad import Question, by_article, read_squad
from regard.data.text import Tokenizer, make_tokenizer

CONTEXT = " ".join(f"word{n}, Élan the {n}th" for n in range(60))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return make_tokenizer(
        "wordpiece", [CONTEXT, "where is it ? " * 5] * 3, vocab_size=200, lowercase=True, marks="bert"
    )


def question(answer: str, *, text: str = "where is it ?") -> Question:
    answers = ((answer, CONTEXT.index(answer)),) if answer else ()
    return Question("1", text, CONTEXT, answers)


@pytest.mark.parametrize(("max_len", "overlap"), [(32, 0), (48, 10), (40, 39), (1000, 100)])
def test_windows_cover_the_context(tokenizer: Tokenizer, max_len: int, overlap: int) -> None:
    made = list(windows(tokenizer, [question("")], max_len=max_len, overlap=overlap))
    whole = tokenizer.offsets_batch([CONTEXT])[0]
    assert made[0].offsets[0] == whole[0]
    assert made[-1].offsets[-1] == whole[-1]
    assert {place for window in made for place in window.offsets} == set(whole)
    assert all(len(window.row[0]) == len(window.row[1]) <= max_len for window in made)
    for before, after in pairwise(made):
        shared = len(set(before.offsets) & set(after.offsets))
        assert shared == min(overlap, 3 * len(before.offsets) // 4)
    assert len(made) == 1 or max_len < 1000


def test_a_long_question_leaves_windows_that_move_on(tokenizer: Tokenizer) -> None:
    """Its row has less room than the overlap; a window for every token would be a hundred times the work."""
    (short,), (long,) = (
        [list(windows(tokenizer, [question("", text="where is it ? " * n)], max_len=40, overlap=24))] for n in (1, 9)
    )
    room = len(long[0].offsets)
    assert room <= 24 < len(short[0].offsets)
    assert len(long) <= 4 * len(tokenizer.encode_batch([CONTEXT])[0]) / room + 1


def test_an_answer_stands_in_the_windows_that_hold_it_whole(tokenizer: Tokenizer) -> None:
    answer = "Élan the 31th"
    made = list(windows(tokenizer, [question(answer)], max_len=48, overlap=20))
    holding = [window for window in made if window.start]
    assert holding
    for window in made:
        begin, end = (window.offsets[place - window.first] if place else (0, 0) for place in (window.start, window.end))
        if window.start:
            assert CONTEXT[begin[0] : end[1]] == answer
            assert window.row[1][window.start] == 1
        else:
            place = CONTEXT.index(answer)
            assert window.offsets[0][0] > place or window.offsets[-1][1] < place + len(answer)


def test_rows_are_named_tensors(tokenizer: Tokenizer) -> None:
    rows = SpanRows(tokenizer, [question("word3"), question("")], max_len=64, overlap=16)
    tensors = rows.tensors([0, len(rows) - 1])
    assert tensors["starts"][0] > 0
    assert tensors["starts"][1] == tensors["ends"][1] == 0
    assert tensors["input_ids"].shape == tensors["token_type_ids"].shape
    assert [window.question for window in rows.windows] == sorted(window.question for window in rows.windows)


def test_a_misplaced_answer_is_looked_for_and_a_long_question_is_cut(tokenizer: Tokenizer) -> None:
    odd = Question("1", "where " * 100, CONTEXT, (("word3", 5000),))
    first = next(windows(tokenizer, [odd], max_len=64, overlap=8))
    assert CONTEXT[first.offsets[first.start - first.first][0] :].startswith("word3")
    assert first.first == 32 + 2
    lost = Question("1", "where", CONTEXT, (("nowhere", 3),))
    assert all(window.start == 0 for window in windows(tokenizer, [lost], max_len=64, overlap=8))
    empty = list(windows(tokenizer, [Question("1", "where", "")], max_len=64, overlap=8))
    assert [len(window.offsets) for window in empty] == [0]
    for max_len, overlap in ((8, 0), (64, 64), (64, -1)):
        with pytest.raises(UsageError, match="cannot be made"):
            list(windows(tokenizer, [odd], max_len=max_len, overlap=overlap))


def test_whole_articles_are_held_out() -> None:
    asked = [Question(str(n), "who ?", "x", title=title) for n, title in enumerate("aaabbbbccd")]
    for share, held in ((0.1, "d"), (0.2, "cd"), (0.5, "bcd"), (0.99, "bcd")):
        train, rest = by_article(asked, share)
        assert {question.title for question in rest} == set(held)
        assert sorted([*train, *rest], key=lambda question: int(question.id)) == asked
        assert not {question.title for question in train} & set(held)
    with pytest.raises(DataError, match="a single article"):
        by_article(asked[:2], 0.5)


def test_squad_files(data: Path) -> None:
    for name, count, answered in (("squad2_dev_half", 6078, 2910), ("xquad.en", 1190, 1190)):
        path = data / "squad" / f"{name}.json.gz"
        if not path.is_file():
            pytest.skip(f"no {path}")
        questions = read_squad(path)
        assert len(questions) == count
        assert sum(bool(question.answers) for question in questions) == answered
        for asked in questions:
            assert all(asked.context[place : place + len(text)] == text for text, place in asked.answers)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"data": [{"paragraphs": [{"context": 1, "qas": [{}]}]}]}', "{"])
def test_other_files_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"a\.json is not in SQuAD's format"):
        read_squad(path)
    path.write_text(json.dumps({"data": []}))
    with pytest.raises(DataError, match=r"a\.json holds no questions"):
        read_squad(path)
