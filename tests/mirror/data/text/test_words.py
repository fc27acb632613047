"""Pieces put together to words, for every way in which tokenizers mark them."""

import pytest
from tokenizers import Tokenizer as Inner
from tokenizers import decoders, models, pre_tokenizers

from regard.data.text import Specials, Tokenizer, make_tokenizer

LINES = ["The dog ran (fast), and the cat's house burned down!", "walking talking houses, 2026 - >fr<"] * 5
TEXT = "The (dogs), don't walk - >fr< 2026!"


def words(tokenizer, text):
    """The words; their places must be all tokens, each once, in order."""
    (ids,) = tokenizer.encode_batch([text])
    listed = tokenizer.words(ids)
    assert [place for _, places in listed for place in places] == list(range(len(ids)))
    return [word for word, _ in listed]


def foreign(inner, unk=None):
    return Tokenizer(inner, Specials(unk=unk))


@pytest.mark.parametrize("split_digits", [True, False])
def test_bpe_with_metaspace(split_digits):
    tokenizer = make_tokenizer("bpe", LINES, vocab_size=70, split_digits=split_digits)
    assert words(tokenizer, TEXT) == ["The", "(", "dogs", "),", "don't", "walk", "-", ">fr<", "2026", "!"]
    (ids,) = tokenizer.encode_batch([TEXT])
    assert len(ids) > 20, "they were in pieces"


def test_wordpiece():
    tokenizer = make_tokenizer("wordpiece", LINES, vocab_size=70)
    assert words(tokenizer, "The houses walk, talking") == ["The", "houses", "walk", ",", "talking"]
    assert words(tokenizer, "The ☃ dogs") == ["The", "<unk>", "dogs"]


def test_words_and_characters_stay_as_they_are():
    tokenizer = make_tokenizer("word", LINES)
    assert words(tokenizer, "The dog ran, zebra") == ["The", "dog", "ran", ",", "<unk>"]
    tokenizer = make_tokenizer("char", LINES)
    assert words(tokenizer, "dog ran") == ["d", "o", "g", "␣", "r", "a", "n"]


def test_byte_level_bpe():
    inner = Inner(models.BPE({letter: n for n, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    assert words(foreign(inner), "An old über-house (né 1990).") == [
        "An", "old", "über-house", "(", "né", "1990", ").",
    ]  # fmt: skip


def test_sentencepiece_and_scripts_without_spaces():
    pieces = ["<unk>", "▁", "▁The", "▁ca", "ts", "我", "喜欢", "猫", "。", "!"]
    inner = Inner(models.Unigram([(piece, -1.0) for piece in pieces], 0))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer = foreign(inner, unk=0)
    assert words(tokenizer, "The cats!") == ["The", "cats", "!"]
    assert words(tokenizer, "我喜欢猫。") == ["我", "喜欢", "猫", "。"]
    assert words(tokenizer, "The Zcats 我") == ["The", "<unk>ts", "我"]


def test_endings():
    vocabulary = {piece: n for n, piece in enumerate(["t", "h", "e</w>", "c", "a", "t</w>", "</w>", "e", ".</w>"])}
    inner = Inner(models.BPE(vocabulary, [], end_of_word_suffix="</w>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.decoder = decoders.BPEDecoder()
    assert words(foreign(inner), "the cat .") == ["the", "cat", "."]


def test_no_tokens_are_no_words():
    assert make_tokenizer("bpe", LINES, vocab_size=70).words([]) == []
