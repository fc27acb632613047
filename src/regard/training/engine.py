"""The one training loop.

An update reads `accumulate` batches, sums the loss over their real tokens, divides by their number, and steps.
Everything that decides what comes next is in a checkpoint: weights, optimizer moments, random generator, place in the
data, best result so far, moving average. So a run that was killed at any moment goes on to the same bits as one that
was not.
"""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.core import weights
from regard.core.batch import Batch
from regard.core.directions import Direction, better
from regard.core.errors import RegardError, UsageError
from regard.training import checkpoint
from regard.training.checkpoint import Checkpoint
from regard.training.config import TrainingConfig
from regard.training.interrupt import Interrupted, noted_signals
from regard.training.log import Log
from regard.training.optim import make_optimizer, restore_state, state_tensors
from regard.training.schedule import learning_rate


class Task(Protocol):
    """What is learnt: how many items a batch's loss is summed over, what they are called, and that sum."""

    @property
    def unit(self) -> str: ...
    def count(self, batch: Batch) -> int: ...
    def loss(self, model: Any, batch: Batch) -> Tensor: ...


class Data(Protocol):
    """Where batches come from: the same ones in the same order for the same epoch, from any place in it."""

    def batches_in_epoch(self, number: int) -> int: ...
    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]: ...


class Diverged(RegardError):
    """The loss or the gradient is no longer a number; nothing was updated with it."""


