"""The benchmark beside other libraries runs, and its small models give the same tokens everywhere."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.runtime.native import Missing, kernels

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "runtime.py"
PEERS = all(importlib.util.find_spec(name) for name in ("transformers", "ctranslate2"))


@pytest.mark.slow
@pytest.mark.skipif(not PEERS, reason="the peers are not installed: the extra `bench`")
@pytest.mark.skipif(isinstance(kernels(), Missing), reason="no C compiler to build the kernels with")
def test_the_libraries_give_the_same_tokens():
    words = [sys.executable, SCRIPT, "--small", "--rounds", "1", "--threads", "1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=os.environ)
    assert done.returncode == 0, done.stderr
    speeds, same = done.stdout.split("\n\n")[1:]
    assert len(re.findall(r"^\| (?:GPT-2|Marian)", speeds, re.MULTILINE)) == 6
    rows = [line.split(" | ") for line in same.splitlines()[2:]]
    assert len(rows) == 6
    for row in rows:
        theirs, _, plain, float32, *rounded = (float(cell.removesuffix(" %")) for cell in row[1:-1])
        assert plain == float32 == 100.0
        assert theirs > 90
        assert len(rounded) == 1 + kernels().has_low_products
        assert min(rounded) > 70
