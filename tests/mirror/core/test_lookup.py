import pytest

from regard.attention import make_score
from regard.core import lookup
from regard.core.errors import ConfigError, RegardError, UnknownName, UsageError

SCORES = "regard.attention.scores"


def test_names_are_files():
    assert lookup.names(SCORES) == ("additive", "cosine", "dot", "general", "location", "scaled_dot")
    assert lookup.find(SCORES, "scaled_dot").__name__ == "ScaledDot"
    assert lookup.find("regard.attention.positions", "none").__name__ == "NonePosition"


@pytest.mark.parametrize(
    "package", ["regard.attention.scores", "regard.attention.choosers", "regard.attention.positions"]
)
def test_every_file_is_found(package):
    for name in lookup.names(package):
        assert isinstance(lookup.find(package, name), type)


def test_unknown_names_suggest_near_ones():
    with pytest.raises(UnknownName, match="unknown score: got 'aditive', expected one of additive, .*mean 'additive'"):
        lookup.find(SCORES, "aditive")


@pytest.mark.parametrize("name", ["os", "..core.errors", "_dot_form", "", "os.path", "Dot"])
def test_nothing_outside_the_listing_is_reached(name):
    with pytest.raises(UnknownName):
        lookup.find(SCORES, name)


def test_offers_are_taken_or_missed():
    assert make_score("dot", 4, 4).as_dot is not None
    assert make_score("additive", 4, 6, d_hidden=3).v.in_features == 3
    with pytest.raises(UsageError, match=r"'location' has weights.*needs d_query, max_keys.*Location\(d_query=…"):
        make_score("location")


def test_errors_read_as_one_line():
    error = RegardError("the thing is off", got=3, expected="4", remedy="Turn it on.")
    assert str(error) == "the thing is off: got 3, expected 4. Turn it on."
    assert str(RegardError("plain")) == "plain"
    assert (RegardError("x").exit_code, ConfigError("x").exit_code) == (1, 2)
