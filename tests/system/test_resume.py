"""kill -9 at any moment, through the real command: the run goes on to the same bits as one that was never touched."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from regard.core import weights

COMMAND = Path(sys.executable).parent / "regard"


@pytest.fixture
def steady(recipe, tmp_path) -> list:
    """The command of a run with dropout, moving average and mid-epoch validation, checkpointed at every update."""
    options = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.2}
    training = {
        "max_steps": 2000, "tokens_per_batch": 256, "lr": 1e-3, "warmup": 20, "checkpoint_every": 1, "accumulate": 2,
        "validate_every": 37, "ema": 0.9, "metric": "loss", "log_every": 5,
    }  # fmt: skip
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({**recipe, "model": {"options": options}, "training": training}))
    return [COMMAND, "train", path, "--quiet"]


def steps(out: Path) -> int:
    found = [int(path.name.removeprefix("step-")) for path in (out / "checkpoints").glob("step-*")]
    return max(found, default=0)


def kill_after(command: list, updates: int, delay: float) -> None:
    """Start it, wait until it is so many updates further, a random moment more, then kill -9."""
    out = Path(command[command.index("--out") + 1])
    goal = steps(out) + updates
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while steps(out) < goal and process.poll() is None:
            time.sleep(0.001)
        time.sleep(delay)
        assert process.poll() is None, process.stderr.read().decode()
        process.kill()


def final(out: Path, step: int) -> dict[str, torch.Tensor]:
    folder = out / "checkpoints" / f"step-{step:08d}"
    return {
        **weights.read_tensors(folder / "model.safetensors"),
        **weights.read_tensors(folder / "training.safetensors"),
    }


def check(steady: list, tmp_path: Path, kills: int) -> None:
    draw, killed = random.Random(kills), [*steady, "--out", str(tmp_path / "killed")]
    for _ in range(kills):
        kill_after(killed, draw.randint(1, 12), draw.random() * 0.05)
    last = steps(tmp_path / "killed") + 5
    for out in ("killed", "whole"):
        command = [*steady, "--out", tmp_path / out, "--training.max_steps", str(last)]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    one, other = final(tmp_path / "killed", last), final(tmp_path / "whole", last)
    assert one.keys() == other.keys()
    assert not [name for name in one if not torch.equal(one[name], other[name])]
    logs = [(tmp_path / out / "log.jsonl").read_text().count("\n") for out in ("killed", "whole")]
    assert logs[0] == logs[1], "the log reads as if nothing had happened"


@pytest.mark.slow
def test_three_kills(steady, tmp_path):
    check(steady, tmp_path, 3)


@pytest.mark.slow
def test_fifty_kills(steady, tmp_path):
    check(steady, tmp_path, 50)


def test_a_signal_leaves_a_checkpoint_and_says_how_to_go_on(steady, tmp_path):
    command = [*steady, "--out", str(tmp_path / "out"), "--training.checkpoint_every", "100000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "out" / "log.jsonl").exists() or not (tmp_path / "out" / "log.jsonl").read_text():
            time.sleep(0.01)
        process.terminate()
        text = process.stderr.read()
    assert process.returncode == 143
    assert "checkpoint written. The same command resumes it." in text
    assert steps(tmp_path / "out") > 0
