"""N-gram models beside nltk.lm (and kenlm, where it is installed): counting and scoring, in one run.

    python benchmarks/ngrams.py TRAIN TEST          # writes its section of benchmarks/RESULTS.md

Both count the same sentences of TRAIN and score the same sentences of TEST, with interpolated Kneser–Ney smoothing
(nltk has one discount, regard three) or with add-k, where nltk only looks counts up. Both begin with lists of words, so
that reading and splitting files is outside the measured time, which is the processor's: a busy machine changes little.
Scoring is the perplexity of the sentences. The kenlm that pip installs only queries, so it scores the model that regard
wrote as an ARPA file.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _results import add_results, put

from regard import api
from regard.core.batch import Batch
from regard.core.contracts import FitEpoch
from regard.core.lines import read_lines
from regard.data.text import make_tokenizer
from regard.models import config_of, make_model
from regard.pipelines import make_pipeline
from regard.store import StoredModel

_UNK, _EOS, _K = 1, 3, 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("train", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--lines", type=int, default=4000, help="sentences to count")
    parser.add_argument("--test-lines", type=int, default=3000, help="sentences to score")
    parser.add_argument("--slow-lines", type=int, default=30, help="sentences that nltk scores with Kneser–Ney")
    add_results(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train = [line.split() for line in read_lines(arguments.train) if line.strip()][: arguments.lines]
    test = [line.split() for line in read_lines(arguments.test) if line.strip()][: arguments.test_lines]
    lines = ["| smoothing, words counted, words scored | what | regard | other | ratio |", "|---|---|---|---|---|"]
    for smoothing, scored in (("kneser_ney", test[: arguments.slow_lines]), ("add_k", test)):
        lines += _compared(train, scored, arguments.order, smoothing)
    text = "\n".join(lines)
    print(text)
    note = f"Order {arguments.order}, seconds of processor time, one thread: `python benchmarks/ngrams.py TRAIN TEST`."
    put(arguments.results, "N-grams", f"{note}\n\n{text}")


def _compared(train: list[list[str]], test: list[list[str]], order: int, smoothing: str) -> list[str]:
    words = " and ".join(f"{sum(len(line) + 1 for line in part):,}" for part in (train, test))
    model, ours = _regard(train, test, order, smoothing)
    made = []
    others = {"nltk": _nltk, "kenlm": _kenlm}
    for name, measure in others.items():
        if importlib.util.find_spec(name) is None or (name == "kenlm" and smoothing == "add_k"):
            continue
        theirs = measure(model, train, test, order, smoothing)
        for what, mine, other in zip(("counting", "scoring"), ours[:2], theirs[:2], strict=True):
            if other is not None and mine is not None:
                ratio = f"{other / mine:.1f}× faster" if other > mine else f"{mine / other:.1f}× the time"
                made.append(f"| {smoothing}, {words} | {what} | {mine:.4f} s | {name} {other:.4f} s | {ratio} |")
        made.append(f"| {smoothing}, {words} | perplexity | {ours[2]:.4f} | {name} {theirs[2]:.4f} | |")
    return made


Row = tuple[float | None, float, float]


def _regard(train: list[list[str]], test: list[list[str]], order: int, smoothing: str) -> tuple[Any, Row]:
    tokenizer = make_tokenizer("space", [" ".join(line) for line in train], vocab_size=1_000_000)
    options = {"vocab_size": tokenizer.vocab_size, "order": order, "smoothing": smoothing, "k": _K}
    model: Any = make_model("ngram", config_of("ngram", options))

    numbers = {piece: number for number, piece in enumerate(tokenizer.pieces())}

    def ids(lines: list[list[str]]) -> torch.Tensor:
        return torch.tensor([[_EOS, *(numbers.get(word, _UNK) for line in lines for word in [*line, "</s>"])]])

    def count() -> None:
        text = ids(train)
        model.fit([Batch({"input_ids": text[:, :-1], "labels": text[:, 1:]}, (0,))], FitEpoch())

    def score() -> float:
        text = ids(test)
        return math.exp(-float(model.label_log_probs(text[:, :-1], text[:, 1:]).double().mean()))

    counting, _ = _timed(count)
    scoring, perplexity = _timed(score)
    stored = StoredModel("language_model", "ngram", model.config, model.eval(), tokenizer, tokenizer)
    return make_pipeline(stored), (counting, scoring, perplexity)


def _nltk(_: Any, train: list[list[str]], test: list[list[str]], order: int, smoothing: str) -> Row:
    from nltk.lm import KneserNeyInterpolated, Lidstone
    from nltk.lm.preprocessing import pad_both_ends, padded_everygram_pipeline
    from nltk.util import ngrams

    model = Lidstone(_K, order) if smoothing == "add_k" else KneserNeyInterpolated(order)
    zeros: list[bool] = []

    def count() -> None:
        grams, vocabulary = padded_everygram_pipeline(order, train)
        model.fit(grams, vocabulary)

    def score() -> float:
        total = number = 0.0
        for line in test:
            known = model.vocab.lookup(line)
            for gram in list(ngrams(pad_both_ends(known, order), order))[: len(line) + 1]:
                p = model.score(gram[-1], gram[:-1])
                total += math.log(p) if p > 0 else 0.0
                number += p > 0
                zeros.append(p <= 0)
        return math.exp(-total / number)

    counting, _ = _timed(count)
    scoring, perplexity = _timed(score)
    if any(zeros):
        print(f"nltk gives probability 0 to {sum(zeros)} of {len(zeros)} words; its perplexity is that of the others")
    return counting, scoring, perplexity


def _kenlm(model: Any, _: list[list[str]], test: list[list[str]], *__: Any) -> Row:
    import kenlm

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.arpa"
        api.convert(model, place, to="arpa")
        theirs = kenlm.Model(str(place))
    lines = [" ".join(line) for line in test]
    scoring, total = _timed(lambda: sum(theirs.score(line, bos=True, eos=True) for line in lines))
    return None, scoring, 10 ** (-total / sum(len(line) + 1 for line in test))


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


if __name__ == "__main__":
    main()
