"""The training loop.

An update reads `accumulate` batches, sums the loss over their real tokens, divides by the number of tokens, and steps.
A checkpoint holds everything that affects later updates: weights, optimizer moments, random generator, position in the
data, best result so far, moving average. So a run that was killed at any moment resumes to the same bits as a run that
was not.

The trained object is one module whose `forward(batch)` is the loss, so that several processes can train it together
(`distributed`): with the same batches and no dropout they give the result of one process, up to the rounding of sums.
Device and precision are decided only here.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.core import weights
from regard.core.batch import Batch
from regard.core.devices import HOST
from regard.core.directions import Direction, better
from regard.core.errors import UsageError
from regard.training import checkpoint, flops
from regard.training.checkpoint import Checkpoint
from regard.training.config import TrainingConfig
from regard.training.distributed import World, synchronised
from regard.training.divergence import check_number, check_weights
from regard.training.interrupt import STOPPING, Interrupted, noted_signals
from regard.training.log import Log, Silent
from regard.training.moving_average import PREFIX, MovingAverage
from regard.training.optim import make_optimizer, restore_state, state_tensors
from regard.training.progress import Progress
from regard.training.recompute import recompute_blocks
from regard.training.schedule import learning_rate
from regard.training.trained import Carries, Data, Task, Trained

Validate = Callable[[nn.Module], dict[str, float]]


class Engine:
    """Trains `model` in `folder`. `validate` returns metrics; the best model is the one with the highest or lowest
    `config.metric`, depending on `direction`."""

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
        world: World | None = None,
    ) -> None:
        if config.max_steps is None and config.max_epochs is None:
            raise UsageError("no end of training is set", remedy="Set training.max_steps or training.max_epochs.")
        self.model, self.task, self.data, self.config, self.folder = model, task, data, config, folder
        self.validate, self.direction, self.on_best, self.quiet = validate, direction, on_best, quiet
        self.world, self.device = world or World(), HOST
        if self.world.size > 1 and isinstance(task, Carries) and task.carry:
            raise UsageError("a state that is carried from batch to batch needs one process", got=self.world.size)
        self.progress = Progress()
        self.average = MovingAverage(config.ema)
        self._written = -1
        self._losses: list[float] = []

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def run(self) -> Progress:
        """Train to the end, from the newest complete checkpoint if there is one."""
        warnings: list[str] = []
        newest = checkpoint.newest(self.checkpoints, warnings.append)
        if newest is not None:
            weights.load_into(self.model, {name: tensor.clone() for name, tensor in newest[1].model.items()})
        self.model.to(self.device)
        self.optimizer = make_optimizer(self.model, self.config)
        self._restore(newest[1] if newest else None, warnings.append)
        self._module = self._wrapped()
        self.log = (Log if self.world.first else Silent)(
            self.folder, total=self._total, step=self.progress.step, quiet=self.quiet
        )
        for text in [*warnings, *([self._resumed()] if newest else [])]:
            self.log.say(text)
        try:
            with noted_signals() as self._signals:
                self._loop()
        finally:
            self.log.close()
        return self.progress

    def _resumed(self) -> str:
        config, progress = self.config, self.progress
        if self._finished() or (config.max_epochs is not None and progress.epoch >= config.max_epochs):
            return f"this run is finished already, after {progress.step} updates"
        return f"resuming from update {progress.step}"

    def _wrapped(self) -> nn.Module:
        """The module whose forward is the loss; with several processes, it also sums their gradients."""
        recompute_blocks(self.model, self.config.recompute)
        module = Trained(self.model, self.task)
        return module if self.world.size == 1 else DistributedDataParallel(module, find_unused_parameters=True)

    def _loop(self) -> None:
        self.model.train()
        self._timer_start, self._tokens, self._losses = time.monotonic(), 0, []
        updates, begun = self._updates(), self.progress.step
        while not self._finished():
            try:
                batches = next(updates)
            except StopIteration:
                break
            self._update(batches)
            if self._due_validation():
                self._validate()
            if self.progress.step % self.config.checkpoint_every == 0:
                self._mark()
                self._checkpoint()
            if number := self._signalled():
                self._checkpoint()
                raise Interrupted(number, self.progress.step)
        if self.validate is None or self.progress.step not in self.progress.validated:
            self._validate()
        if self.progress.step > begun:
            flops.report(self.log, self.progress, self.task.unit)
        self._mark()
        self._checkpoint()

    def _mark(self) -> None:
        """Without validation, mark this update's checkpoint as one to average."""
        if self.validate is None and self.config.average > 1 and self.progress.step not in self.progress.validated:
            self.progress.validated = [*self.progress.validated, self.progress.step][-self.config.average :]
            self._written = -1

    def _updates(self) -> Iterator[list[Batch]]:
        """Groups of batches from the current position; the last group of an epoch may be smaller."""
        while self.config.max_epochs is None or self.progress.epoch < self.config.max_epochs:
            length = self.data.batches_in_epoch(self.progress.epoch)
            if length == 0:
                raise UsageError("there is nothing to train on", got="0 batches")
            group: list[Batch] = []
            share = {"rank": self.world.rank, "world": self.world.size} if self.world.size > 1 else {}
            for batch in self.data.epoch(self.progress.epoch, self.progress.batch, **share):
                group.append(batch)
                if len(group) == self.config.accumulate or self.progress.batch + len(group) == length:
                    self.progress.batch += len(group)
                    if self.progress.batch == length:
                        self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0
                    yield group
                    group = []

    def _update(self, batches: list[Batch]) -> None:
        config, step = self.config, self.progress.step + 1
        counted = sum(self.task.count(batch) for batch in batches if not batch.idle)
        count = max(1, int(self.world.sums(counted)[0]))
        with flops.counting(step) as counting:
            total = sum(self._pass(batch, count, last=batch is batches[-1]) for batch in batches)
        flops.note(self.progress, count, None if counting is None else self.world.sums(counting.flops)[0])
        limit = config.clip if config.clip > 0 else math.inf
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit).item()
        check_number("gradient", norm, step)
        rate = learning_rate(config.schedule, step, peak=config.lr, warmup=config.warmup, total=self._total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["lr_scale"]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.step = step
        self.average.update(self.model)
        self._report(total / count, count, rate, norm)

    def _pass(self, batch: Batch, count: int, *, last: bool) -> float:
        """Forward and backward through one batch; returns its summed loss."""
        with synchronised(self._module, last):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
                loss = self._module(batch.to(self.device))
            summed = self.world.sums(loss.item())[0]
            check_number("loss", summed, self.progress.step + 1)
            # DDP averages the gradients of the processes, so each multiplies its loss by their number.
            (loss * (self.world.size / count) if self.world.size > 1 else loss / count).backward()
        return summed

    def _signalled(self) -> int:
        """The signal that reached any of the processes, so that all stop at the same update; 0: none."""
        number = max(self.world.sums(*(float(number in self._signals) for number in STOPPING)))
        if not number:
            return 0
        return next((number for number in STOPPING if number in self._signals), STOPPING[0])

    def _report(self, loss: float, count: int, rate: float, norm: float) -> None:
        self._tokens += count
        self._losses.append(loss)
        self.log.advance(self.progress.step, loss)
        if self.progress.step % self.config.log_every == 0:
            passed = time.monotonic() - self._timer_start
            mean = sum(self._losses) / len(self._losses)
            speed = self._tokens / max(passed, 1e-9)
            speeds = {f"{self.task.unit}_per_second": speed}
            self.log.write(self.progress.step, loss=mean, lr=rate, gradient=norm, **speeds)
            self._timer_start, self._tokens, self._losses = time.monotonic(), 0, []

    def _validate(self) -> None:
        if self.validate is None:
            self.log.tell_loss(self.progress.step)
            return
        progress, started = self.progress, time.monotonic()
        check_weights(self.model, progress.step)
        self.model.eval()
        metrics: dict[str, float] = {}
        with self.average.in_place_of(self.model), torch.no_grad():
            if self.world.first:
                metrics = self.validate(self.model)
            value = self.world.from_first(metrics.get(self.config.metric, math.nan))
            is_best = better(value, progress.best, self.direction)
            if is_best and self.on_best is not None and self.world.first:
                self.on_best(self.model)
        self.model.train()
        progress.best, progress.best_step, progress.since_best = (
            (value, progress.step, 0) if is_best else (progress.best, progress.best_step, progress.since_best + 1)
        )
        progress.validated = [*progress.validated, progress.step][-max(1, self.config.average) :]
        facts = {f"validation_{name}": number for name, number in metrics.items()}
        self.log.write(progress.step, epoch=progress.epoch, **facts)
        self._timer_start += time.monotonic() - started
        # The new validation result belongs into this update's checkpoint, even if that exists already.
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
        """The number of updates of the run, if it can be known (epochs differ slightly in length)."""
        ends = [] if self.config.max_steps is None else [self.config.max_steps]
        if self.config.max_epochs is not None:
            ends.append(self.config.max_epochs * -(-self.data.batches_in_epoch(0) // self.config.accumulate))
        return min(ends, default=None)

    def _checkpoint(self) -> None:
        if self._written == self.progress.step:
            return
        check_weights(self.model, self.progress.step)
        training = {f"optimizer/{name}": tensor for name, tensor in state_tensors(self.optimizer, self.model).items()}
        training |= {f"{PREFIX}{name}": tensor for name, tensor in self.average.tensors.items()}
        if isinstance(self.task, Carries):
            training |= {f"carried/{name}": tensor for name, tensor in self.task.carried().items()}
        for rank, generator in enumerate(self.world.all_of(torch.get_rng_state())):
            training[_generator(rank)] = generator
        self._written = self.progress.step
        if not self.world.first:
            return
        state = asdict(self.progress)
        checkpoint.write(self.checkpoints, self.progress.step, Checkpoint(self.model.state_dict(), training, state))
        newest = [int(path.name.removeprefix("step-")) for path in checkpoint.listing(self.checkpoints)][-2:]
        checkpoint.prune(self.checkpoints, {*newest, *self.progress.validated, self.progress.best_step})

    def _restore(self, saved: Checkpoint | None, warn: Callable[[str], None]) -> None:
        if saved is None:
            # Each process draws its own noise; the first draws the noise of a single-process run.
            torch.manual_seed(self.config.seed + 1_000_003 * self.world.rank)
            return
        known = {field.name for field in fields(Progress)}
        self.progress = Progress(**{name: value for name, value in saved.state.items() if name in known})
        self.progress.uncounted |= "items" not in saved.state
        parts: dict[str, dict[str, Tensor]] = {"optimizer": {}, "average": {}, "generator": {}, "carried": {}}
        for name, tensor in saved.training.items():
            kind, _, rest = name.partition("/")
            parts[kind][rest] = tensor.clone()
        restore_state(self.optimizer, self.model, parts["optimizer"])
        self.average.tensors, generators = parts["average"], parts["generator"]
        if isinstance(self.task, Carries):
            self.task.load_carried(parts["carried"])
        if len(generators) != self.world.size:
            warn(f"the run had {len(generators)} processes and now has {self.world.size}: it resumes, not bit for bit")
        torch.set_rng_state(generators.get(_generator(self.world.rank).partition("/")[2], generators[""]))
        self._written = self.progress.step


def _generator(rank: int) -> str:
    """The name of a process's random generator state in a checkpoint."""
    return "generator" if rank == 0 else f"generator/{rank}"