@dataclass
class Progress:
    """The numbers that, with the tensors, make up a checkpoint."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: float | None = None
    best_step: int = 0
    since_best: int = 0
    validated: list[int] | None = None


Validate = Callable[[nn.Module], dict[str, float]]


class Engine:
    """Trains `model` in `folder`. Of the numbers that `validate` gives `config.metric` decides which model is the best:
    the one where it is higher, or lower, as `direction` says."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        data: Data,
        config: TrainingConfig,
        folder: Path,
        *,
        validate: Validate | None = None,
        direction: Direction = "lower",
        on_best: Callable[[nn.Module], None] | None = None,
        quiet: bool = False,
    ) -> None:
        if config.max_steps is None and config.max_epochs is None:
            raise UsageError("nothing says when to stop", remedy="Set training.max_steps or training.max_epochs.")
        self.model, self.task, self.data, self.config, self.folder = model, task, data, config, folder
        self.validate, self.direction, self.on_best, self.quiet = validate, direction, on_best, quiet
        self.progress = Progress(validated=[])
        self.average: dict[str, Tensor] = {}
        self._written = -1
        self._losses: list[float] = []

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def run(self) -> Progress:
        """Train to the end, from the newest whole checkpoint if there is one."""
        warnings: list[str] = []
        newest = checkpoint.newest(self.checkpoints, warnings.append)
        if newest is not None:
            weights.load_into(self.model, {name: tensor.clone() for name, tensor in newest[1].model.items()})
        self.optimizer = make_optimizer(self.model, self.config)
        self._restore(newest[1] if newest else None)
        self.log = Log(self.folder, total=self._total, step=self.progress.step, quiet=self.quiet)
        for text in [*warnings, *([f"going on from update {self.progress.step}"] if newest else [])]:
            self.log.say(text)
        try:
            with noted_signals() as self._signals:
                self._loop()
        finally:
            self.log.close()
        return self.progress

    def _loop(self) -> None:
        self.model.train()
        self._timer_start, self._tokens, self._losses = time.monotonic(), 0, []
        updates = self._updates()
        while not self._finished():
            try:
                batches = next(updates)
            except StopIteration:
                break
            self._update(batches)
            if self._due_validation():
                self._validate()
            if self.progress.step % self.config.checkpoint_every == 0:
                self._checkpoint()
            if self._signals:
                self._checkpoint()
                raise Interrupted(self._signals[0], self.progress.step)
        if self.validate is not None and self.progress.step not in (self.progress.validated or []):
            self._validate()
        self._checkpoint()

    def _updates(self) -> Iterator[list[Batch]]:
        """Groups of batches from where the run stands; an epoch's last group may be smaller."""
        while self.config.max_epochs is None or self.progress.epoch < self.config.max_epochs:
            length = self.data.batches_in_epoch(self.progress.epoch)
            if length == 0:
                raise UsageError("there is nothing to train on", got="0 batches")
            group: list[Batch] = []
            for batch in self.data.epoch(self.progress.epoch, self.progress.batch):
                group.append(batch)
                if len(group) == self.config.accumulate or self.progress.batch + len(group) == length:
                    self.progress.batch += len(group)
                    if self.progress.batch == length:
                        self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
                    yield group
                    group = []

    def _update(self, batches: list[Batch]) -> None:
        config, step = self.config, self.progress.step + 1
        count = max(1, sum(self.task.count(batch) for batch in batches))
        total = torch.zeros(())
        for batch in batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=config.precision == "bfloat16"):
                loss = self.task.loss(self.model, batch)
            if not math.isfinite(loss.item()):
                raise Diverged(f"the loss is {loss.item()} at update {step}", remedy=_DIVERGED_REMEDY)
            (loss / count).backward()
            total += loss.detach()
        limit = config.clip if config.clip > 0 else math.inf
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit).item()
        if not math.isfinite(norm):
            raise Diverged(f"the gradient is {norm} at update {step}", remedy=_DIVERGED_REMEDY)
        rate = learning_rate(config.schedule, step, peak=config.lr, warmup=config.warmup, total=self._total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.step = step
        self._update_average()
        self._report(total.item() / count, count, rate, norm)

    def _update_average(self) -> None:
        """Move the exponential average of the weights a little towards the weights."""
        if self.config.ema:
            for name, tensor in self.model.state_dict().items():
                mean = self.average.setdefault(name, tensor.clone())
                if tensor.is_floating_point():
                    mean.lerp_(tensor, 1 - self.config.ema)

    def _report(self, loss: float, count: int, rate: float, norm: float) -> None:
        self._tokens += count
        self._losses.append(loss)
        self.log.advance(self.progress.step)
        if self.progress.step % self.config.log_every == 0:
            passed = time.monotonic() - self._timer_start
            mean = sum(self._losses) / len(self._losses)
            speed = self._tokens / max(passed, 1e-9)
            speeds = {f"{self.task.unit}_per_second": speed}
            self.log.write(self.progress.step, loss=mean, lr=rate, gradient=norm, **speeds)
            self._timer_start, self._tokens, self._losses = time.monotonic(), 0, []

    def _validate(self) -> None:
        if self.validate is None:
            return
        progress, started = self.progress, time.monotonic()
        self.model.eval()
        with self._averaged(), torch.no_grad():
            metrics = self.validate(self.model)
            value = metrics[self.config.metric]
            is_best = better(value, progress.best, self.direction)
            if is_best and self.on_best is not None:
                self.on_best(self.model)
        self.model.train()
        progress.best, progress.best_step, progress.since_best = (
            (value, progress.step, 0) if is_best else (progress.best, progress.best_step, progress.since_best + 1)
        )
        progress.validated = [*(progress.validated or []), progress.step][-max(1, self.config.average) :]
        facts = {f"validation_{name}": number for name, number in metrics.items()}
        self.log.write(progress.step, epoch=progress.epoch, **facts)
        self._timer_start += time.monotonic() - started
        # What was just found out belongs into this update's checkpoint, even if there is one already.
        self._written = -1
        self._checkpoint()

    def _due_validation(self) -> bool:
        every = self.config.validate_every
        return self.progress.step % every == 0 if every else self.progress.batch == 0

    def _finished(self) -> bool:
        enough = self.config.max_steps is not None and self.progress.step >= self.config.max_steps
        return enough or (0 < self.config.patience <= self.progress.since_best)

    @functools.cached_property
    def _total(self) -> int | None:
        """How many updates the run will make, where that can be known (epochs differ a little in length)."""
        if self.config.max_steps is not None:
            return self.config.max_steps
        if self.config.max_epochs is None:
            return None
        return self.config.max_epochs * -(-self.data.batches_in_epoch(0) // self.config.accumulate)

    def _checkpoint(self) -> None:
        if self._written == self.progress.step:
            return
        training = {f"optimizer/{name}": tensor for name, tensor in state_tensors(self.optimizer, self.model).items()}
        training |= {f"average/{name}": tensor for name, tensor in self.average.items()}
        training["generator"] = torch.get_rng_state()
        state = asdict(self.progress)
        checkpoint.write(self.checkpoints, self.progress.step, Checkpoint(self.model.state_dict(), training, state))
        self._written = self.progress.step
        newest = [int(path.name.removeprefix("step-")) for path in checkpoint.listing(self.checkpoints)][-2:]
        checkpoint.prune(self.checkpoints, {*newest, *(self.progress.validated or []), self.progress.best_step})

    def _restore(self, saved: Checkpoint | None) -> None:
        if saved is None:
            torch.manual_seed(self.config.seed)
            return
        known = {field.name for field in fields(Progress)}
        self.progress = Progress(**{name: value for name, value in saved.state.items() if name in known})
        parts: dict[str, dict[str, Tensor]] = {"optimizer": {}, "average": {}}
        for name, tensor in saved.training.items():
            kind, _, rest = name.partition("/")
            if rest:
                parts[kind][rest] = tensor.clone()
        restore_state(self.optimizer, self.model, parts["optimizer"])
        self.average = parts["average"]
        torch.set_rng_state(saved.training["generator"].clone())
        self._written = self.progress.step

    @contextlib.contextmanager
    def _averaged(self) -> Iterator[None]:
        """Validate with the moving average, where there is one; the weights come back afterwards."""
        if not self.average:
            yield
            return
        trained = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self.model.load_state_dict(self.average)
        try:
            yield
        finally:
            self.model.load_state_dict(trained)


_DIVERGED_REMEDY = (
    "Nothing was updated with it. Lower training.lr, lengthen training.warmup or set training.clip, with another --out."
)
