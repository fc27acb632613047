"""The libraries that `runtime.py` compares: each answers requests in a process of its own.

    python benchmarks/_runtime_workers.py PEER FOLDER

A request is a line of JSON on standard input: {"rows": [[id, …], …], "beam": 5, "n_tokens": 32, "forbidden": [id, …]}.
The answer is a line of JSON: the new tokens of each row, and the seconds that they took. Every output has exactly
`n_tokens` tokens: the end token and the padding token are forbidden.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

Rows = list[list[int]]
PEERS = ("transformers", "ctranslate2 float32", "ctranslate2 int8", "regard plain", "regard float32",
         "regard bfloat16", "regard int8")  # fmt: skip


class Transformers:
    def __init__(self, folder: Path, kind: str, _: str) -> None:
        import torch
        import transformers

        logging.getLogger("transformers").setLevel(logging.ERROR)
        transformers.utils.logging.disable_progress_bar()
        auto = transformers.AutoModelForSeq2SeqLM if kind == "translate" else transformers.AutoModelForCausalLM
        self.torch, self.model = torch, auto.from_pretrained(folder, dtype=torch.float32).eval()

    def __call__(self, rows: Rows, beam: int, n_tokens: int, forbidden: list[int]) -> Rows:
        inputs = self.torch.tensor(rows)
        with self.torch.inference_mode():
            written = self.model.generate(
                inputs, attention_mask=self.torch.ones_like(inputs), num_beams=beam, do_sample=False,
                max_new_tokens=n_tokens, min_new_tokens=n_tokens, suppress_tokens=forbidden, length_penalty=0.0,
                pad_token_id=forbidden[-1],
            )  # fmt: skip
        return written[:, -n_tokens:].tolist()


class CTranslate2:
    """Tokens go in and out as text: the vocabulary names token 7 "t7"."""

    def __init__(self, folder: Path, kind: str, precision: str) -> None:
        import ctranslate2

        make = ctranslate2.Translator if kind == "translate" else ctranslate2.Generator
        options = {"compute_type": precision, "inter_threads": 1, "intra_threads": int(os.environ["OMP_NUM_THREADS"])}
        self.kind, self.model = kind, make(str(folder / "ctranslate2"), device="cpu", **options)

    def __call__(self, rows: Rows, beam: int, n_tokens: int, forbidden: list[int]) -> Rows:
        # The smallest length forbids the end token; the converter has dropped the padding token.
        named = [[f"t{token}" for token in row] for row in rows]
        if self.kind == "translate":
            results = self.model.translate_batch(
                named, beam_size=beam, max_decoding_length=n_tokens, min_decoding_length=n_tokens, length_penalty=0.0
            )
            return [_numbers(result.hypotheses[0]) for result in results]
        results = self.model.generate_batch(
            named, beam_size=beam, max_length=n_tokens, min_length=n_tokens, sampling_topk=1,
            include_prompt_in_result=False,
        )  # fmt: skip
        return [_numbers(result.sequences[0]) for result in results]


class Regard:
    def __init__(self, folder: Path, kind: str, engine: str) -> None:
        import torch

        import regard
        from regard.runtime import choose

        self.torch, self.kind, self.loaded = torch, kind, regard.load(folder)
        choice = choose(self.loaded.model, engine)
        if choice.engine != engine:
            raise SystemExit(f"{engine} cannot run here: {choice.reason}")
        self.model = choice.model

    def __call__(self, rows: Rows, beam: int, n_tokens: int, forbidden: list[int]) -> Rows:
        from regard.decoding import Search, decode

        before = 0 if self.kind == "translate" else len(rows[0]) - 1
        search = Search(beam=beam, max_length=before + n_tokens, length_penalty=0.0, forbidden=tuple(forbidden))
        if self.kind == "translate":
            source = self.torch.tensor(rows)
            mask = self.torch.ones_like(source, dtype=self.torch.bool)
            inputs, first = {"source": source, "source_mask": mask}, self.loaded.first_token
            results = decode(self.model, inputs, search, bos=first, eos=-1, pad=-1, lengths=mask.sum(1))
        else:
            firsts, others = [row[0] for row in rows], [row[1:] for row in rows]
            results = decode(self.model, {}, search, bos=firsts, eos=-1, pad=-1, prefixes=others)
        return [list(row[0].tokens[before:]) for row in results]


def _numbers(tokens: list[str]) -> list[int]:
    return [int(token.removeprefix("t")) for token in tokens]


def opened(peer: str, folder: Path) -> Callable[..., Rows]:
    library, _, option = peer.partition(" ")
    kind = json.loads((folder / "work.json").read_text())["kind"]
    made: dict[str, Any] = {"transformers": Transformers, "ctranslate2": CTranslate2, "regard": Regard}
    return made[library](folder, kind, option)


def serve(peer: str, folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    warnings.simplefilter("ignore")
    run = opened(peer, folder)
    print(json.dumps({"ready": peer}), file=answers, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        tokens = run(**json.loads(line))
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "tokens": tokens}), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
