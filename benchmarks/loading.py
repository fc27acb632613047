"""How long opening a 500 MB folder takes, beside reading its file, and how much memory it needs.

    python benchmarks/loading.py [--out FOLDER]       needs: pip install -e '.[bench]'

A random GPT-2 (its matrices are stored transposed and packed, which is the hard case) and a random BERT, folders of
about 500 MB that `save_pretrained` of the transformers package writes. Reading (the whole file, from the page cache)
and opening alternate; each opening is a process of its own, which also runs the model once, so that every weight is
touched, and tells its peak memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _results import add_results, put

SIZES = {"gpt2": {"vocab_size": 50257, "n_layer": 12}, "bert": {"vocab_size": 50000, "num_hidden_layers": 12}}
SMALL = {"gpt2": {"vocab_size": 500, "n_layer": 1}, "bert": {"vocab_size": 500, "num_hidden_layers": 1}}
CHILD = """
import json, sys, time
from pathlib import Path
import torch
from regard import api
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
before = peak()
started = time.perf_counter()
model = api.load(sys.argv[1])
seconds = time.perf_counter() - started
with torch.inference_mode():
    model(input_ids=torch.arange(8)[None])
print(json.dumps({"seconds": seconds, "peak": peak() - before}))
"""


def measure(folder: Path, repeats: int = 5) -> dict[str, float]:
    file, reading, opening, peaks = folder / "model.safetensors", [], [], []
    for _ in range(repeats):
        started = time.perf_counter()
        with open(file, "rb", buffering=0) as stream:
            size = len(stream.read())
        reading.append(time.perf_counter() - started)
        told = subprocess.run([sys.executable, "-c", CHILD, str(folder)], capture_output=True, text=True, check=True)
        facts = json.loads(told.stdout)
        opening.append(facts["seconds"])
        peaks.append(facts["peak"] / size)
    return {
        "megabytes": size / 1e6, "read_s": statistics.median(reading), "open_s": statistics.median(opening),
        "ratio": statistics.median(opening) / statistics.median(reading), "peak": statistics.median(peaks),
    }  # fmt: skip


def write(name: str, folder: Path, sizes: dict[str, int]) -> str:
    """A random model as the other library makes and stores it; returns the version that wrote it."""
    import transformers

    if name == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
    else:
        model = transformers.BertModel(transformers.BertConfig(**sizes))
    model.save_pretrained(folder)
    return str(transformers.__version__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="keep the folders here")
    parser.add_argument("--small", action="store_true", help="small models, for a trial")
    add_results(parser)
    arguments = parser.parse_args()
    lines = ["| folder | MB | read (s) | open (s) | open / read | peak memory / weights |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as temporary:
        place = arguments.out or Path(temporary)
        for name, sizes in (SMALL if arguments.small else SIZES).items():
            version = write(name, place / name, sizes)
            row = measure(place / name)
            cells = "{megabytes:.0f} | {read_s:.2f} | {open_s:.2f} | {ratio:.2f} | {peak:.2f}".format(**row)
            lines.append(f"| {name} | {cells} |")
    table = "\n".join(lines)
    print(table)
    head = f"Random weights as `save_pretrained` of transformers {version} writes them, `python benchmarks/loading.py`:"
    put(arguments.results, "Opening a folder", f"{head}\n\n{table}")


if __name__ == "__main__":
    main()
