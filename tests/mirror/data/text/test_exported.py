"""One tokenizer in place of two, the same tokens by other names."""

import pytest

from regard.core.errors import UsageError
from regard.data.text import Specials, make_tokenizer
from regard.data.text.exported import one_vocabulary, padded_by_start, with_last_padding

SOURCE = ["the cat sat on the mat", "a dog ran home", "the dog sat"]
TARGET = ["die Katze saß auf der Matte", "ein Hund lief heim", "der Hund saß"]
TEXTS = [*SOURCE, "saß Katze öh", "zzz ✈ the", "", " the  cat "]


@pytest.mark.parametrize("kind", ["bpe", "word", "char"])
def test_one_vocabulary_reads_as_the_source_and_writes_as_the_target(kind):
    source, target = (make_tokenizer(kind, lines, vocab_size=60) for lines in (SOURCE, TARGET))
    both = one_vocabulary(source, target)
    read = [[both.source[token] for token in row] for row in both.tokenizer.encode_batch(TEXTS)]
    assert read == source.encode_batch(TEXTS)
    assert len(both.source) == len(both.target) == both.tokenizer.vocab_size
    place = {old: new for new, old in enumerate(both.target) if old is not None}
    assert sorted(place) == list(range(target.vocab_size))
    for row in target.encode_batch(TARGET):
        assert both.tokenizer.decode([place[token] for token in row]) == target.decode(row)
    assert both.source[:4] == both.target[:4] == [0, 1, 2, 3]


def test_one_tokenizer_stays_as_it_is():
    tokenizer = make_tokenizer("bpe", SOURCE, vocab_size=60)
    both = one_vocabulary(tokenizer, tokenizer)
    assert both.tokenizer is tokenizer
    assert both.source == both.target == list(range(tokenizer.vocab_size))


def test_vocabularies_whose_pieces_would_mix_are_refused():
    two = [make_tokenizer("wordpiece", lines, vocab_size=90) for lines in (SOURCE, TARGET)]
    with pytest.raises(UsageError, match="two vocabularies of this kind"):
        one_vocabulary(*two)
    with pytest.raises(UsageError, match="BPE and WordLevel"):
        one_vocabulary(make_tokenizer("bpe", SOURCE, vocab_size=60), make_tokenizer("word", TARGET))


@pytest.mark.parametrize("kind", ["bpe", "word", "char", "wordpiece"])
def test_padding_moves_to_the_end_and_nothing_else(kind, tmp_path):
    before = make_tokenizer(kind, SOURCE, vocab_size=90)
    after = with_last_padding(before).ending()
    assert after.specials == Specials(pad=before.vocab_size, unk=1, bos=2, eos=3)
    assert after.vocab_size == before.vocab_size + 1
    texts = [*TEXTS, "<pad>", "<unused>", "</s>"]
    assert after.encode_batch(texts) == before.encode_batch(texts)
    after.save(tmp_path / "tokenizer.json")
    again = type(after).load(tmp_path / "tokenizer.json")
    assert again.specials == after.specials
    assert again.tokens([0, after.pad]) == ["<unused>", "<pad>"]


def test_padding_by_the_start_token():
    before = make_tokenizer("bpe", SOURCE, vocab_size=60)
    after = padded_by_start(before)
    assert after.pad == after.bos == before.bos
    assert after.encode_batch(TEXTS) == before.encode_batch(TEXTS)
