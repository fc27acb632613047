"""The loop: what is resumed, averaged, clipped, logged, refused."""

import json
import math
import os
import shutil
import signal
import time

import pytest
import torch

from regard.core.errors import ConfigError, DataError, UsageError
from regard.training import checkpoint
from regard.training.config import TrainingConfig
from regard.training.divergence import Diverged
from regard.training.interrupt import Interrupted

SETTINGS = {
    "plain": {},
    "accumulate": {"accumulate": 3},
    "ema": {"ema": 0.9},
    "sgd": {"optimizer": "sgd", "momentum": 0.9},
    "adam and clipping": {"optimizer": "adam", "clip": 0.5, "weight_decay": 0.01, "schedule": "cosine"},
    "bfloat16": {"precision": "bfloat16"},
}


def weights_of(engine) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}


def state_of(engine) -> dict[str, torch.Tensor]:
    saved = checkpoint.newest(engine.checkpoints, print)[1]
    return {**saved.model, **saved.training}


def assert_equal(first: dict, second: dict) -> None:
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize("stop", [7, 10, *(pytest.param(step, marks=pytest.mark.slow) for step in (1, 19))])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_stopped_run_goes_on_to_the_same_bits(make_engine, name, stop):
    """Weights, optimizer, generator and moving average, stopped in the middle of an epoch or at its end."""
    whole = make_engine("whole", **SETTINGS[name])
    whole.run()
    first = make_engine("parts", **SETTINGS[name], checkpoint_every=1, validate_every=1, validate=stop_at(stop))
    with pytest.raises(Stop):
        first.run()
    second = make_engine("parts", **SETTINGS[name])
    second.run()
    assert_equal(weights_of(whole), weights_of(second))
    assert_equal(state_of(whole), state_of(second))


class Stop(Exception):
    """Stands in for a crash."""


def stop_at(step: int):
    count = iter(range(1, 10**6))

    def validate(model) -> dict[str, float]:
        if next(count) > step:
            raise Stop
        return {"loss": 1.0}

    return validate


def test_the_data_goes_on_where_it_stopped(make_engine):
    """Every batch of every epoch exactly once, whatever the grouping."""
    seen, copies = [], make_engine("unused").data

    class Watched:
        def batches_in_epoch(self, number):
            return 7

        def epoch(self, number, start=0):
            for index in range(start, 7):
                seen.append((number, index))
                yield next(iter(copies.epoch(number, index)))

    engine = make_engine("a", data=Watched(), accumulate=3, max_epochs=3, max_steps=None)
    progress = engine.run()
    assert seen == [(epoch, index) for epoch in range(3) for index in range(7)]
    assert progress.step == 9, "an epoch's last group may be smaller"


def test_accumulated_batches_equal_one_large_batch(make_engine):
    """The mean is over all tokens of the group, not a mean of means."""
    grads = []
    for accumulate in (1, 2):
        engine = make_engine(f"g{accumulate}", dropout=0.0, max_steps=1, accumulate=accumulate, optimizer="sgd", lr=1.0,
                             warmup=0, schedule="constant")  # fmt: skip
        before = weights_of(engine)
        if accumulate == 1:
            joined = engine.data
            first, second = (next(iter(joined.epoch(0, i))) for i in (0, 1))
            count = engine.task.count(first) + engine.task.count(second)
            loss = sum(engine.task.loss(engine.model, batch) for batch in (first, second)) / count
            loss.backward()
            grads.append({name: parameter.grad.clone() for name, parameter in engine.model.named_parameters()})
        else:
            engine.run()
            after = weights_of(engine)
            grads.append({name: before[name] - after[name] for name in grads[0]})
    for name, grad in grads[0].items():
        torch.testing.assert_close(grads[1][name], grad, atol=1e-6, rtol=1e-4)


