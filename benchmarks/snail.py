"""The speed of SNAIL's two tasks, by their recipes, in the processor's time of one thread.

    python benchmarks/snail.py recipes/omniglot_5way.yaml         episodes and images a second of training
    python benchmarks/snail.py recipes/bandit_n10_k5.yaml         environment steps a second, parts of a PPO update

A PPO update is a collection of trials and the gradient steps on it. `--operations 12` lists torch's operations as well.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from regard.data.environments import step_features
from regard.data.experience import Experience, play
from regard.models import make_model
from regard.runs.job import Job
from regard.runs.parsing import read_recipe
from regard.training.optim import make_optimizer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("--updates", type=int, default=3, help="batches of episodes, or collections of trials")
    parser.add_argument(
        "--operations", type=int, default=0, metavar="N", help="also the N operations that take longest"
    )
    options = parser.parse_args()
    job = Job(read_recipe(options.recipe), None)
    with tempfile.TemporaryDirectory() as folder:
        prepared = job.prepare(Path(folder), lambda _: None)
    torch.manual_seed(1)
    model = make_model(prepared.model_name, prepared.config).train()
    data, learn = prepared.batches(model), Learner(job, model)
    if isinstance(data, Experience):
        trials(data, learn, options.updates)
    else:
        episodes(data, learn, options.updates)
    if options.operations:
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            learn(next(iter(data.epoch(1))))
        print(seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=options.operations))


class Learner:
    """One gradient step, as the engine takes it."""

    def __init__(self, job: Job, model: torch.nn.Module) -> None:
        self.task, self.model, self.config = job.task, model, job.recipe.training
        self.optimizer = make_optimizer(model, self.config)

    def __call__(self, batch: Any) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            loss = self.task.loss(self.model, batch) / self.task.count(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip or torch.inf)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def episodes(data: Any, learn: Learner, updates: int) -> None:
    drawing = learning = 0.0
    count = images = 0
    source = iter(data.epoch(0))
    for number in range(updates + 1):
        started = time.process_time()
        batch = next(source)
        drawn = time.process_time()
        learn(batch)
        if number:  # the first prepares memory and kernels
            drawing, learning = drawing + drawn - started, learning + time.process_time() - drawn
            count, images = count + batch.size, images + batch["labels"].numel()
    spent = drawing + learning
    speeds = f"{count / spent:.0f} episodes a second, {images / spent:.0f} images a second"
    print(f"{speeds}, {spent / updates:.3f} s an update")
    print(f"drawing episodes {drawing / spent:.0%}, learning {learning / spent:.0%}")


def trials(data: Experience, learn: Learner, updates: int) -> None:
    collecting = learning = 0.0
    how, environment = data.how, data.environment
    for number in range(updates + 1):
        started = time.process_time()
        source = iter(data.epoch(number))
        batches = [next(source)]
        collected = time.process_time()
        learn(batches[0])
        for batch in source:
            learn(batch)
        if number:
            collecting, learning = collecting + collected - started, learning + time.process_time() - collected
    spent, steps = collecting + learning, updates * how.trials * environment.n_steps
    print(f"{steps / collecting:.0f} environment steps a second of collecting, {steps / spent:.0f} of training")
    print(f"a PPO update of {how.trials} trials: {spent / updates:.2f} s, collecting {collecting / spent:.0%}, "
          f"learning ({how.passes} × {how.parts} batches) {learning / spent:.0%}")  # fmt: skip
    shares(data)


def shares(data: Experience) -> None:
    """Where the time of a collection goes: the environments, what is read, and the policy."""
    environment, numbers = data.environment, np.arange(data.how.trials)
    started = time.process_time()
    played = play(data.policy, environment, numbers, seed=1, split=0)
    whole = time.process_time() - started
    started = time.process_time()
    worlds = environment.begin(1, 0, numbers)
    for step in range(environment.n_steps):
        worlds.step(played.history.actions[:, step])
    acted = time.process_time() - started
    started = time.process_time()
    for step in range(environment.n_steps):
        step_features(environment, played.history, step)
    read = time.process_time() - started
    print(f"collecting: environments {acted / whole:.0%}, inputs {read / whole:.0%}, "
          f"policy and choices {1 - (acted + read) / whole:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
