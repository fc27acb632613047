"""BPE-dropout: the same text in other tokens, by the dice alone."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from regard.core.errors import ConfigError
from regard.data.chance import Dice
from regard.data.text import make_tokenizer, merge_dropout
from regard.data.text.merge_dropout import MergeDropout

LINES = ["the lower tower", "slower lowest newer", "the newest tower <unk> </s>", "low low lower new"] * 5


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer("bpe", LINES, vocab_size=60)


def rows_cut(dropout, rows, dice):
    """Rows of ids in other tokens."""
    offsets = np.cumsum([0, *map(len, rows)])
    ids, offsets = dropout.cut(np.array([number for row in rows for number in row], dtype=np.uint16), offsets, dice)
    assert ids.dtype == np.uint16
    return [ids[start:end].tolist() for start, end in pairwise(offsets)]


def cuts(tokenizer, rate, text, count):
    (ids,) = tokenizer.encode_batch([text])
    return ids, rows_cut(MergeDropout(tokenizer, rate, 1000), [ids] * count, Dice(1, 0))


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("text", LINES[:3])
def test_every_cut_spells_the_same_text(tokenizer, rate, text):
    ids, drawn = cuts(tokenizer, rate, text, 50)
    assert all(tokenizer.decode(row) == tokenizer.decode(ids) for row in drawn)


def test_rate_0_changes_nothing_and_rate_1_leaves_characters(tokenizer):
    ids, drawn = cuts(tokenizer, 0.0, "lower tower", 20)
    assert all(row == ids for row in drawn)
    _, drawn = cuts(tokenizer, 1.0, "lower tower", 3)
    assert all(len(piece) == 1 for row in drawn for piece in tokenizer.tokens(row))


def test_the_same_dice_cut_alike(tokenizer):
    ids, drawn = cuts(tokenizer, 0.5, "slower newest tower", 20)
    assert cuts(tokenizer, 0.5, "slower newest tower", 20)[1] == drawn
    assert rows_cut(MergeDropout(tokenizer, 0.5, 1000), [ids] * 20, Dice(1, 1)) != drawn, "another epoch"
    assert len(set(map(tuple, drawn))) > 5


def test_rows_may_be_empty_and_do_not_grow_past_the_limit(tokenizer):
    (ids,) = tokenizer.encode_batch(["slower newest tower"])
    rows = [[], ids, ids[:1], [], ids, []] * 50
    drawn = rows_cut(MergeDropout(tokenizer, 0.9, len(ids) + 2), rows, Dice(1, 0))
    assert [tokenizer.decode(row) for row in drawn] == [tokenizer.decode(row) for row in rows]
    assert max(map(len, drawn)) == len(ids) + 2
    assert ids in drawn


def test_the_short_way_draws_as_the_long_way_does(tokenizer, monkeypatch):
    """Against the algorithm of the paper for every token: at each step every possible merge is left out at random."""
    piece = max(tokenizer.as_data()["model"]["vocab"], key=len)
    number = tokenizer.as_data()["model"]["vocab"][piece]
    dropout = MergeDropout(tokenizer, 0.2, 1000)
    monkeypatch.setattr(merge_dropout, "_VARIANTS", 4000)
    drawn = Counter(map(tuple, rows_cut(dropout, [[number]] * 4000, Dice(5, 0))))
    written_out = Counter()
    for row in range(4000):
        parts, _ = dropout._built(list(piece), Dice(6, 0, row))
        written_out[tuple(dropout._ids[part] for part in parts)] += 1
    assert 0.8 ** (len(piece) - 1) < drawn[(number,)] / 4000 < 0.8, "a merge that was left out may come later"
    for pieces in set(drawn) | set(written_out):
        assert drawn[pieces] == pytest.approx(written_out[pieces], abs=5 * (max(written_out[pieces], 20) * 2) ** 0.5)


def test_other_tokenizers_are_refused():
    words = make_tokenizer("word", LINES, vocab_size=60)
    with pytest.raises(ConfigError, match="merge_dropout needs tokens that are built by merges.*WordLevel"):
        MergeDropout(words, 0.1, 100)
