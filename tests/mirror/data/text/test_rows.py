"""Rows of one or two texts are those of `transformers`, cut as it cuts them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import UsageError
from regard.data.text import Tokenizer, bert_rows, read_tokenizer
from regard.data.text.rows import kept, named, plain_rows


@pytest.fixture(scope="module")
def tokenizer(bert_folder: Path) -> Tokenizer:
    opened = read_tokenizer(bert_folder)
    assert isinstance(opened, Tokenizer)
    return opened


@pytest.mark.parametrize("max_len", [3, 4, 7, 8, 32, 512])
@pytest.mark.parametrize("pairs", [False, True])
def test_the_same_rows_as_transformers(
    tokenizer: Tokenizer, bert_folder: Path, texts: list[str], max_len: int, pairs: bool
) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.BertTokenizer.from_pretrained(bert_folder)
    others = [*texts[3:], *texts[:3]] if pairs else None
    wanted = theirs(texts, others, truncation=True, padding=True, max_length=max_len, return_tensors="pt")
    ids, mask, segments = bert_rows(tokenizer, texts, others, max_len)
    assert torch.equal(ids, wanted["input_ids"])
    assert torch.equal(mask, wanted["attention_mask"].bool())
    assert torch.equal(segments, wanted["token_type_ids"])


@given(first=st.integers(0, 40), second=st.integers(0, 40), room=st.integers(0, 60))
def test_what_is_kept_fits_and_is_not_too_little(first: int, second: int, room: int) -> None:
    first_kept, second_kept = kept(first, second, room)
    assert first_kept <= first
    assert second_kept <= second
    assert first_kept + second_kept == min(first + second, room)
    if (first_kept, second_kept) != (first, second):
        assert abs(first_kept - second_kept) <= 1 or first_kept == first or second_kept == second


def test_plain_rows_have_no_special_tokens_and_no_segments(tokenizer: Tokenizer) -> None:
    first, second = tokenizer.encode_batch(["the old house", "a dog"])
    assert plain_rows(tokenizer, ["the old house", ""], None, 99) == [(first, []), ([tokenizer.filler], [])]
    assert plain_rows(tokenizer, ["the old house"], ["a dog"], 99, begin=7) == [([7, *first, *second], [])]
    ((cut, _),) = plain_rows(tokenizer, ["the old house"], ["a dog"], 4, begin=7)
    assert cut[:2] == [7, first[0]]
    assert len(cut) == 4
    assert named(tokenizer, plain_rows(tokenizer, ["a"], None, 9)).keys() == {"input_ids", "attention_mask"}


def test_wrong_calls(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match="as many first as second texts: got 2 first texts, 1"):
        bert_rows(tokenizer, ["a", "b"], ["c"])
    with pytest.raises(UsageError, match="max_len is too small"):
        bert_rows(tokenizer, ["a"], ["c"], 2)
    ids, mask, segments = bert_rows(tokenizer, [])
    assert ids.shape == mask.shape == segments.shape == (0, 0)
