"""How long opening a 500 MB folder takes, beside reading its file, and how much memory it needs.

    python benchmarks/loading.py [--out FOLDER]

A random GPT-2 (its matrices are stored transposed and packed, which is the hard case) and a random BERT, written as
Hugging Face folders of about 500 MB. Reading (the whole file, from the page cache) and opening alternate; each opening
is a process of its own, which also runs the model once, so that every weight is touched, and tells its peak memory.
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

from regard.models import config_of, make_model
from regard.store import StoredModel
from regard.store.formats import hf as hf_format

MODELS = {
    "gpt2": {"vocab_size": 50257, "d_model": 768, "n_layers": 12, "n_heads": 12},
    "bert": {"vocab_size": 50000, "d_model": 768, "n_layers": 12, "n_heads": 12},
}
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


def write(name: str, folder: Path) -> None:
    config = config_of(name, MODELS[name])
    hf_format.save(folder, StoredModel("language_model", name, config, make_model(name, config)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="keep the folders here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = arguments.out or Path(temporary)
        lines = [
            "| folder | MB | read (s) | open (s) | open / read | peak memory / weights |",
            "|---|---|---|---|---|---|",
        ]
        for name in MODELS:
            if not (place / name / "model.safetensors").exists():
                write(name, place / name)
            row = measure(place / name)
            cells = "{megabytes:.0f} | {read_s:.2f} | {open_s:.2f} | {ratio:.2f} | {peak:.2f}".format(**row)
            lines.append(f"| {name} | {cells} |")
    results = Path(__file__).with_name("RESULTS.md")
    before = results.read_text().split("\n## Opening a folder")[0].rstrip("\n")
    head = "## Opening a folder\n\n500 MB of random weights as others write them, `python benchmarks/loading.py`:"
    results.write_text(f"{before}\n\n{head}\n\n" + "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
