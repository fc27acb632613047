"""The characters of words: of those in the vocabulary and of all others."""

import pytest
import torch

from regard.core.errors import DataError
from regard.data.text import Tokenizer, make_tokenizer
from regard.data.text.rows import named, plain_rows
from regard.data.text.spelling import LONGEST, N_CHARACTERS, SpellingTokenizer, spelled

LINES = ["the cat sat on the mat", "a dog ran"]


@pytest.fixture
def tokenizer():
    return SpellingTokenizer(make_tokenizer("space", LINES, lowercase=True))


def test_the_numbers_of_elmo():
    """Bytes plus one, between 259 and 260, then 261; the longest words lose their end."""
    assert spelled("ab").tolist() == [259, 98, 99, 260, *[261] * 46]
    assert spelled("é").tolist()[:4] == [259, 0xC3 + 1, 0xA9 + 1, 260]
    assert spelled("x" * 90).tolist() == [259, *[121] * 48, 260]
    assert max(spelled("\U0010ffff")) < N_CHARACTERS
    assert len(spelled("")) == LONGEST


def test_special_tokens_are_words_of_one_mark(tokenizer):
    rows = tokenizer.characters(torch.tensor([tokenizer.pad, tokenizer.bos, tokenizer.eos]))
    assert not rows[0].any()
    assert rows[1:, :3].tolist() == [[259, 257, 260], [259, 258, 260]]


def test_unknown_words_keep_their_spelling(tokenizer):
    (ids,) = tokenizer.encode_batch(["The zebra sat on Zebra xylophones"])
    assert ids[1] == ids[4] >= tokenizer.vocab_size
    assert tokenizer.tokens(ids) == ["the", "zebra", "sat", "on", "zebra", "xylophones"]
    expected = [spelled(word).tolist() for word in ("the", "zebra", "sat", "on", "zebra", "xylophones")]
    assert tokenizer.characters(torch.tensor(ids)).tolist() == expected
    (closed,) = tokenizer.closed.encode_batch(["the zebra"])
    assert closed[1] == tokenizer.unk
    (later,) = tokenizer.encode_batch(["aardvark"])
    assert tokenizer.characters(torch.tensor(later)).tolist() == [spelled("aardvark").tolist()]


def test_ids_of_no_word_are_refused(tokenizer):
    tokenizer.encode_batch(["zebra"])
    with pytest.raises(DataError, match="no token has this id"):
        tokenizer.tokens([tokenizer.vocab_size + 1])


def test_rows_carry_characters(tokenizer, tmp_path):
    rows = plain_rows(tokenizer, ["the zebra", "cat"], None, 8)
    tensors = named(tokenizer, rows)
    assert tensors["characters"].shape == (2, 2, LONGEST)
    assert tensors["characters"][0, 1].tolist() == spelled("zebra").tolist()
    assert not tensors["characters"][1, 1].any()
    assert "characters" not in named(tokenizer.closed, plain_rows(tokenizer.closed, ["the zebra"], None, 8))
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").vocab_size == tokenizer.vocab_size
