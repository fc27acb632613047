"""Encoding on a CPU beside transformers, onnxruntime and sentence-transformers: the same weights, the same vectors.

    python benchmarks/encoders.py MINILM [--rounds 5] [--threads 2] [--small]
                                          needs: pip install -e '.[bench]', REGARD_DATA, a folder of all-MiniLM-L6-v2

BERT base with random weights, 64 rows of 8 to 127 tokens: transformers and onnxruntime (float32, and int8 by its own
dynamic quantisation of the exported model) get them sorted by length, in batches of the size that is fastest for them.
MiniLM on the sentences of STS-B's development set, from text to vectors, beside sentence-transformers. Each library and
precision is a process of its own with the same number of threads; they take turns within a round. Run it alone.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch
from _results import add_results, put
from runtime import PAUSE, Worker, runnable

from regard.runtime.limits import cpu

ROWS = ("transformers rows", "onnxruntime rows float32", "onnxruntime rows int8", "regard rows plain",
        "regard rows float32", "regard rows bfloat16", "regard rows int8")  # fmt: skip
TEXTS = ("sentence-transformers texts", "regard texts plain", "regard texts float32", "regard texts bfloat16",
         "regard texts int8")  # fmt: skip


def make_bert(folder: Path, *, small: bool) -> None:
    """A folder of random weights, with the same model as onnxruntime's float32 and int8 files inside."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import BertConfig, BertModel

    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128}
    model = BertModel(BertConfig(**(sizes if small else {}))).eval()
    model.save_pretrained(folder)

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    ids = torch.randint(1, 1000, (2, 9))
    axes = {0: torch.export.Dim("rows", max=4096), 1: torch.export.Dim("tokens", max=512)}
    torch.onnx.export(
        States(), (ids, torch.ones_like(ids)), folder / "float32.onnx", input_names=["ids", "mask"],
        dynamic_shapes=(axes, axes), dynamo=True, external_data=False, verbose=False,
    )  # fmt: skip
    quantize_dynamic(folder / "float32.onnx", folder / "int8.onnx", weight_type=QuantType.QInt8)


def sentences(count: int) -> list[str]:
    """The first sentences of STS-B's development set."""
    with gzip.open(Path(os.environ["REGARD_DATA"]) / "glue" / "STS-B" / "dev.tsv.gz", "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return [text for row in rows for text in row[-3:-1]][:count]


def named(peer: str) -> str:
    return peer.replace(" rows", "").replace(" texts", "")


def measure(
    peers: tuple[str, ...], folder: Path, request: dict[str, Any], count: int, rounds: int, threads: int
) -> str:
    """A table row for each library: things a second, beside the first, and how far the vectors differ from its."""
    script = Path(__file__).with_name("_encoder_workers.py")
    peers = runnable(peers)
    workers = {peer: Worker(peer, folder, threads, script=script) for peer in peers}
    vectors = {peer: torch.tensor(worker(request)[1]) for peer, worker in workers.items()}
    speeds: dict[str, list[float]] = {peer: [] for peer in peers}
    for _ in range(rounds):
        for peer, worker in workers.items():
            time.sleep(PAUSE)
            speeds[peer].append(count / worker(request)[0])
    for worker in workers.values():
        worker.close()
    lines = []
    for peer, rates in speeds.items():
        ratios = [
            f"{median(own / theirs for own, theirs in zip(rates, speeds[other], strict=True)):.2f}×"
            for other in peers
            if not other.startswith("regard")
        ]
        spread = 50 * (max(rates) - min(rates)) / median(rates)
        error = (vectors[peer] - vectors[peers[0]]).abs().max() / vectors[peers[0]].abs().max()
        lines.append(f"| {named(peer)} | {median(rates):,.0f} ± {spread:.0f} % | {' | '.join(ratios)} | {error:.1e} |")
    others = [named(peer) for peer in peers if not peer.startswith("regard")]
    head = f"| | a second | {' | '.join(f'beside {other}' for other in others)} | largest difference of vectors |"
    return "\n".join([head, "|---" * (len(others) + 3) + "|", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("minilm", type=Path, help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of every library")
    parser.add_argument("--small", action="store_true", help="a small BERT and few sentences, for a quick look")
    add_results(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if "REGARD_DATA" not in os.environ:
        sys.exit("Set REGARD_DATA to the folder that holds glue.")
    names = ("torch", "transformers", "onnxruntime", "sentence-transformers")
    versions = ", ".join(f"{name} {version(name).split('+')[0]}" for name in names)
    torch.manual_seed(0)
    dice = random.Random(0)
    rows = [[dice.randrange(1000, 30000) for _ in range(dice.randint(8, 127))] for _ in range(64)]
    texts = sentences(64 if arguments.small else 1500)
    with tempfile.TemporaryDirectory() as temporary:
        make_bert(Path(temporary), small=arguments.small)
        tokens = sum(map(len, rows))
        common = {"rounds": arguments.rounds, "threads": arguments.threads}
        first = measure(ROWS, Path(temporary), {"rows": rows}, tokens, **common)
        print(first, flush=True)
        second = measure(TEXTS, arguments.minilm, {"texts": texts}, len(texts), **common)
        print(second, flush=True)
    section = (
        f"`python benchmarks/encoders.py MINILM`: {cpu()}, {arguments.threads} threads, {arguments.rounds} rounds;"
        f" {versions}.\n\nBERT base, random weights, 64 rows of 8 to 127 tokens ({tokens:,} in all), tokens:\n\n"
        f"{first}\n\n"
        f"MiniLM-L6 on {len(texts):,} sentences of STS-B, from text to vectors, sentences:\n\n{second}"
    )
    if not arguments.small:
        put(arguments.results, "Encoding", section)


if __name__ == "__main__":
    main()
