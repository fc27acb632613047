"""Weights that were packed give their memory back, and are there when they are needed again."""

import sys
from pathlib import Path

import pytest
import torch

from regard.core import weights
from regard.runtime.native import Missing, kernels
from regard.runtime.release import release

pytestmark = [
    pytest.mark.skipif(isinstance(kernels(), Missing), reason="no C compiler to build the kernels with"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what is mapped from files"),
]


def resident() -> int:
    """Bytes of files that this process holds in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile")) << 10


def test_mapped_weights_are_dropped_and_come_back(tmp_path):
    before = torch.randn(4_000_000)
    weights.write(tmp_path / "w.safetensors", {"w": before})
    mapped = weights.read_tensors(tmp_path / "w.safetensors")["w"]
    assert torch.equal(mapped, before)
    full = resident()
    release([mapped], kernels())
    assert resident() < full - 8_000_000, "of 16 MB"
    assert torch.equal(mapped, before)


def test_what_is_in_no_file_stays(tmp_path):
    own = torch.randn(1_000_000)
    before, expected = own.clone(), own + 1
    weights.write(tmp_path / "w.safetensors", {"w": own})
    changed = weights.read_tensors(tmp_path / "w.safetensors")["w"]
    changed.add_(1)
    release([own, changed], kernels())
    assert torch.equal(changed, expected), "a change that was never written"
    assert torch.equal(own, before)
