"""Runs the `fit` of models that are not trained by gradients: n-grams that count, word vectors with their own loop.

The model reads the data once per epoch (`training.max_epochs`, by default 1). The log, the progress bar and signals are
those of the training loop; a step is a batch. If the model is fitted in epochs, a checkpoint after each lets the run
resume there, to the bit. Otherwise an interrupted run starts again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.core import weights
from regard.core.batch import Batch
from regard.core.contracts import FitEpoch, Fitted, FittedInEpochs
from regard.core.errors import RegardError, UsageError
from regard.training import checkpoint
from regard.training.checkpoint import Checkpoint
from regard.training.config import TrainingConfig
from regard.training.divergence import check_number, check_weights
from regard.training.interrupt import noted_signals
from regard.training.log import Log
from regard.training.trained import Data


class FitInterrupted(RegardError):
    """A signal asked the run to stop."""

    def __init__(self, number: int, epoch: int) -> None:
        kept = f"the first {epoch} epochs are kept" if epoch else "nothing is kept yet"
        super().__init__(f"stopped in epoch {epoch + 1}; {kept}", remedy="The same command goes on from there.")
        self.exit_code = 128 + number


def fit_model(model: nn.Module, data: Data, config: TrainingConfig, folder: Path, *, quiet: bool = False) -> None:
    """Fit the model on all epochs, from the newest complete checkpoint if there is one."""
    _Fitting(model, data, config, folder).run(quiet=quiet)


class _Fitting:
    def __init__(self, model: nn.Module, data: Data, config: TrainingConfig, folder: Path) -> None:
        assert isinstance(model, Fitted)
        self.model: Any = model
        self.resumes = isinstance(model, FittedInEpochs)
        self.data, self.config, self.folder = data, config, folder
        self.epochs, self.length = config.max_epochs or 1, data.batches_in_epoch(0)
        if self.length == 0:
            raise UsageError("there is nothing to train on", got="0 batches")
        self.checkpoints = folder / "checkpoints"

    def run(self, *, quiet: bool) -> None:
        warnings: list[str] = []
        begin = self._restored(warnings)
        self.log = Log(self.folder, total=self.epochs * self.length, step=begin * self.length, quiet=quiet)
        finished = f"this run is finished already, after {begin} epoch{'s' * (begin != 1)}"
        for text in [
            *warnings,
            *([finished if begin >= self.epochs else f"resuming after epoch {begin}"] * bool(begin)),
        ]:
            self.log.say(text)
        try:
            with noted_signals() as self._signals:
                for number in range(begin, self.epochs):
                    self._epoch(number)
        finally:
            self.log.close()

    def _epoch(self, number: int) -> None:
        config, started = self.config, time.monotonic()
        step = (number + 1) * self.length
        epoch = FitEpoch(number, self.epochs, config.seed, config.lr, self.log.say, lambda: self._check(number))
        facts = dict(self.model.fit(_Batches(self, number), epoch))
        for name, value in facts.items():
            check_number(name, value, step)
        self.log.write(step, epoch=number + 1, seconds=time.monotonic() - started, **facts)
        if self.resumes:
            check_weights(self.model, step)
            state = {"epoch": number + 1}
            kept = Checkpoint(self.model.state_dict(), self.model.fit_state(), state)
            checkpoint.write(self.checkpoints, step, kept)
            checkpoint.prune(self.checkpoints, {step, step - self.length})
        if self._signals and number + 1 < self.epochs:
            raise FitInterrupted(self._signals[0], number + 1 if self.resumes else 0)

    def batches(self, number: int) -> Iterator[Batch]:
        """The epoch's batches; the bar advances when the next is asked for, and a signal stops there."""
        for place, batch in enumerate(self.data.epoch(number)):
            self.log.advance(number * self.length + place)
            self._check(number)
            yield batch
        self.log.advance((number + 1) * self.length)

    def _check(self, number: int) -> None:
        """Stop if a signal was received."""
        if self._signals:
            raise FitInterrupted(self._signals[0], number if self.resumes else 0)

    def _restored(self, warnings: list[str]) -> int:
        """Load the newest checkpoint; return the number of epochs that are done."""
        newest = checkpoint.newest(self.checkpoints, warnings.append)
        if newest is None or not self.resumes:
            return 0
        saved = newest[1]
        weights.load_into(self.model, {name: tensor.clone() for name, tensor in saved.model.items()})
        self.model.load_fit_state({name: tensor.clone() for name, tensor in saved.training.items()})
        return int(saved.state["epoch"])


@dataclass(frozen=True)
class _Batches:
    """The batches of an epoch. A model may read them more than once, for example to count words first."""

    fitting: _Fitting
    number: int

    def __iter__(self) -> Iterator[Batch]:
        return self.fitting.batches(self.number)
