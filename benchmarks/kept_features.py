"""Training a captioning model with features that were kept, and from pixels: the processor's time of an update.

    python benchmarks/kept_features.py recipes/flickr8k_soft.yaml --updates 5

Both read the same captions in the same batches; from pixels the frozen encoder runs on every image of a batch.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from regard.models import make_model
from regard.runs.job import Job
from regard.runs.parsing import read_recipe
from regard.training.optim import make_optimizer


def seconds(recipe: str, keep: bool, updates: int) -> tuple[float, float]:
    """Seconds of an update, and captions a second."""
    job = Job(read_recipe(recipe, {"data.keep": str(keep).lower()}), None)
    with tempfile.TemporaryDirectory() as folder:
        prepared = job.prepare(Path(folder), print)
        torch.manual_seed(1)
        model = make_model(prepared.model_name, prepared.config)
        prepared.initialise(model)
        optimizer, captions, spent = make_optimizer(model.train(), job.recipe.training), 0, 0.0
        low = job.recipe.training.precision == "bfloat16"
        started = time.process_time()
        for number, batch in enumerate(prepared.batches(model).epoch(0)):
            with torch.autocast("cpu", torch.bfloat16, enabled=low):
                loss = job.task.loss(model, batch) / job.task.count(batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            now = time.process_time()
            if number:  # the first prepares memory and kernels
                captions, spent = captions + batch.size, spent + now - started
            started = now
            if number == updates:
                break
    return spent / updates, captions / spent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("recipe")
    parser.add_argument("--updates", type=int, default=5)
    options = parser.parse_args()
    measured = {keep: seconds(options.recipe, keep, options.updates) for keep in (True, False)}
    for keep, (each, speed) in measured.items():
        print(f"{'kept features' if keep else 'from pixels'}: {each:.2f} s an update, {speed:.1f} captions a second")
    print(f"{measured[True][1] / measured[False][1]:.1f} times as fast with kept features")


if __name__ == "__main__":
    main()
