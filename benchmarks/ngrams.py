"""N-gram models beside nltk.lm (and kenlm, where it is installed): counting and scoring, in one run.

    python benchmarks/ngrams.py TRAIN TEST [--order 3] [--lines 4000]

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
    parser.add_argument("--test-lines", type=int, default=50, help="sentences to score")
    parser.add_argument("--smoothing", choices=("kneser_ney", "add_k"), default="kneser_ney")
    arguments = parser.parse_args()
    train = [line.split() for line in read_lines(arguments.train) if line.strip()][: arguments.lines]
    test = [line.split() for line in read_lines(arguments.test) if line.strip()][: arguments.test_lines]
    words = sum(len(line) + 1 for line in train), sum(len(line) + 1 for line in test)
    print(f"{words[0]:,} words to count, {words[1]:,} to score, order {arguments.order}, one thread")
    torch.set_num_threads(1)
    model, ours = _regard(train, test, arguments.order, arguments.smoothing)
    rows = {"regard": ours}
    if importlib.util.find_spec("nltk") is not None:
        rows["nltk.lm"] = _nltk(train, test, arguments.order, arguments.smoothing)
    if importlib.util.find_spec("kenlm") is not None and arguments.smoothing == "kneser_ney":
        rows["kenlm (scores regard's ARPA file)"] = _kenlm(model, test)
    print(f"{'':36}{'counting':>12}{'scoring':>12}{'perplexity':>12}")
    for name, (counting, scoring, perplexity) in rows.items():
        print(f"{name:36}{counting or math.nan:>10.3f} s{scoring:>10.4f} s{perplexity:>12.3f}")
    for name, (counting, scoring, _) in rows.items():
        if name != "regard" and counting is not None and ours[0] is not None:
            times = f"{counting / ours[0]:.1f}× as fast as {name} at counting, {scoring / ours[1]:.1f}× at scoring"
            print(f"regard is {times}")


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


def _nltk(train: list[list[str]], test: list[list[str]], order: int, smoothing: str) -> Row:
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


def _kenlm(model: Any, test: list[list[str]]) -> Row:
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
