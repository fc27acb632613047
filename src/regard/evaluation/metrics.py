"""Metrics, as shares from 0 to 1 (correlations from −1 to 1).

matthews      R_K (Gorodkin 2004), for two classes Matthews' φ = (TP·TN − FP·FN) / √((TP+FP)(TP+FN)(TN+FP)(TN+FN))
spearman      Pearson's correlation of ranks; equal values share the mean of their ranks
exact, f1     of answers as in SQuAD (Rajpurkar et al. 2016, 2018): lower case, no punctuation, no articles

A correlation with a constant is 0.
"""

from __future__ import annotations

import functools
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Floats = NDArray[np.float64]
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def accuracy(predicted: ArrayLike, wanted: ArrayLike) -> float:
    right = np.asarray(predicted) == np.asarray(wanted)
    return float(right.mean()) if right.size else 0.0


def f1(predicted: ArrayLike, wanted: ArrayLike, n_classes: int = 2) -> float:
    """F1 of class 1 if the model has two classes; else the mean over all classes that occur."""
    said, true = np.asarray(predicted), np.asarray(wanted)
    if n_classes == 2:
        return _class_f1(said == 1, true == 1)
    each = [_class_f1(said == label, true == label) for label in np.union1d(said, true)]
    return float(np.mean(each)) if each else 0.0


def _class_f1(said: NDArray[np.bool_], true: NDArray[np.bool_]) -> float:
    both = int((said & true).sum())
    return 2 * both / int(said.sum() + true.sum()) if both else 0.0


def matthews(predicted: ArrayLike, wanted: ArrayLike) -> float:
    said, true = np.asarray(predicted), np.asarray(wanted)
    classes = np.union1d(said, true)
    counts_said = np.array([(said == c).sum() for c in classes], dtype=np.float64)
    counts_true = np.array([(true == c).sum() for c in classes], dtype=np.float64)
    count, right = float(len(said)), float((said == true).sum())
    spread = (count**2 - counts_said @ counts_said) * (count**2 - counts_true @ counts_true)
    return float((right * count - counts_said @ counts_true) / np.sqrt(spread)) if spread > 0 else 0.0


def pearson(predicted: ArrayLike, wanted: ArrayLike) -> float:
    x, y = _centred(predicted), _centred(wanted)
    spread = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / spread if spread > 0 else 0.0


def spearman(predicted: ArrayLike, wanted: ArrayLike) -> float:
    return pearson(ranks(predicted), ranks(wanted))


def ranks(values: ArrayLike) -> Floats:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, group, sizes = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    mean: Floats = last - (sizes - 1) / 2
    return mean[group.reshape(-1)]


def _centred(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    return numbers - numbers.mean() if numbers.size else numbers


OF_CLASSES: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {"accuracy": accuracy, "f1": f1, "matthews": matthews}
OF_NUMBERS: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {"pearson": pearson, "spearman": spearman}


def scores(logits: Tensor, wanted: Tensor, names: Sequence[str]) -> dict[str, float]:
    """The metrics of logits [N,C], or of one number each [N] or [N,1]."""
    measures = {**OF_CLASSES, **OF_NUMBERS}
    measures["f1"] = functools.partial(f1, n_classes=logits.shape[-1])
    predicted = {name: logits.reshape(len(logits)) if name in OF_NUMBERS else logits.argmax(-1) for name in names}
    return {name: measures[name](predicted[name].numpy(), wanted.numpy()) for name in names}


def plain(answer: str) -> str:
    """An answer normalised for comparison."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, wanted: Sequence[str]) -> float:
    """1 if it equals one of the right answers; if there are none, "" is right."""
    return max(float(plain(answer) == plain(right)) for right in _asked(wanted))


def answer_f1(answer: str, wanted: Sequence[str]) -> float:
    """F1 of the words shared with the right answer that is closest."""
    return max(_shared(plain(answer).split(), plain(right).split()) for right in _asked(wanted))


def _asked(wanted: Sequence[str]) -> list[str]:
    return [answer for answer in wanted if plain(answer)] or [""]


def _shared(said: list[str], true: list[str]) -> float:
    if not said or not true:
        return float(said == true)
    both = sum((Counter(said) & Counter(true)).values())
    return 2 * both / (len(said) + len(true))
