"""Generating over the length of the context and over the size of the batch, beside transformers and CTranslate2.

    python benchmarks/runtime_growth.py [--rounds 3] [--threads 2] [--longest 8192] [--small]
                                                                  needs: pip install -e '.[bench]'

Random weights of a small GPT-2 shape (6 layers, d 384, vocabulary 8,000), as in `runtime.py`: one library a process,
taking turns. First one prompt of 128 to 8,192 tokens and 16 new ones: reading a prompt grows with the square of its
length, a new token with the length. Then 1 to 64 prompts of 64 tokens and 32 new ones. Run it alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from statistics import median

from _results import add_results, put
from runtime import Family, Measured, Work, Worker, measure, write

from regard.runtime.limits import cpu

PEERS = ("transformers", "ctranslate2 float32", "ctranslate2 int8", "regard float32", "regard int8")
CONTEXTS = (128, 512, 2048, 8192)
BATCHES = (1, 4, 16, 64)


def make(folder: Path, *, longest: int, small: bool) -> Family:
    from transformers import GPT2Config, GPT2LMHeadModel

    vocab, width, layers = (1000, 64, 2) if small else (8000, 384, 6)
    config = GPT2Config(
        bos_token_id=vocab - 1, eos_token_id=vocab - 1, vocab_size=vocab, n_embd=width, n_layer=layers,
        n_head=width // 64, n_positions=longest + 64,
    )  # fmt: skip
    write(GPT2LMHeadModel(config), folder, "generate", vocab, end=vocab - 1, pad=vocab - 1)
    contexts = [Work(f"context {n} + 16 tokens", 1, 1, n, 16) for n in CONTEXTS if n <= longest]
    batches = [Work(f"batch {n}, 64 + 32 tokens", n, 1, 64, 32) for n in BATCHES]
    return Family("gpt2", contexts + batches, vocab, [vocab - 1])


def table(results: dict[str, Measured], works: list[Work]) -> str:
    """Milliseconds of a whole request, and ratios within rounds."""
    beside = ["float32 / best peer", "int8 / CTranslate2 int8"]
    lines = [f"| milliseconds | {' | '.join([*PEERS, *beside])} |", "|---" * (len(PEERS) + len(beside) + 1) + "|"]
    for work in works:
        measured = results[work.name]
        times = [1000 * work.rows * work.n_tokens / median(measured.speeds[peer]) for peer in PEERS]
        ratios = [
            measured.ratio("regard float32", ("transformers", "ctranslate2 float32")),
            measured.ratio("regard int8", ("ctranslate2 int8",)),
        ]
        cells = [f"{time:,.0f}" for time in times] + [f"{ratio:.2f}×" for ratio in ratios]
        lines.append(f"| {work.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of every library")
    parser.add_argument("--longest", type=int, default=max(CONTEXTS), help="the longest context")
    parser.add_argument("--small", action="store_true", help="a smaller model, for a quick look")
    add_results(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        import torch
        import transformers

        versions = {name: version(name) for name in ("torch", "transformers", "ctranslate2")}
    except ImportError as error:
        sys.exit(f"{error.name} is missing: pip install -e '.[bench]'")
    torch.manual_seed(0)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    results: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "gpt2"
        family = make(folder, longest=arguments.longest, small=arguments.small)
        workers = {peer: Worker(peer, folder, arguments.threads) for peer in PEERS}
        for work in family.works:
            print(work.name, file=sys.stderr, flush=True)
            results[work.name] = measure(family, work, workers, arguments.rounds)
            times = {peer: [round(speed, 1) for speed in results[work.name].speeds[peer]] for peer in PEERS}
            print(json.dumps(times), file=sys.stderr, flush=True)
        for worker in workers.values():
            worker.close()
    named = ", ".join(f"{name} {number.split('+')[0]}" for name, number in versions.items())
    head = f"{cpu()}, {arguments.threads} threads, {arguments.rounds} rounds; {named}"
    section = (
        f"{head}. GPT-2 shape, 6 layers, d 384, vocabulary 8,000, random weights.\n\n{table(results, family.works)}"
    )
    print(section)
    if not arguments.small:
        put(arguments.results, "Generating over context and batch", f"`python benchmarks/runtime_growth.py`: {section}")


if __name__ == "__main__":
    main()
