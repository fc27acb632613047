"""Which weights a step reads, and the limits that follow."""

import pytest
import torch

from regard.evaluation.speed import SpeedTest, Work, limit_of, step_bytes
from regard.models import config_of, make_model
from regard.pipelines import make_pipeline
from regard.runtime.limits import Limits, Rate
from regard.store import StoredModel

LIMITS = Limits(Rate(10.0, "reading"), Rate(100.0, "products"), Rate(200.0, "products"), Rate(400.0, "products"))


def speed_test(name, task, options):
    config = config_of(name, options)
    return SpeedTest(make_pipeline(StoredModel(task, name, config, make_model(name, config).eval())))


def names(test):
    used = {id(weight) for weight in test._step_weights()}
    return {name for name, parameter in test.model.model.named_parameters() if id(parameter) in used}


@pytest.mark.parametrize("tie", [True, False])
def test_a_language_model_reads_all_but_tables(tie):
    options = {"vocab_size": 50, "d_model": 24, "n_layers": 2, "n_heads": 3, "max_len": 40, "tie": tie}
    test = speed_test("gpt2", "language_model", options)
    every = {name for name, _ in test.model.model.named_parameters()}
    unread = every - names(test)
    assert all("position" in name or (not tie and "embedding" in name) for name in unread)
    assert len(unread) == (1 if tie else 2)


def test_a_translator_does_not_read_its_encoder_again():
    options = {"source_vocab": 30, "target_vocab": 40, "d_model": 24, "n_heads": 3, "d_ff": 40, "share": "target"}
    test = speed_test("transformer", "translation", options)
    read = names(test)
    assert not any(name.startswith(("encoder", "source")) for name in read)
    assert not any(part in name for name in read for part in ("cross.key", "cross.value"))
    expected = {
        name
        for name, _ in test.model.model.named_parameters()
        if name.startswith(("decoder", "target_embedding")) and "cross.key" not in name and "cross.value" not in name
    }
    assert read == expected


def test_the_limit_is_reading_for_few_rows_and_products_for_many():
    weights = [torch.zeros(1000, 1000), torch.zeros(1000)]
    assert step_bytes(weights, "float32") == 4_004_000
    assert step_bytes(weights, "int8") == 1_004_000
    assert limit_of(Work(1, 1), "float32", LIMITS, weights) == pytest.approx(10e9 / 4_004_000)
    assert limit_of(Work(1, 1), "int8", LIMITS, weights) == pytest.approx(10e9 / 1_004_000)
    assert limit_of(Work(32, 1), "plain", LIMITS, weights) == pytest.approx(100e9 / 2e6)
    assert limit_of(Work(32, 5), "plain", LIMITS, weights) == pytest.approx(100e9 / 2e6 / 5)
    unknown = Limits(LIMITS.read, LIMITS.float32, None, None)
    assert limit_of(Work(1, 1), "int8", unknown, weights) is None
    assert unknown.best(LIMITS) == LIMITS


def test_lengths_fit_the_models_positions():
    options = {"vocab_size": 50, "d_model": 24, "n_layers": 1, "n_heads": 3}
    short, long = (speed_test("gpt2", "language_model", {**options, "max_len": length}) for length in (10, 400))
    assert (short.n_input, short.n_tokens) == (1, 9)
    assert (long.n_input, long.n_tokens) == (1, 32)
    short._generate(short.model.model, Work(2, 1), short.n_tokens)
