"""Labelled brackets as evalb counts them: by hand, and beside PYEVALB where that is installed."""

import importlib.util
import random

import pytest

from regard.data.trees import Tree, parse, spans
from regard.evaluation.brackets import right_branching, score

GOLD = parse("(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog))) (. .))")


def scores(gold, given):
    return score([(gold, given)])


def test_a_tree_equals_itself():
    assert scores(GOLD, GOLD).f1 == 1.0
    assert scores(GOLD, GOLD).exact == 1.0


def test_by_hand():
    """Gold: S NP VP NP. Given: S NP NP (the verb's phrase is missing) and a PP that is wrong: 3 of 4 both ways."""
    given = parse("(S (NP (XX the) (XX cat)) (XX sees) (NP (PP (XX a) (XX dog))) (XX .))")
    result = scores(GOLD, given)
    assert (result.precision, result.recall) == (3 / 4, 3 / 4)
    assert result.exact == 0.0


def test_marks_do_not_count():
    """Where a mark hangs changes nothing, and a constituent of marks alone is none."""
    given = parse("(S (NP (XX the) (XX cat)) (VP (XX sees) (NP (XX a) (XX dog)) (X (XX .))))")
    assert scores(GOLD, given).f1 == 1.0


def test_labels_count_but_prt_is_advp():
    gold = parse("(VP (VB give) (PRT (RP up)))")
    assert scores(gold, parse("(VP (XX give) (ADVP (XX up)))")).f1 == 1.0
    assert scores(gold, parse("(VP (XX give) (PP (XX up)))")).f1 == 0.5


def test_a_bracket_that_occurs_twice_must_be_given_twice():
    gold = parse("(NP (NP (NN cat)))")
    once = scores(gold, parse("(NP (XX cat))"))
    assert (once.precision, once.recall) == (1.0, 0.5)


def test_counts_of_sentences_are_added_up():
    other = parse("(S (NN a))")
    result = score([(GOLD, GOLD), (other, parse("(X (XX a))"))])
    assert (result.precision, result.recall, result.exact) == (4 / 5, 4 / 5, 0.5)


def test_nothing_right_is_zero():
    assert scores(parse("(S (NN a))"), parse("(X (XX a))")).f1 == 0.0


def test_the_baseline_branches_to_the_right():
    assert str(right_branching(GOLD)) == "(S (DT the) (NP (NN cat) (NP (VBZ sees) (NP (DT a) (NP (NN dog))))) (. .))"


def random_tree(words, dice):
    """Without marks and PRT, which PYEVALB takes as they are."""
    if len(words) == 1 and dice.random() < 0.6:
        return Tree(dice.choice(["NN", "VB"]), word=words[0])
    if len(words) == 1:
        return Tree(dice.choice(["NP", "VP", "ADVP"]), [random_tree(words, dice)])
    cut = dice.randint(1, len(words) - 1)
    return Tree(dice.choice(["S", "NP", "VP"]), [random_tree(words[:cut], dice), random_tree(words[cut:], dice)])


@pytest.mark.skipif(importlib.util.find_spec("PYEVALB") is None, reason="PYEVALB is not installed: the extra `test`")
def test_pyevalb_counts_the_same():
    from PYEVALB import parser, scorer

    dice, compared = random.Random(4), 0
    for _ in range(300):
        words = [f"w{number}" for number in range(dice.randint(2, 9))]
        gold, given = (Tree("S", [random_tree(words, dice)]) for _ in range(2))
        tags = iter([leaf.label for leaf in gold.leaves()])
        for leaf in given.leaves():
            leaf.label = next(tags)
        if any(len(set(spans(tree))) < len(spans(tree)) for tree in (gold, given)):
            continue  # PYEVALB counts a bracket that occurs twice as one, which evalb does not
        compared += 1
        theirs = scorer.Scorer().score_trees(*(parser.create_from_bracket_string(str(tree)) for tree in (gold, given)))
        ours = scores(gold, given)
        assert (ours.precision, ours.recall) == pytest.approx((theirs.prec, theirs.recall))
    assert compared > 50
