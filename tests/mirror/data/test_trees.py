"""Trees from brackets and back; a grammar under which anything that is chosen becomes a tree over the words."""

import random

import pytest

from regard.core.errors import DataError
from regard.data.tree_grammar import Brackets, TreeGrammar
from regard.data.trees import LEAF, Tree, clean, from_tokens, parse, read_trees, spans

LINE = "(S1 (S (NP-SBJ (DT The) (NN cat)) (VP (VBZ sleeps) (NP (-NONE- *))) (PERIOD .)))"


def test_a_line_becomes_words_and_tokens():
    tree = clean(parse(LINE))
    assert tree.words == ["The", "cat", "sleeps", "."]
    assert tree.tokens() == ["(S", "(NP", "XX", "XX", ")NP", "(VP", "XX", ")VP", "XX", ")S"]
    assert str(tree) == "(S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))"


def test_tokens_and_words_become_the_tree_again():
    tree = clean(parse(LINE))
    again = from_tokens(tree.tokens(), tree.words)
    assert again.tokens() == tree.tokens()
    assert again.words == tree.words
    assert {leaf.label for leaf in again.leaves()} == {LEAF}


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("123\t((HEADING (NP (NN Background))))", ["(HEADING", "(NP", "XX", ")NP", ")HEADING"]),
        ("(S1 (NN word))", ["(X", "XX", ")X"]),
        ("(TOP (S (NP (-NONE- *)) (VP (VB go))))", ["(S", "(VP", "XX", ")VP", ")S"]),
        ("( (S=1 (NP|X (NN a))))", ["(S", "(NP", "XX", ")NP", ")S"]),
        ("(PRN (-LRB- -LRB-) (NN a) (-RRB- -RRB-))", ["(PRN", "XX", "XX", "XX", ")PRN"]),
    ],
)
def test_what_says_nothing_is_taken_away(line, tokens):
    assert clean(parse(line)).tokens() == tokens


def test_a_tree_of_traces_is_nothing():
    assert clean(parse("(S (NP (-NONE- *)))")) is None


@pytest.mark.parametrize(
    "line",
    ["(S (NP (NN a))", "(S (NN a)))", "()", "(S ())", "words only", "(S a b)", "(S (NN a)) (S (NN b))", "(" * 500],
)
def test_what_is_no_tree_is_refused(line, tmp_path):
    with pytest.raises(DataError, match="is not a tree"):
        parse(line)
    (tmp_path / "bad.trees").write_text(f"(S (NN a))\n{line}\n")
    with pytest.raises(DataError, match="line 2 of"):
        read_trees(tmp_path / "bad.trees")


def test_a_file_without_trees_is_refused(tmp_path):
    (tmp_path / "none").write_text("\n\n")
    with pytest.raises(DataError, match="holds no tree"):
        read_trees(tmp_path / "none")


@pytest.mark.parametrize(
    "tokens", [["(S", "XX"], ["(S", "XX", ")NP"], ["(S", "XX", ")S"], ["(S", "XX", "XX", "XX", ")S"], [")S"]]
)
def test_brackets_that_do_not_match_their_words_are_refused(tokens):
    with pytest.raises(DataError):
        from_tokens(tokens, ["two", "words"])


def test_spans_leave_out_what_is_dropped():
    tree = Tree("S", [Tree("NP", [Tree("NN", word="a")]), Tree("X", [Tree(",", word=",")]), Tree("NN", word="b")])
    assert spans(tree) == [("NP", 0, 1), ("X", 1, 2), ("S", 0, 3)]
    assert spans(tree, [False, True, False]) == [("NP", 0, 1), ("S", 0, 2)]


PIECES = ["<pad>", "<unk>", "<s>", "</s>", "(S", ")S", "(NP", ")NP", "XX", "(lone"]


def walk(n_words, limit, dice, prefer=()):
    """Choose at random, or what is preferred, among what the grammar allows, until the end."""
    grammar, tokens = TreeGrammar(Brackets(PIECES, eos=3), ["w"] * n_words, limit), []
    while not tokens or tokens[-1] != 3:
        allowed = grammar(tokens).nonzero()[:, 0].tolist()
        assert allowed, "there is always a way on"
        wanted = [token for token in allowed if PIECES[token] in prefer]
        tokens.append(dice.choice(wanted or allowed))
        assert len(tokens) <= limit
    return [PIECES[token] for token in tokens[:-1]]


@pytest.mark.parametrize("seed", range(40))
def test_every_walk_is_a_tree_over_the_words_within_the_limit(seed):
    dice = random.Random(seed)
    n_words = dice.randint(1, 12)
    limit = dice.randint(n_words + 3, 8 * n_words + 10)
    prefer = dice.choice([(), ("(S", "(NP"), ("XX",), (")S", ")NP")])
    words = [f"w{number}" for number in range(n_words)]
    tree = from_tokens(walk(n_words, limit, dice, prefer), words)
    assert tree.words == words


def test_a_tree_is_not_too_deep_to_be_written_and_read_again():
    """A parser that has learnt little may open constituent after constituent."""
    words = [f"w{number}" for number in range(200)]
    tree = from_tokens(walk(200, 1500, random.Random(1), prefer=("(S", "(NP")), words)
    assert parse(str(tree)).words == words


def test_a_label_that_cannot_close_never_opens():
    grammar = TreeGrammar(Brackets(PIECES, eos=3), ["w"] * 2, 40)
    assert [PIECES[n] for n in grammar([]).nonzero()[:, 0].tolist()] == ["(S", "(NP"]


def test_words_of_the_vocabulary_stand_for_themselves_and_must_come_in_their_order():
    tree = parse("(S (NP (NN cats)) (VP (VBP sleep)))")
    assert tree.tokens({"cats"}) == ["(S", "(NP", "cats", ")NP", "(VP", "XX", ")VP", ")S"]
    assert from_tokens(tree.tokens({"cats"}), tree.words).words == ["cats", "sleep"]
    pieces = [*PIECES, "cats", "dogs"]
    grammar = TreeGrammar(Brackets(pieces, eos=3), ["cats", "sleep", "<s>"], 40)
    opened = [pieces.index("(S"), pieces.index("(NP")]

    def leaves(*before):
        tokens = [*opened, *map(pieces.index, before)]
        return [pieces[n] for n in grammar(tokens).nonzero()[:, 0].tolist() if pieces[n][0] not in "()"]

    assert leaves() == ["cats"]
    assert leaves("cats") == leaves("cats", "XX") == ["XX"], "an unknown word, and a word that looks like a token"
    assert leaves("cats", "XX", "XX") == []


def test_no_room_for_a_tree_is_said():
    with pytest.raises(DataError, match="no room"):
        TreeGrammar(Brackets(PIECES, eos=3), ["w"] * 5, 7)
    with pytest.raises(DataError, match="no brackets"):
        Brackets(["a", "b"], eos=0)
