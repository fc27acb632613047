"""`--engine` and `use_engine`: through the commands and from Python."""

import copy

import pytest
import torch
from tests.system.commands import run

import regard
from regard.core.errors import UnknownName
from regard.runtime.native import Missing, kernels

LINES = "cat dog\none two three red\n"
EXPECTED = "dog cat\nred three two one\n"


@pytest.fixture(scope="module")
def transformer(recipe, tmp_path_factory):
    """A Transformer that reverses words."""
    out = tmp_path_factory.mktemp("model") / "transformer"
    sizes = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_encoder_layers": 1, "n_decoder_layers": 1}
    model = {"name": "transformer", "options": {**sizes, "dropout": 0.0, "order": "pre"}}
    training = {**recipe["training"], "max_steps": 400, "validate_every": 200, "lr": 5e-3}
    regard.train({**recipe, "model": model, "training": training}, out, quiet=True)
    return out


needs_kernels = pytest.mark.skipif(isinstance(kernels(), Missing), reason="no C compiler to build the kernels with")


@pytest.mark.parametrize("engine", ["auto", "plain", "float32", "bfloat16", "int8"])
def test_every_engine_translates(transformer, engine):
    done = run("translate", transformer, "--engine", engine, text=LINES)
    assert (done.returncode, done.stdout) == (0, EXPECTED), done.stderr
    native = kernels()
    if isinstance(native, Missing):
        return
    if engine == "bfloat16" and not native.has_low_products:
        assert done.stderr == (
            "regard: note: bfloat16 cannot run, plain is used: this CPU has no products of bfloat16 numbers\n"
        )
    else:
        assert done.stderr == ""


def test_without_kernels_there_is_a_note_and_the_same_result(transformer, monkeypatch):
    monkeypatch.setenv("REGARD_NATIVE", "0")
    done = run("translate", transformer, "--engine", "int8", text=LINES)
    assert (done.returncode, done.stdout) == (0, EXPECTED)
    assert done.stderr == "regard: note: int8 cannot run, plain is used: REGARD_NATIVE is 0\n"
    assert run("translate", transformer, text=LINES).stderr == "", "auto needs no note"


def test_an_unknown_engine_is_one_line(transformer):
    done = run("translate", transformer, "--engine", "fast", text=LINES)
    assert done.returncode == 2
    assert "invalid choice: 'fast'" in done.stderr
    with pytest.raises(UnknownName, match="engine.*'flaot32'.*float32"):
        regard.load(transformer).use_engine("flaot32")


@needs_kernels
def test_changed_weights_are_packed_again(transformer):
    model = regard.load(transformer)
    assert model.use_engine("float32") is None
    assert model.translate(["cat dog"]) == ["dog cat"]
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.zero_()
    changed = model.translate(["cat dog"], max_length=5)
    model.use_engine("plain")
    assert changed == model.translate(["cat dog"], max_length=5) != ["dog cat"]


@needs_kernels
def test_a_model_that_has_run_can_be_copied(transformer):
    model = regard.load(transformer)
    model.use_engine("float32")
    model.translate(["cat dog"])
    twin = copy.deepcopy(model)
    del model
    assert twin.translate(["cat dog"]) == ["dog cat"]


def test_a_model_that_cannot_be_prepared_says_why(trained):
    done = run("translate", trained, "--engine", "float32", text=LINES)
    assert (done.returncode, done.stdout) == (0, EXPECTED)
    assert done.stderr == "regard: note: float32 cannot run, plain is used: Seq2seq is not made of Transformer blocks\n"
