"""Several processes train one model, through the real command: what one process does, and resumed to the bit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from regard.core import weights

OPTIONS = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 1}


def write_recipe(recipe: dict, path: Path, **more: object) -> Path:
    training = {"max_steps": 20, "tokens_per_batch": 256, "lr": 1e-3, "warmup": 5, "log_every": 1, "accumulate": 2}
    options = {**OPTIONS, "dropout": more.pop("dropout", 0.0)}
    path.write_text(yaml.safe_dump({**recipe, "model": {"options": options}, "training": {**training, **more}}))
    return path


def train(recipe: Path, out: Path, processes: int, *words: str) -> None:
    start = [sys.executable, "-m", "regard"]
    if processes > 1:
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        start += ["-m", "regard"]
    done = subprocess.run(
        [*start, "train", str(recipe), "--out", str(out), *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def losses(out: Path) -> list[float]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def flops(out: Path) -> float:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return next(line["training_flops"] for line in lines if "training_flops" in line)


def tensors(out: Path, step: int) -> dict[str, torch.Tensor]:
    folder = out / "checkpoints" / f"step-{step:08d}"
    parts = [weights.read_tensors(folder / f"{name}.safetensors") for name in ("model", "training")]
    return {name: tensor for part in parts for name, tensor in part.items()}


def test_two_processes_do_what_one_does(recipe, tmp_path):
    path = write_recipe(recipe, tmp_path / "recipe.yaml")
    for processes in (1, 2):
        train(path, tmp_path / str(processes), processes)
    single, both = losses(tmp_path / "1"), losses(tmp_path / "2")
    assert len(single) == len(both) == 20
    assert both == pytest.approx(single, abs=1e-6)
    # Each process pads its own rows.
    assert flops(tmp_path / "2") == pytest.approx(flops(tmp_path / "1"), rel=0.1)
    assert (tmp_path / "2" / "model.safetensors").is_file()


@pytest.mark.slow
def test_two_processes_go_on_to_the_same_bits(recipe, tmp_path):
    """With dropout: the noise of each process comes back too."""
    path = write_recipe(recipe, tmp_path / "recipe.yaml", dropout=0.3, ema=0.9, metric="loss")
    train(path, tmp_path / "whole", 2)
    train(path, tmp_path / "parts", 2, "--training.max_steps", "9")
    train(path, tmp_path / "parts", 2)
    whole, parts = tensors(tmp_path / "whole", 20), tensors(tmp_path / "parts", 20)
    assert whole.keys() == parts.keys()
    assert {"generator", "generator/1"} <= whole.keys()
    assert not torch.equal(whole["generator"], whole["generator/1"]), "each process draws its own noise"
    for name, tensor in whole.items():
        assert torch.equal(tensor, parts[name]), name
    assert losses(tmp_path / "whole") == losses(tmp_path / "parts")


@pytest.mark.slow
def test_other_processes_than_before_are_told(recipe, tmp_path):
    path = write_recipe(recipe, tmp_path / "recipe.yaml", dropout=0.3)
    train(path, tmp_path / "out", 2, "--training.max_steps", "4")
    done = subprocess.run(
        [sys.executable, "-m", "regard", "train", str(path), "--out", str(tmp_path / "out")],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the run had 2 processes and now has 1: it resumes, not bit for bit" in done.stderr
