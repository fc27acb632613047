"""Metrics agree with the usual libraries, and with numbers worked out by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearn_metrics

from regard.evaluation import metrics

CLASSES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40)
NUMBERS = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=40)


def test_by_hand() -> None:
    said, true = [1, 1, 0, 1, 0, 0], [1, 0, 0, 1, 1, 0]
    assert metrics.accuracy(said, true) == pytest.approx(4 / 6)
    assert metrics.f1(said, true) == pytest.approx(2 * 2 / (3 + 3))
    assert metrics.matthews(said, true) == pytest.approx((2 * 2 - 1 * 1) / 9)
    assert metrics.ranks([10, 20, 20, 5]).tolist() == [2, 3.5, 3.5, 1]
    assert metrics.pearson([1, 2, 3], [2, 4, 7]) == pytest.approx(0.9933992678)
    assert metrics.spearman([1, 2, 3, 4], [1, 4, 9, 16]) == pytest.approx(1.0)
    assert metrics.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)


def test_what_does_not_vary_is_zero() -> None:
    for judge in (metrics.pearson, metrics.spearman, metrics.matthews):
        assert judge([1, 1, 1], [0, 1, 2]) == 0
    assert metrics.f1([0, 0], [0, 0]) == 0
    assert metrics.accuracy([], []) == metrics.pearson([], []) == 0


@pytest.mark.filterwarnings("ignore:A single label was found")
@given(pairs=CLASSES)
def test_classes_as_sklearn(pairs: list[tuple[int, int]]) -> None:
    said, true = np.array(pairs).T
    assert metrics.matthews(said, true) == pytest.approx(sklearn_metrics.matthews_corrcoef(true, said))
    mean = sklearn_metrics.f1_score(true, said, average="macro", zero_division=0)
    assert metrics.f1(said, true, 4) == pytest.approx(mean)
    of_two = sklearn_metrics.f1_score(true == 1, said == 1, zero_division=0)
    assert metrics.f1(said == 1, true == 1) == pytest.approx(of_two)


def test_f1_is_one_class_of_two_or_the_mean_by_the_model_not_by_the_data() -> None:
    """Classes 0 and 1 alone may occur in the held-out data of a model with three."""
    said, true = torch.tensor([1, 1, 0, 1, 0, 0, 0]), torch.tensor([1, 0, 0, 1, 1, 0, 0])
    of_one, of_zero = 2 * 2 / (3 + 3), 2 * 3 / (4 + 4)
    for n_classes, wanted in ((2, of_one), (3, (of_zero + of_one) / 2)):
        logits = torch.nn.functional.one_hot(said, n_classes).float()
        assert metrics.scores(logits, true, ["f1"]) == {"f1": pytest.approx(wanted)}


@given(pairs=NUMBERS)
def test_numbers_as_scipy(pairs: list[tuple[int, int]]) -> None:
    said, true = np.array(pairs, dtype=float).T
    if len(set(said)) > 1 and len(set(true)) > 1:
        assert metrics.pearson(said, true) == pytest.approx(stats.pearsonr(said, true)[0], abs=1e-12)
        assert metrics.spearman(said, true) == pytest.approx(stats.spearmanr(said, true)[0], abs=1e-12)
    assert metrics.ranks(said).tolist() == stats.rankdata(said).tolist()


@pytest.mark.parametrize(
    ("answer", "wanted", "exact", "f1"),
    [
        ("The Normans", ["Normans"], 1, 1),
        ("in the 10th century", ["10th century", "the 10th and 11th centuries"], 0, 0.8),
        ("10th-century", ["10thcentury"], 1, 1),
        ("", [], 1, 1),
        ("", ["France"], 0, 0),
        ("France", [], 0, 0),
        ("France", ["", "the"], 0, 0),
        ("the", [""], 1, 1),
        ("a a b", ["a b b"], 0, 1 / 1.5 * 1.0),
    ],
)
def test_answers_as_squad_counts_them(answer: str, wanted: list[str], exact: float, f1: float) -> None:
    assert metrics.exact_match(answer, wanted) == exact
    assert metrics.answer_f1(answer, wanted) == pytest.approx(f1)


def test_results_are_plain_numbers() -> None:
    for judge in [*metrics.OF_CLASSES.values(), *metrics.OF_NUMBERS.values()]:
        assert math.isfinite(json.loads(json.dumps(judge(np.array([0, 1, 1]), np.array([0, 1, 0])))))
