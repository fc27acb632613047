"""The FLOPs of a run: against the closed formula, extrapolated, resumed, and without an effect on any bit."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from regard.models import config_of, make_model
from regard.training import flops
from regard.training.progress import Progress

SIZES = {"d_model": 64, "n_heads": 4, "n_layers": 3, "d_ff": 256, "vocab_size": 300, "max_len": 32}
OFF = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}


def counted(model, ids) -> int:
    with flops.Counting() as counting:
        torch.nn.functional.cross_entropy(model(ids).logits.flatten(0, 1), ids.flatten()).backward()
    return counting.flops


def test_the_count_is_that_of_the_formula():
    """6·N·tokens for the matrices (N counts those that multiply, so not the positions), and attention: 2 products of
    2·T²·D operations forward, 5 backward by the fused kernel (one is made again)."""
    model = make_model("gpt2", config_of("gpt2", {**SIZES, **OFF}))
    rows, length = 4, 32
    matrices = sum(part.numel() for part in model.parameters() if part.dim() == 2) - SIZES["max_len"] * SIZES["d_model"]
    attention = SIZES["n_layers"] * rows * 7 * 2 * length**2 * SIZES["d_model"]
    expected = 6 * matrices * rows * length + attention
    assert counted(model, torch.randint(300, (rows, length))) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
def test_recurrent_layers_are_counted(cell):
    options = {"vocab_size": 50, "cell": cell, "d_embedding": 32, "d_hidden": 48, "n_layers": 2, "dropout": 0.0}
    model = make_model("rnn", config_of("rnn", options))
    matrices = sum(part.numel() for part in model.parameters() if part.dim() == 2) - model.embedding.weight.numel()
    ids = torch.randint(50, (4, 16))
    # The first step's state is zero and the input of the first layer has a gradient: a few per cent either way.
    assert counted(model, ids) == pytest.approx(6 * matrices * ids.numel(), rel=0.1)


def test_counting_changes_no_bit(make_engine, monkeypatch):
    with_it = make_engine("with")
    with_it.run()
    monkeypatch.setattr(flops, "counting", lambda step: nullcontext())
    without = make_engine("without")
    without.run()
    for first, second in zip(with_it.model.parameters(), without.model.parameters(), strict=True):
        assert torch.equal(first, second)
    assert flops.total(with_it.progress) > 0
    assert flops.total(without.progress) is None


def test_the_log_ends_with_it_once(make_engine):
    def lines():
        return [
            facts
            for line in (engine.folder / "log.jsonl").read_text().splitlines()
            if "training_flops" in (facts := json.loads(line))
        ]

    engine = make_engine("run")
    engine.run()
    assert lines() == [
        {"step": engine.progress.step, "training_flops": flops.total(engine.progress), "items": engine.progress.items}
    ]
    make_engine("run").run()
    assert len(lines()) == 1


def test_few_updates_are_counted():
    chosen = [step for step in range(1, 2000) if not isinstance(flops.counting(step), nullcontext)]
    assert chosen == [*range(1, 9), 16, 32, 64, 128, 256, 512, 1024]


def test_the_rest_is_extrapolated_by_items():
    progress = Progress(step=3)
    for items, number in ((10, 1000.0), (10, 3000.0), (40, None)):
        flops.note(progress, items, number)
    assert flops.total(progress) == 12_000


def test_a_run_of_an_earlier_version_has_no_number(make_engine, monkeypatch):
    engine = make_engine("old", max_steps=4)
    engine.run()
    state = engine.checkpoints / "step-00000004" / "state.json"
    assert "items" in json.loads(state.read_text())
    engine._restore(SimpleNamespace(state={"step": 4}, training=_training_of(engine)), print)
    assert engine.progress.uncounted
    assert flops.total(engine.progress) is None


def _training_of(engine):
    from regard.training import checkpoint

    return checkpoint.newest(engine.checkpoints, print)[1].training
