"""A word in several sentences: its states are found, compared, and refused where they are missing."""

import pytest
import torch
from tests.conformance.explained import made

import regard
from regard.core.errors import UsageError
from regard.explain import explain
from regard.explain.methods.senses import _words

SENTENCES = ["the cat sat on the mat", "a dog and the cat ran", "the old cat sat"]


def test_cosines_are_those_of_the_words_states():
    model, *_ = made("bert-none")
    trace = regard.trace(model, SENTENCES)
    result = explain(trace, method="senses", word="Cat")
    places = [trace.labels("input", row).index("cat") for row in range(3)]
    for layer, name in enumerate(result.data["layers"]):
        first, second = (trace.hidden[name][row, places[row]] for row in (0, 1))
        expected = float(torch.nn.functional.cosine_similarity(first, second, dim=0))
        assert result.data["cosines"]["1 and 2"][layer] == pytest.approx(expected, abs=1e-5)
    assert list(result.data["cosines"]) == ["1 and 2", "1 and 3", "2 and 3"]
    assert len(result.panels[1].rows) == len(trace.layers()) + 1
    assert result.statements[0] == "1: the cat sat on the mat"


def test_the_word_may_be_left_out_and_an_equal_sentence_is_equal():
    model, *_ = made("bert-none")
    result = explain(model, [SENTENCES[0], SENTENCES[0]], method="senses")
    assert result.data["word"] in SENTENCES[0]
    assert result.data["cosines"]["1 and 2"] == pytest.approx([1.0] * len(result.data["layers"]), abs=1e-5)


def test_pieces_are_joined_to_words():
    assert _words(["[CLS]", "play", "##ing", "."]) == [("[cls]", [0]), ("playing", [1, 2]), (".", [3])]
    assert _words(["<s>", "▁The", "▁F", "BI", "."]) == [("<s>", [0]), ("the", [1]), ("fbi", [2, 3]), (".", [4])]


def test_what_cannot_be_compared_is_said():
    model, *_ = made("bert-none")
    with pytest.raises(UsageError, match="sentence 2 lacks the word.*mat"):
        explain(model, SENTENCES[:2], method="senses", word="mat")
    with pytest.raises(UsageError, match="between sentences.*--file"):
        explain(model, SENTENCES[0], method="senses", word="cat")
