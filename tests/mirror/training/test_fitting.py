"""Models that are fitted without gradients: what is logged, kept after each epoch, and resumed."""

import json
import os
import signal

import pytest
import torch
from torch import nn

from regard.core.batch import Batch
from regard.core.errors import UsageError
from regard.training import checkpoint
from regard.training.config import TrainingConfig
from regard.training.fitting import FitInterrupted, fit_model


class Numbers:
    """Three batches an epoch."""

    def batches_in_epoch(self, number):
        return 3

    def epoch(self, number, start=0):
        for index in range(start, 3):
            yield Batch({"numbers": torch.tensor([10.0 * number + index])})


class Sum(nn.Module):
    """Adds up what it reads; `stop_in` raises a signal in that epoch."""

    def __init__(self, stop_in=None):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.stop_in = stop_in

    def fit(self, batches, epoch):
        for batch in batches:
            self.total += batch["numbers"].sum()
            if epoch.number == self.stop_in:
                os.kill(os.getpid(), signal.SIGTERM)
        return {"total": float(self.total)}


class SumInEpochs(Sum):
    def fit_state(self):
        return {"twice": 2 * self.total}

    def load_fit_state(self, state):
        assert state["twice"] == 2 * self.total


def fit(model, folder, epochs=4):
    folder.mkdir(exist_ok=True)
    fit_model(model, Numbers(), TrainingConfig.parse({"max_epochs": epochs, "lr": 0.1}), folder, quiet=True)
    return model


def log_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_each_epoch_is_logged_with_its_number_and_the_batches_so_far(tmp_path):
    fit(Sum(), tmp_path)
    entries = [{name: entry[name] for name in ("step", "epoch", "total")} for entry in log_of(tmp_path)]
    assert entries == [
        {"step": 3, "epoch": 1, "total": 3.0},
        {"step": 6, "epoch": 2, "total": 36.0},
        {"step": 9, "epoch": 3, "total": 99.0},
        {"step": 12, "epoch": 4, "total": 192.0},
    ]


def test_a_stopped_run_goes_on_after_its_last_whole_epoch(tmp_path):
    with pytest.raises(FitInterrupted, match="stopped in epoch 3; the first 2 epochs are kept") as stopped:
        fit(SumInEpochs(stop_in=2), tmp_path)
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    assert fit(SumInEpochs(), tmp_path).total == 192.0
    assert [entry["epoch"] for entry in log_of(tmp_path)] == [1, 2, 3, 4]
    assert [path.name for path in checkpoint.listing(tmp_path / "checkpoints")] == ["step-00000009", "step-00000012"]
    assert fit(SumInEpochs(), tmp_path).total == 192.0  # a finished run is left as it is


def test_a_model_without_a_state_of_its_own_begins_again(tmp_path):
    with pytest.raises(FitInterrupted, match="stopped in epoch 1; nothing is kept yet"):
        fit(Sum(stop_in=1), tmp_path)
    assert fit(Sum(), tmp_path).total == 192.0


def test_no_data_is_refused(tmp_path):
    empty = Numbers()
    empty.batches_in_epoch = lambda number: 0
    with pytest.raises(UsageError, match="nothing to train on"):
        fit_model(Sum(), empty, TrainingConfig.parse({"max_epochs": 1}), tmp_path, quiet=True)
