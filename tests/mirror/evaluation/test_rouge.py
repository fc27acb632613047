"""ROUGE by hand-made cases, and against the package rouge-score where it is installed."""

from __future__ import annotations

import random

import pytest

from regard.evaluation.rouge import common_subsequence, rouge


def test_by_hand():
    scores = rouge(["The cat sat, on the mat."], [["the cat was on the mat"]])
    # six words each; shared: the ×2, cat, on, mat = 5; pairs: the cat, on the, the mat = 3 of 5; in order: 5
    assert scores == {name: pytest.approx(100 * part) for name, part in zip(scores, (5 / 6, 3 / 5, 5 / 6), strict=True)}


def test_order_counts_only_for_l_and_pairs():
    scores = rouge(["d c b a"], [["a b c d"]])
    assert scores == {"rouge_1": 100.0, "rouge_2": 0.0, "rouge_l": 25.0}


def test_repeating_a_word_does_not_help():
    assert rouge(["gas gas gas gas"], [["gas leak"]])["rouge_1"] == pytest.approx(100 * 2 * (1 / 4) * (1 / 2) / (3 / 4))


def test_the_best_reference_counts_and_empty_texts_score_nothing():
    assert rouge(["two words", ""], [["no match", "two words"], ["a"]])["rouge_l"] == pytest.approx(50.0)
    assert rouge(["a", "b"], [[""], []]) == {"rouge_1": 0.0, "rouge_2": 0.0, "rouge_l": 0.0}


def test_letters_of_other_alphabets_are_words():
    assert rouge(["Привет, мир"], [["привет мир"]])["rouge_2"] == 100.0


@pytest.mark.parametrize("seed", range(20))
def test_the_subsequence_is_the_longest(seed):
    draw = random.Random(seed)
    first, second = (["abc"[draw.randrange(3)] for _ in range(draw.randrange(8))] for _ in range(2))

    def longest(left, right):
        if not left or not right:
            return 0
        if left[0] == right[0]:
            return 1 + longest(left[1:], right[1:])
        return max(longest(left[1:], right), longest(left, right[1:]))

    assert common_subsequence(first, second) == longest(first, second)


def test_equals_rouge_score():
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="rouge-score is not installed")
    draw, words = random.Random(1), ["the", "a", "cat", "dog", "sat_down", "on", "12", "mat,", "runs.", "It's", "fast"]
    texts, references = ([" ".join(draw.choices(words, k=draw.randrange(12))) for _ in range(50)] for _ in range(2))
    theirs = scorer.RougeScorer(["rouge1", "rouge2", "rougeL"])
    rows = [theirs.score(reference, text) for text, reference in zip(texts, references, strict=True)]
    ours = rouge(texts, [[reference] for reference in references])
    for own, name in zip(ours.values(), ("rouge1", "rouge2", "rougeL"), strict=True):
        assert own == pytest.approx(100 * sum(row[name].fmeasure for row in rows) / len(rows))
