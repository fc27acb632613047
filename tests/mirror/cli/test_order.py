"""Options may stand anywhere among the texts of a verb."""

import argparse

import pytest

from regard.cli._order import options_first


@pytest.fixture
def parser():
    made = argparse.ArgumentParser()
    made.add_argument("model")
    made.add_argument("texts", nargs="*")
    made.add_argument("--engine")
    made.add_argument("--json", action="store_true")
    made.add_argument("--with", nargs="+")
    return made


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["m", "a b", "--engine", "x", "c"], ["a b", "c"]),
        (["m", "--engine", "x", "a b", "--json"], ["a b"]),
        (["--json", "m", "--engine=x", "a"], ["a"]),
        (["m", "--eng", "x", "a"], ["a"]),
        (["m", "--engine", "x", "--", "--json", "-3"], ["--json", "-3"]),
        (["m", "a", "--engine", "x", "-"], ["a", "-"]),
    ],
)
def test_texts_may_follow_options(parser, words, texts):
    arguments, rest = parser.parse_known_args(options_first(parser, words))
    assert rest == []
    assert (arguments.model, arguments.engine, arguments.texts) == ("m", "x", texts)


def test_unknown_options_and_open_lists_stay_where_they_are(parser):
    assert options_first(parser, ["m", "--odd", "a"]) == ["m", "--odd", "a"]
    assert options_first(parser, ["m", "--json", "--with", "a", "b"]) == ["--json", "m", "--with", "a", "b"]
