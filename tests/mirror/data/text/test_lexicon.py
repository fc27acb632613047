"""Translations of tokens, counted from pairs of lines."""

import random

import torch

from regard.data.text.lexicon import best_translations, frequent_tokens

HOUSE, THE, RED, CAT = range(4)
HAUS, DAS, ROT, KATZE, RARE = range(5)
WORDS = {HOUSE: HAUS, THE: DAS, RED: ROT, CAT: KATZE}


def test_a_word_for_word_language_is_learnt():
    """Model 1 sees which words come and go together, whatever their order."""
    dice = random.Random(1)
    source = [dice.sample(list(WORDS), dice.randint(1, 4)) for _ in range(200)]
    target = [sorted(WORDS[word] for word in row) for row in source]
    table = best_translations(source, target, n_source=5, n_target=5, best=2)
    assert table[:4, 0].tolist() == [WORDS[word] for word in range(4)]
    assert table[4].tolist() == [-1, -1], "a token that never came has no translation"


def test_shares_are_those_of_the_equations():
    """Two sentences by hand: after one round t(das|the) = (1/3 + 1/2) / (1/3 + 1/3 + 1/2), and das is the best."""
    source, target = [[THE, HOUSE], [THE]], [[DAS, HAUS], [DAS]]
    one_round = best_translations(source, target, n_source=2, n_target=2, best=2, rounds=1)
    assert one_round[THE].tolist() == [DAS, HAUS]
    assert sorted(one_round[HOUSE].tolist()) == [HAUS, DAS]
    later = best_translations(source, target, n_source=2, n_target=2, best=1, rounds=8)
    assert later.tolist() == [[HAUS], [DAS]]


def test_frequent_tokens_come_by_their_counts():
    assert frequent_tokens([[3, 3, 1], [3, 1, 0]], n_target=6, count=2).tolist() == [3, 1]
    assert frequent_tokens([[3]], n_target=6, count=4).tolist() == [3], "tokens that never came are not frequent"


def test_no_lines_give_no_translations():
    assert torch.equal(best_translations([], [], n_source=2, n_target=3, best=1), torch.full((2, 1), -1))
