"""`--engine` and `use_engine`: through the commands and from Python."""

import copy

import pytest
import torch
from tests.system.commands import one_line, run

import regard
from regard.core.errors import UnknownName
from regard.runtime.native import Missing, kernels

LINES = "cat dog\none two three red\n"
EXPECTED = "dog cat\nred three two one\n"
needs_kernels = pytest.mark.skipif(isinstance(kernels(), Missing), reason="no C compiler to build the kernels with")


@pytest.mark.parametrize("engine", ["auto", "plain", "float32", "int8"])
def test_every_engine_translates(trained, engine):
    done = run("translate", trained, "--engine", engine, text=LINES)
    assert (done.returncode, done.stdout) == (0, EXPECTED), done.stderr
    if not isinstance(kernels(), Missing):
        assert done.stderr == ""


def test_without_kernels_there_is_a_note_and_the_same_result(trained, monkeypatch):
    monkeypatch.setenv("REGARD_NATIVE", "0")
    done = run("translate", trained, "--engine", "int8", text=LINES)
    assert (done.returncode, done.stdout) == (0, EXPECTED)
    assert done.stderr == "regard: note: int8 cannot run, plain is used: REGARD_NATIVE is 0\n"
    assert run("translate", trained, text=LINES).stderr == "", "auto needs no note"


def test_an_unknown_engine_is_one_line(trained):
    assert "invalid choice: 'fast'" in one_line(run("translate", trained, "--engine", "fast", text=LINES), 2)
    with pytest.raises(UnknownName, match="engine.*'flaot32'.*float32"):
        regard.load(trained).use_engine("flaot32")


@needs_kernels
def test_changed_weights_are_packed_again(trained):
    model = regard.load(trained)
    assert model.use_engine("float32") is None
    assert model.translate(["cat dog"]) == ["dog cat"]
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.zero_()
    changed = model.translate(["cat dog"], max_length=5)
    model.use_engine("plain")
    assert changed == model.translate(["cat dog"], max_length=5) != ["dog cat"]


@needs_kernels
def test_a_model_that_has_run_can_be_copied(trained):
    model = regard.load(trained)
    model.use_engine("float32")
    model.translate(["cat dog"])
    twin = copy.deepcopy(model)
    del model
    assert twin.translate(["cat dog"]) == ["dog cat"]
