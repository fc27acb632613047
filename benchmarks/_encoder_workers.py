"""The libraries that `encoders.py` compares: each answers requests in a process of its own.

    python benchmarks/_encoder_workers.py PEER FOLDER

A request is a line of JSON on standard input: {"rows": [[id, …], …]} or {"texts": [text, …]}. The answer is a line of
JSON: the seconds that it took, and the first numbers of each row's vector, the mean of its states. Rows of ids are
sorted by length. Libraries that compute padding get them in batches of the size that is fastest for them, which is
tried at the first request.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Vectors = list[list[float]]
SIZES = (8, 16, 32)
SHOWN = 16


class Padded:
    """Batches of neighbours in length, padded; `run(ids, mask)` gives the states of a batch."""

    def __init__(self, run: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.run, self.size = run, 0

    def __call__(self, rows: list[list[int]]) -> Vectors:
        if not self.size:
            self.size = min(SIZES, key=lambda size: self._seconds(rows, size))
            print(f"batches of {self.size}", file=sys.stderr, flush=True)
        return self._vectors(rows, self.size)

    def _seconds(self, rows: list[list[int]], size: int) -> float:
        start = time.perf_counter()
        self._vectors(rows, size)
        return time.perf_counter() - start

    def _vectors(self, rows: list[list[int]], size: int) -> Vectors:
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        result: Vectors = [[] for _ in rows]
        for first in range(0, len(order), size):
            chosen = order[first : first + size]
            longest = max(len(rows[row]) for row in chosen)
            ids = torch.tensor([rows[row] + [0] * (longest - len(rows[row])) for row in chosen])
            mask = torch.tensor([[1] * len(rows[row]) + [0] * (longest - len(rows[row])) for row in chosen])
            with torch.inference_mode():
                states = self.run(ids, mask)
                means = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            for row, vector in zip(chosen, means[:, :SHOWN].tolist(), strict=True):
                result[row] = vector
        return result


def transformers_rows(folder: Path, _: str) -> Padded:
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    return Padded(lambda ids, mask: model(input_ids=ids, attention_mask=mask).last_hidden_state)


def onnxruntime_rows(folder: Path, precision: str) -> Padded:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(folder / f"{precision}.onnx", options)

    def run(ids: Tensor, mask: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {"ids": ids.numpy(), "mask": mask.numpy()})[0])

    return Padded(run)


def regard_rows(folder: Path, engine: str) -> Padded:
    import regard
    from regard.runtime import choose

    choice = choose(regard.load(folder).model, engine)
    if choice.engine != engine:
        raise SystemExit(f"{engine} cannot run here: {choice.reason}")
    return Padded(lambda ids, mask: choice.model(input_ids=ids, attention_mask=mask.bool()).hidden)


def sentence_transformers_texts(folder: Path, _: str) -> Callable[[list[str]], Vectors]:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False)[:, :SHOWN].tolist()


def regard_texts(folder: Path, engine: str) -> Callable[[list[str]], Vectors]:
    import regard

    model = regard.load(folder)
    if reason := model.use_engine(engine):
        raise SystemExit(f"{engine} cannot run here: {reason}")
    return lambda texts: model.embed(texts)[:, :SHOWN].tolist()


def opened(peer: str, folder: Path) -> Callable[..., Vectors]:
    library, what, option = (*peer.split(" "), "")[:3]
    made: dict[tuple[str, str], Any] = {
        ("transformers", "rows"): transformers_rows,
        ("onnxruntime", "rows"): onnxruntime_rows,
        ("regard", "rows"): regard_rows,
        ("sentence-transformers", "texts"): sentence_transformers_texts,
        ("regard", "texts"): regard_texts,
    }
    run = made[library, what](folder, option)
    return lambda **request: run(next(iter(request.values())))


def serve(peer: str, folder: Path) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to standard error
    warnings.simplefilter("ignore")
    run = opened(peer, folder)
    print(json.dumps({"ready": peer}), file=answers, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        vectors = run(**json.loads(line))
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "tokens": vectors}), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
