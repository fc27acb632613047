"""The generated texts of the story: the same each time, and as they say they are."""

from collections import Counter

from regard.data.trees import parse
from regard.story import senses
from regard.story.steps import _printed
from regard.story.treebank import trees


def test_a_word_of_two_senses_has_one_place():
    for use in senses.held_out():
        words = use.text.split()
        assert words[senses.PLACE] == use.word
        assert len(words) == 9


def test_held_out_sentences_are_not_in_the_training_text():
    lines = senses.training_lines(4000)
    assert lines == senses.training_lines(4000)
    assert not {use.text for use in senses.held_out()} & set(lines)
    uses = Counter((use.word, use.topic) for use in senses.held_out())
    assert len(uses) == 6
    assert min(uses.values()) > 5


def test_minimal_pairs_differ_on_one_side_only():
    for side in senses.SIDES:
        for pair in senses.minimal_pairs(side):
            first, second = (text.split() for text in pair)
            halves = {"before": slice(0, senses.PLACE), "after": slice(senses.PLACE + 1, None)}
            other = halves[next(each for each in senses.SIDES if each != side)]
            assert first[halves[side]] != second[halves[side]]
            assert first[other] == second[other]


def test_trees_are_trees_and_differ():
    lines = trees(300, seed=1)
    assert len(set(lines)) == 300
    assert lines == trees(300, seed=1)
    for line in lines:
        tree = parse(line)
        assert tree.words[-1] == "."
        assert 3 <= len(tree.words) <= 40


def test_only_the_words_say_where_a_preposition_belongs():
    nouns = {"(NP (NP": set(), "VP": set()}
    for line in trees(2000, seed=1):
        if "(PP" in line:
            noun = line[line.index("(PP") :].split("(NN ")[1].split(")")[0]
            nouns["(NP (NP" if "(NP (NP" in line and ")) (PP" in line and _inside_noun(line) else "VP"].add(noun)
    assert nouns["(NP (NP"]
    assert nouns["VP"]
    assert not nouns["(NP (NP"] & nouns["VP"]


def _inside_noun(line):
    """Whether the bracket around the (first) prepositional phrase is that of a noun."""
    depth = 0
    for place in range(line.index("(PP") - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(line[place], 0)
        if depth < 0:
            return line.startswith("(NP", place)
    raise AssertionError(line)


def test_the_printed_table_is_cheaper_where_it_says():
    """Of the big model only the ensembles for English–French cost ten times as much."""
    ratios = _printed.ratios()
    assert sum(ratio >= 10 for ratio in ratios["Transformer (big)"]) == 3
    assert sum(ratio >= 10 for ratio in ratios["Transformer (base model)"]) == 9
    assert len(ratios["Transformer (big)"]) == 12
    assert _printed.claim().verdict == "holds in part"