def test_it_learns_and_says_so(make_engine):
    engine = make_engine(
        max_steps=300, dropout=0.0, validate=lambda model: {"loss": 1.0, "bleu": 2.0}, validate_every=100
    )
    started = time.monotonic()
    engine.run()
    took = time.monotonic() - started
    lines = [json.loads(line) for line in (engine.folder / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0] / 1.5
    assert math.log(12) / 2 < losses[0] < 2 * math.log(12)  # the mean of the first updates: 12 tokens to choose from
    # Five updates of 22 tokens between two lines: together, their times are most of the run's.
    seconds = sum(5 * 22 / line["tokens_per_second"] for line in lines if "loss" in line)
    assert took / 4 < seconds < took
    assert [line["step"] for line in lines if "validation_bleu" in line] == [100, 200, 300]
    assert any((engine.folder / "tensorboard").iterdir())


@pytest.mark.parametrize("length", [{"max_steps": 20}, {"max_epochs": 2}, {"max_epochs": 4, "accumulate": 2}])
def test_schedules_end_with_the_run_whether_updates_or_epochs_are_given(make_engine, length):
    engine = make_engine(**{"max_steps": None, **length}, schedule="linear", warmup=0, lr=0.021, log_every=1)
    engine.run()
    lines = [json.loads(line) for line in (engine.folder / "log.jsonl").read_text().splitlines()]
    rates = [line["lr"] for line in lines if "lr" in line]
    assert rates == pytest.approx([0.021 * (1 - step / 21) for step in range(1, 21)])


def test_a_resumed_log_reads_as_if_never_stopped(make_engine):
    with pytest.raises(Stop):
        make_engine("a", checkpoint_every=10, validate_every=1, validate=stop_at(17), log_every=1).run()
    log = make_engine("a").folder / "log.jsonl"
    log.write_text(log.read_text() + '{"step": 18, "lo')
    make_engine("a", log_every=1).run()
    steps = [json.loads(line)["step"] for line in log.read_text().splitlines() if "tokens_per_second" in line]
    assert steps == list(range(1, 24))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_writes_a_checkpoint_and_names_its_exit_code(make_engine, number):
    def validate(model):
        os.kill(os.getpid(), number)
        return {"loss": 1.0}

    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="stopped at update 4.*resumes") as caught:
        make_engine("a", validate_every=4, validate=validate, checkpoint_every=1000).run()
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) is before
    assert checkpoint.newest(make_engine("a").checkpoints, print)[1].state["step"] == 4
    make_engine("whole").run()
    resumed = make_engine("a")
    resumed.run()
    assert_equal(weights_of(resumed), state_model(make_engine("whole")))


def state_model(engine) -> dict[str, torch.Tensor]:
    return dict(checkpoint.newest(engine.checkpoints, print)[1].model)


def test_best_and_patience(make_engine):
    losses, saved = iter([3.0, 2.0, 2.5, 2.5, 2.5, 1.0]), []
    engine = make_engine(validate_every=2, patience=3, max_steps=100, validate=lambda model: {"loss": next(losses)},
                         on_best=lambda model: saved.append(1))  # fmt: skip
    progress = engine.run()
    assert (progress.best, progress.best_step, progress.step) == (2.0, 4, 10)
    assert len(saved) == 2


def test_higher_is_better_for_other_metrics(make_engine):
    scores = iter([1.0, 5.0, 3.0])
    engine = make_engine(metric="bleu", validate_every=2, max_steps=6, validate=lambda m: {"bleu": next(scores)})
    engine.direction = "higher"
    progress = engine.run()
    assert (progress.best, progress.best_step) == (5.0, 4)


@pytest.mark.parametrize(("direction", "best", "step"), [("higher", 5.0, 6), ("lower", 1.0, 4)])
def test_a_nan_is_never_the_best(make_engine, direction, best, step):
    scores = iter([math.nan, 1.0, 5.0, math.nan])
    engine = make_engine(metric="bleu", validate_every=2, max_steps=8, validate=lambda m: {"bleu": next(scores)})
    engine.direction = direction
    progress = engine.run()
    assert (progress.best, progress.best_step) == (best, step)


def test_checkpoints_are_pruned(make_engine):
    engine = make_engine(checkpoint_every=1, validate_every=6, average=2, validate=lambda m: {"loss": 1.0})
    engine.run()
    kept = [int(path.name[5:]) for path in checkpoint.listing(engine.checkpoints)]
    assert kept == [6, 18, 22, 23], "the best, those to average and the newest two"


