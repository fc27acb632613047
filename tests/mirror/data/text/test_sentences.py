"""Documents as sentences, and rows whose segments are their numbers."""

import pytest

from regard.core.errors import UsageError
from regard.data.text import make_tokenizer
from regard.data.text.sentences import sentence_rows, sentences


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("It rains. We stay.", ["It rains.", "We stay."]),
        ("it rains . we stay .", ["it rains .", "we stay ."]),
        ("Really?! Yes…", ["Really?!", "Yes…"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ('"No!" he said.', ['"No!" he said.']),
        ("Well... but why? So.", ["Well... but why?", "So."]),
        ("Mr. Smith met J. S. Bach. Twice.", ["Mr. Smith met J. S. Bach.", "Twice."]),
        ("one<br /><br />two\n\nthree", ["one", "two", "three"]),
        ("雨が降る。家にいる。", ["雨が降る。", "家にいる。"]),
        ("He is taller than I. So what.", ["He is taller than I.", "So what."]),
        ("version 3.5 is out", ["version 3.5 is out"]),
        ("no end", ["no end"]),
        ("", []),
        (" \n <br>", []),
    ],
)
def test_where_sentences_end(text, wanted):
    assert sentences(text) == wanted


def test_nothing_is_lost_but_spaces():
    text = "Ab. C!? D… e. (Fg.) h " * 50
    assert "".join(sentences(text)).replace(" ", "") == text.replace(" ", "")


def test_a_long_line_is_split_in_linear_time():
    assert len(sentences("Mr. no stop " * 100_000)) == 1
    assert len(sentences("A b. " * 100_000)) == 100_000


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer("word", ["a b c d e f ."] * 3, vocab_size=30)


def test_segments_are_the_numbers_of_sentences(tokenizer):
    ((ids, numbers),) = sentence_rows(tokenizer, ["A b . c . d e f"], None, 100)
    assert len(ids) == 8
    assert numbers == [0, 0, 0, 1, 1, 2, 2, 2]


def test_a_second_text_goes_on(tokenizer):
    ((ids, numbers),) = sentence_rows(tokenizer, ["a . b"], ["c . d"], 100)
    assert tokenizer.tokens(ids) == ["a", ".", "b", "c", ".", "d"]
    assert numbers == [0, 0, 1, 2, 2, 3]


def test_long_texts_are_cut_and_empty_ones_hold_padding(tokenizer):
    rows = sentence_rows(tokenizer, ["a b . c d", "", "\n"], None, 4)
    assert [numbers for _, numbers in rows] == [[0, 0, 0, 1], [0], [0]]
    assert rows[1][0] == rows[2][0] == [tokenizer.filler]


def test_pairs_need_as_many(tokenizer):
    with pytest.raises(UsageError, match="2 first texts, 1 second texts"):
        sentence_rows(tokenizer, ["a", "b"], ["c"], 9)
