"""What the methods' files state, how options of the command line are read, and when methods are imported."""

import importlib
import inspect
import subprocess
import sys

import pytest

from regard import explain as explaining
from regard.core.errors import ConfigError, UnknownName, UsageError
from regard.explain import Trace, explain, find_method, method_names
from regard.explain.running import METHODS, Option

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def option(kind):
    return Option("hidden_size", kind, None, False)


@pytest.mark.parametrize("name", method_names())
def test_a_method_says_what_it_looks_at(name):
    module = importlib.import_module(f"{METHODS}.{name}")
    assert module.LOOKS_AT in ("trace", "model", None)
    parameters = inspect.signature(getattr(module, name)).parameters.values()
    positional = [parameter.name for parameter in parameters if parameter.kind in POSITIONAL]
    assert positional == ([] if module.LOOKS_AT is None else [module.LOOKS_AT])


@pytest.mark.parametrize("name", method_names())
def test_a_method_is_described_as_its_file_defines_it(name):
    module, method = importlib.import_module(f"{METHODS}.{name}"), find_method(name)
    assert method.function is getattr(module, name)
    assert getattr(explaining, name) is method.function
    assert method.looks_at == module.LOOKS_AT
    assert method.needs == getattr(module, "NEEDS", {})
    assert set(method.needs) <= set(inspect.signature(explaining.record).parameters)
    parameters = inspect.signature(method.function).parameters.values()
    assert list(method.options) == [parameter.name for parameter in parameters if parameter.kind not in POSITIONAL]
    assert method.summary.endswith((".", ";", ":"))


@pytest.mark.parametrize(
    ("kind", "word", "value"),
    [
        (int, "12", 12),
        (int, "-1", -1),
        (float, "0.25", 0.25),
        (float, "1e-3", 1e-3),
        (bool, "yes", True),
        (bool, "on", True),
        (bool, "true", True),
        (bool, "no", False),
        (bool, "off", False),
        (bool, "0", False),
        (int | None, "none", None),
        (int | None, "None", None),
        (int | None, "3", 3),
        (str | None, "none", None),
        (str | None, "3", "3"),
        (str, "none", "none"),
        (str, "encoder.*", "encoder.*"),
    ],
)
def test_a_word_is_read_by_the_options_type(kind, word, value):
    read = option(kind).parsed(word)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        (int, "2.5", "int"),
        (int, "none", "int"),
        (float, "half", "float"),
        (bool, "perhaps", "bool"),
        (int | None, "x", "int"),
    ],
)
def test_a_word_of_another_type_is_refused_in_one_line(kind, word, expected):
    with pytest.raises(ConfigError, match="--hidden-size has an invalid value") as caught:
        option(kind).parsed(word)
    message = str(caught.value)
    assert "\n" not in message
    assert word in message
    assert expected in message


def test_the_options_of_a_method_are_read_together():
    words = {"head": "none", "row": "2", "sites": "encoder.1"}
    assert find_method("effective").parsed(words) == {"head": None, "row": 2, "sites": "encoder.1"}
    assert find_method("identify").parsed({"test-share": "0.5"}) == {"test_share": 0.5}
    assert find_method("cost").parsed({"backward": "yes"}) == {"backward": True}
    with pytest.raises(UnknownName, match="test-share"):
        find_method("identify").parsed({"test-shore": "0.5"})


def test_options_are_checked_before_anything_runs():
    with pytest.raises(UnknownName, match="sites"):
        explain(None, method="maps", site="encoder.1")
    with pytest.raises(UsageError, match="lengths needs --text"):
        explain(None, method="lengths")
    with pytest.raises(UnknownName, match="maps"):
        find_method("map")


def test_a_method_of_models_refuses_a_trace():
    trace = Trace("made", "language_model", {"input": [["a"]]})
    for given, words in ((trace, "a trace"), (None, "none")):
        with pytest.raises(UsageError, match=f"memorised needs a model.*{words}"):
            explain(given, method="memorised", text="text.txt")


def test_methods_are_imported_when_they_are_asked_for():
    program = (
        "import sys, regard.explain as explain\n"
        f"loaded = [name for name in sys.modules if name.startswith('{METHODS}.')]\n"
        "assert not loaded, loaded\n"
        "explain.find_method('rollout')\n"
        f"assert '{METHODS}.rollout' in sys.modules\n"
        "assert 'rollout' in explain.method_names()\n"
        "assert callable(explain.rollout)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_trace_whose_parts_do_not_fit_is_refused(tmp_path):
    """Weights of another rank would only be met inside a method, as an error that says nothing."""
    from tests.conformance.explained import made

    from regard.core import weights
    from regard.core.errors import DataError
    from regard.explain import load_trace, trace

    model, text = made("gpt2")[:2]
    place = tmp_path / "a.trace"
    trace(model, text).save(place)
    assert load_trace(place).sites
    tensors, notes = weights.read_tensors(place), weights.metadata(place)
    name = next(name for name in tensors if name.endswith(".weights"))
    for other in (tensors[name].flatten(), tensors[name][None], tensors[name][..., :-1], tensors[name].long()):
        weights.write(place, {**tensors, name: other.contiguous()}, metadata=notes)
        with pytest.raises(DataError, match="a damaged trace: got site"):
            load_trace(place)
