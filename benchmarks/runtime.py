"""Generating on a CPU beside transformers and CTranslate2: tokens a second of the same weights, and the same tokens.

    python benchmarks/runtime.py [--rounds 5] [--threads 2] [--only gpt2 | marian] [--small]
                                                                  needs: pip install -e '.[bench]'

Random weights of GPT-2 (124M: prompts of 32 tokens, 128 new ones) and of Marian base (6 + 6 layers, d 512, vocabulary
32,000: sources of 32 tokens, 32 new ones), written by transformers, opened by regard as they are, converted by
CTranslate2's own converter. The end token is forbidden, so that all do equal work. Each library and precision is a
process of its own with the same number of threads; they take turns within a round, one at a time. Medians, and half of
the distance between the slowest and the fastest round. `--small` takes small models, to try it. Run it alone.

The choices of random weights are close: int8 changes some of them in any library, and all tokens after. What int8
costs in quality is measured on trained models.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from _results import add_results, put
from _runtime_workers import PEERS as ALL_PEERS
from _runtime_workers import Rows

from regard.runtime.limits import cpu
from regard.runtime.native import Missing, kernels

SAME = {"regard float32": ("transformers", "ctranslate2 float32"), "regard int8": ("ctranslate2 int8",)}
LOW = not isinstance(native := kernels(), Missing) and native.has_low_products


def runnable(peers: tuple[str, ...]) -> tuple[str, ...]:
    """Those that this CPU can run."""
    return tuple(peer for peer in peers if LOW or "bfloat16" not in peer)


PEERS = runnable(ALL_PEERS)
PAUSE = 0.3
"""Seconds before each turn: the threads of the library before it keep a core busy for a while after their work."""


@dataclass(frozen=True)
class Work:
    name: str
    rows: int
    beam: int
    n_input: int
    n_tokens: int


@dataclass(frozen=True)
class Family:
    """A model folder, what to do with it, and the tokens that may not come: the end, and the padding last."""

    name: str
    works: list[Work]
    vocab: int
    forbidden: list[int]

    def requests(self, work: Work) -> dict[str, Any]:
        dice = random.Random(work.rows)
        rows = [[dice.randrange(2, self.vocab - 2) for _ in range(work.n_input)] for _ in range(work.rows)]
        return {"rows": rows, "beam": work.beam, "n_tokens": work.n_tokens, "forbidden": self.forbidden}


def make_gpt2(folder: Path, *, small: bool) -> Family:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": 1000, "n_embd": 64, "n_layer": 2, "n_head": 2} if small else {}
    vocab = sizes.get("vocab_size", 50257)
    config = GPT2Config(bos_token_id=vocab - 1, eos_token_id=vocab - 1, **sizes)
    write(GPT2LMHeadModel(config), folder, "generate", vocab, end=vocab - 1, pad=vocab - 1)
    n_input, n_tokens = (8, 12) if small else (32, 128)
    works = [Work(f"GPT-2, {n_input} + {n_tokens} tokens, batch {n}", n, 1, n_input, n_tokens) for n in (1, 8)]
    return Family("gpt2", works, vocab, [vocab - 1])


def make_marian(folder: Path, *, small: bool) -> Family:
    from transformers import MarianConfig, MarianMTModel

    vocab, width, layers = (1000, 64, 2) if small else (32000, 512, 6)
    # CTranslate2 begins with a zero vector and drops the last token, as Marian's own models want it.
    config = MarianConfig(
        vocab_size=vocab, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width, encoder_attention_heads=8, decoder_attention_heads=8, eos_token_id=0, init_std=0.06,
        pad_token_id=vocab - 1, decoder_start_token_id=vocab - 1, forced_eos_token_id=None, scale_embedding=True,
        max_position_embeddings=256, bos_token_id=None,
    )  # fmt: skip
    write(MarianMTModel(config), folder, "translate", vocab, end=0, pad=vocab - 1)
    length = 8 if small else 32
    shapes = [(32, 1), (32, 5), (1, 1), (1, 5)]
    names = {32: f"Marian, 32 sentences × {length} tokens", 1: f"Marian, 1 sentence × {length} tokens"}
    works = [Work(f"{names[rows]}, beam {beam}", rows, beam, length, length) for rows, beam in shapes]
    return Family("marian", works, vocab, [0, vocab - 1])


def vary(model: Any) -> None:
    """Random weights other than the default, with which models repeat one token: outputs that vary say more.

    With larger ones (queries and keys: 4), rounding alone changes the tokens."""
    import torch

    for name, module in model.named_modules():
        if "lm_head" in name or type(module).__name__ not in ("Linear", "Conv1D"):
            continue
        inputs = module.weight.shape[0 if type(module).__name__ == "Conv1D" else 1]
        gain = 2.0 if name.endswith(("q_proj", "k_proj")) else 0.3 if name.endswith(("fc1", "fc2")) else 1.0
        torch.nn.init.normal_(module.weight, std=gain / inputs**0.5)


def write(model: Any, folder: Path, kind: str, vocab: int, *, end: int, pad: int) -> None:
    """The folder of a model, with a vocabulary of t0, t1, …, and CTranslate2's form of it inside."""
    from ctranslate2.converters import TransformersConverter
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = {"<pad>" if number == pad != end else f"t{number}": number for number in range(vocab)}
    words = Tokenizer(models.WordLevel(names, unk_token="t1"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"eos_token": f"t{end}", "unk_token": "t1", "bos_token": f"t{end}"}
    special |= {"pad_token": "<pad>"} if pad != end else {}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    vary(model)
    model.eval().save_pretrained(folder)
    (folder / "work.json").write_text(json.dumps({"kind": kind}))
    TransformersConverter(str(folder)).convert(str(folder / "ctranslate2"))


class Worker:
    """One library in a process of its own."""

    def __init__(self, peer: str, folder: Path, threads: int, *, script: Path | None = None) -> None:
        script = script or Path(__file__).with_name("_runtime_workers.py")
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self.peer = peer
        self._process = subprocess.Popen(
            [sys.executable, str(script), peer, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self._answer()

    def __call__(self, request: dict[str, Any]) -> tuple[float, Any]:
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._answer()
        return answer["seconds"], answer["tokens"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self.peer} has ended with exit code {self._process.wait()}; see above.")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass
class Measured:
    """Tokens a second of each round, and the tokens."""

    speeds: dict[str, list[float]]
    tokens: dict[str, Rows]

    def cell(self, peer: str) -> str:
        rates = self.speeds[peer]
        middle = median(rates)
        return f"{middle:,.{0 if middle >= 100 else 1}f} ± {50 * (max(rates) - min(rates)) / middle:.0f} %"

    def ratio(self, peer: str, others: tuple[str, ...]) -> float:
        """Beside the fastest of the others: the median over rounds, in each of which both had their turn."""
        best = max(others, key=lambda other: median(self.speeds[other]))
        return median(own / theirs for own, theirs in zip(self.speeds[peer], self.speeds[best], strict=True))

    def same(self, peer: str, other: str) -> float:
        """The share of equal tokens at equal places."""
        pairs = [
            a == b
            for own, theirs in zip(self.tokens[peer], self.tokens[other], strict=True)
            for a, b in zip(own, theirs, strict=True)
        ]
        return sum(pairs) / len(pairs)


def measure(family: Family, work: Work, workers: dict[str, Worker], rounds: int) -> Measured:
    request = family.requests(work)
    measured = Measured({peer: [] for peer in workers}, {})
    for peer, worker in workers.items():  # warms up
        measured.tokens[peer] = worker(request)[1]
    for _ in range(rounds):
        for peer, worker in workers.items():
            time.sleep(PAUSE)
            seconds, tokens = worker(request)
            assert all(len(row) == work.n_tokens for row in tokens), f"{peer} did other work"
            measured.speeds[peer].append(work.rows * work.n_tokens / seconds)
    return measured


def tables(results: dict[str, Measured]) -> str:
    """Speeds with ratios, then how far the tokens agree."""
    beside = ["float32 / best peer", "int8 / CTranslate2 int8", "float32 / transformers"]
    lines = [f"| tokens/s | {' | '.join([*PEERS, *beside])} |", "|---" * (len(PEERS) + len(beside) + 1) + "|"]
    for name, measured in results.items():
        cells = [measured.cell(peer) for peer in PEERS]
        ratios = [measured.ratio(peer, others) for peer, others in SAME.items()]
        ratios.append(measured.ratio("regard float32", ("transformers",)))
        lines.append(f"| {name} | {' | '.join(cells)} | {' | '.join(f'{ratio:.2f}×' for ratio in ratios)} |")
    others = PEERS[1:]
    lines += ["", f"| same tokens as transformers | {' | '.join(others)} | different tokens |"]
    lines.append("|---" * (len(others) + 2) + "|")
    for name, measured in results.items():
        cells = [f"{100 * measured.same(peer, 'transformers'):.1f} %" for peer in others]
        kinds = len({token for row in measured.tokens["transformers"] for token in row})
        lines.append(f"| {name} | {' | '.join(cells)} | {kinds} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2, help="of every library")
    parser.add_argument("--only", choices=("gpt2", "marian"))
    parser.add_argument("--small", action="store_true", help="small models, for a quick look")
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
        for name, make in (("gpt2", make_gpt2), ("marian", make_marian)):
            if arguments.only not in (None, name):
                continue
            family = make(Path(temporary) / name, small=arguments.small)
            workers = {peer: Worker(peer, Path(temporary) / name, arguments.threads) for peer in PEERS}
            for work in family.works:
                print(work.name, file=sys.stderr, flush=True)
                results[work.name] = measure(family, work, workers, arguments.rounds)
            for worker in workers.values():
                worker.close()
    named = ", ".join(f"{name} {number.split('+')[0]}" for name, number in versions.items())
    section = f"{cpu()}, {arguments.threads} threads, {arguments.rounds} rounds; {named}\n\n{tables(results)}"
    print(section)
    if not arguments.small and arguments.only is None:
        put(arguments.results, "Generating", f"`python benchmarks/runtime.py`: {section}")


if __name__ == "__main__":
    main()