def test_non_finite_loss_stops_before_the_update(make_engine):
    engine = make_engine(max_steps=5, checkpoint_every=1)
    task_loss, before = engine.task.loss, {}

    def loss(model, batch):
        if engine.progress.step == 3:
            before.update(weights_of(engine))
            return task_loss(model, batch) * math.nan
        return task_loss(model, batch)

    engine.task.loss = loss
    with pytest.raises(Diverged, match="nan at update 4.*training.lr"):
        engine.run()
    assert_equal(weights_of(engine), before)


def test_non_finite_gradient_stops_before_the_update(make_engine):
    engine = make_engine(max_steps=5)
    before = weights_of(engine)
    engine.model.output.weight.register_hook(lambda grad: grad * math.inf)
    with pytest.raises(Diverged, match="gradient is (nan|inf) at update 1"):
        engine.run()
    assert_equal(weights_of(engine), before)


def test_a_damaged_checkpoint_is_named_and_the_one_before_used(make_engine, capsys):
    whole = make_engine("whole")
    whole.run()
    with pytest.raises(Stop):
        make_engine("a", checkpoint_every=1, validate_every=1, validate=stop_at(9)).run()
    newest = checkpoint.listing(make_engine("a").checkpoints)[-1]
    damaged = bytearray((newest / "training.safetensors").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (newest / "training.safetensors").write_bytes(damaged)
    warnings = []
    path, _ = checkpoint.newest(newest.parent, warnings.append)
    assert path != newest
    assert newest.name in warnings[0]
    assert "training.safetensors is damaged" in warnings[0]
    resumed = make_engine("a")
    resumed.run()
    assert_equal(weights_of(whole), weights_of(resumed))


def test_another_number_of_processes_is_named_when_a_run_resumes(make_engine, monkeypatch):
    said = []
    monkeypatch.setattr("regard.training.log.Log.say", lambda log, text: said.append(text))
    with pytest.raises(Stop):
        make_engine("a", checkpoint_every=1, validate_every=1, validate=stop_at(3)).run()
    engine = make_engine("a", max_steps=5)
    engine.run()
    assert not any("processes" in text for text in said)
    _, saved = checkpoint.newest(engine.checkpoints, print)
    saved.training["generator/1"] = saved.training["generator"].clone()
    checkpoint.write(engine.checkpoints, 6, saved)
    make_engine("a", max_steps=7).run()
    assert "the run had 2 processes and now has 1: it resumes, not bit for bit" in said


@pytest.mark.parametrize("function", ["fsync", "rename", "replace"])
def test_a_full_disk_leaves_the_old_checkpoint(make_engine, monkeypatch, function):
    engine = make_engine("a", max_steps=4, checkpoint_every=1)

    def full(*_):
        raise OSError(28, "No space left on device")

    def validate(model):
        monkeypatch.setattr(os, function, full)
        return {"loss": 1.0}

    engine.validate, engine.config = validate, engine.config.model_copy(update={"validate_every": 3})
    with pytest.raises(DataError, match="step-00000003 could not be written.*No space left.*intact"):
        engine.run()
    monkeypatch.undo()
    assert [path.name for path in checkpoint.listing(engine.checkpoints)] == ["step-00000001", "step-00000002"]
    assert not [path for path in engine.checkpoints.iterdir() if path.name.startswith(".")]


def test_usage(make_engine):
    with pytest.raises(UsageError, match="max_steps or training.max_epochs"):
        make_engine(max_steps=None)
    with pytest.raises(ConfigError, match="lrr.*did you mean 'lr'"):
        TrainingConfig.parse({"lrr": 1})


def test_a_copied_checkpoint_is_left_alone(make_engine):
    make_engine("a", max_steps=4).run()
    newest = checkpoint.listing(make_engine("a").checkpoints)[-1]
    shutil.copytree(newest, newest.with_name(newest.name + "-backup"))
    assert make_engine("a", max_steps=6).run().step == 6
    assert newest.with_name(newest.name + "-backup").exists()
