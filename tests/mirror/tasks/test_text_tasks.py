"""Losses of the tasks on text against the same written out; batching changes nothing."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import Batch
from regard.core.measured import Measured, stacked
from regard.core.output import Output
from regard.data.spans import Window
from regard.tasks.classification import Classification
from regard.tasks.question_answering import QuestionAnswering, answers, best_span
from regard.tasks.sentence_similarity import SentenceSimilarity


class Fixed:
    """Gives out what it was made with, by the first token of each row."""

    def __init__(self, **outputs: Tensor) -> None:
        self.outputs = outputs

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Output:
        chosen = {name: value[input_ids[:, 0]] for name, value in self.outputs.items()}
        if (logits := chosen.get("logits")) is not None and logits.ndim == 3:
            chosen["logits"] = logits[:, : input_ids.shape[1]]
        return Output(torch.zeros(*input_ids.shape, 1), **chosen)


def batch(rows: list[int], width: int = 1, real: list[int] | None = None, **more: Tensor) -> Batch:
    ids = torch.tensor(rows)[:, None].expand(-1, width)
    mask = torch.arange(width) < torch.tensor(real or [width] * len(rows))[:, None]
    named = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    return Batch({**named, **more}, tuple(rows))


def test_classes_and_numbers() -> None:
    logits = torch.randn(5, 3)
    labels = torch.tensor([0, 2, 1, 1, 0])
    one, two = batch([3, 1], labels=labels[[3, 1]]), batch([0, 4, 2], labels=labels[[0, 4, 2]])
    task = Classification()
    assert task.count(two) == 3
    assert torch.allclose(task.loss(Fixed(logits=logits), one), F.cross_entropy(logits[[3, 1]], labels[[3, 1]]) * 2)
    measured = Measured()
    for part in (one, two):
        measured.add(task.measure(Fixed(logits=logits), part))
    assert torch.equal(stacked(measured.answers), logits)
    assert torch.equal(stacked(measured.targets), labels)
    assert task.summary(measured) == {"loss": pytest.approx(F.cross_entropy(logits, labels).item())}
    number = Classification(regression=True)
    wanted = torch.tensor([1.0, 2.0])
    found = number.loss(Fixed(logits=logits[:, :1]), batch([0, 1], labels=wanted))
    assert found.item() == pytest.approx((logits[:2, 0] - wanted).square().sum().item())


def test_spans_ignore_padding() -> None:
    logits = torch.randn(2, 6, 2)
    starts, ends = torch.tensor([1, 0]), torch.tensor([2, 0])
    task, model = QuestionAnswering(), Fixed(logits=logits)
    both = batch([0, 1], 6, [6, 4], starts=starts, ends=ends)
    alone = [
        batch([0], 6, starts=starts[:1], ends=ends[:1]),
        batch([1], 4, starts=starts[1:], ends=ends[1:]),
    ]
    assert task.loss(model, both).item() == pytest.approx(sum(task.loss(model, one).item() for one in alone), rel=1e-6)
    wanted = -(logits[0, :, 0].log_softmax(0)[1] + logits[0, :, 1].log_softmax(0)[2]) / 2
    assert task.loss(model, alone[0]).item() == pytest.approx(wanted.item(), rel=1e-6)
    measured = task.measure(model, both)
    assert [measured.answers[row].shape for row in (0, 1)] == [(6, 2), (4, 2)]
    assert task.summary(measured)["loss"] == pytest.approx(task.loss(model, both).item() / 2, rel=1e-6)


def slow_best(logits: Tensor, window: Window, longest: int) -> float:
    scores = [-math.inf]
    for start in range(len(window.offsets)):
        for end in range(start, min(start + longest, len(window.offsets))):
            scores += [float(logits[window.first + start, 0] + logits[window.first + end, 1])]
    return max(scores)


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_the_best_span_is_the_best_of_all(longest: int) -> None:
    offsets = [(4 * n, 4 * n + 3) for n in range(9)]
    window = Window(0, ([0] * 13, [0] * 13), 3, offsets)
    for _ in range(20):
        logits = torch.randn(13, 2)
        score, begin, end = best_span(logits, window, longest)
        assert score == pytest.approx(slow_best(logits, window, longest))
        assert 0 < end - begin <= 4 * longest - 1


def test_no_answer_wins_by_its_lowest_score_and_the_threshold() -> None:
    context = "abc def ghi"
    places = [(0, 3), (4, 7), (8, 11)]
    windows = [
        Window(0, ([0] * 6, [0] * 6), 2, places[:2]),
        Window(0, ([0] * 6, [0] * 6), 2, places[1:]),
        Window(1, ([0] * 3, [0] * 3), 2, []),
    ]
    logits = {n: torch.zeros(6, 2) for n in range(3)}
    logits[0][0] = 5.0
    logits[1][0] = 1.0
    logits[1][3] = 2.0

    def found(threshold: float | None) -> list[str]:
        return [answer.text for answer in answers(windows, logits, [context, ""], longest=30, threshold=threshold)]

    assert found(0.0) == ["ghi", ""]
    assert found(-3.0) == ["", ""]
    assert found(None) == ["ghi", ""]
    best = answers(windows, logits, [context, ""])[0]
    assert (best.start, best.end, best.score, best.margin) == (8, 11, 4.0, 2.0)
    logits[1][0] = 3.0
    assert found(0.0) == ["", ""]
    assert found(3.0) == ["ghi", ""]


def twins(rows: list[int], others: list[int], **more: Tensor) -> Batch:
    one, two = batch(rows), batch(others)
    return Batch({**one.tensors, **{f"other_{name}": tensor for name, tensor in two.tensors.items()}, **more})


def test_cosines_and_contrast() -> None:
    vectors = F.normalize(torch.randn(8, 5), dim=-1)
    model, scores = Fixed(pooled=vectors), torch.tensor([0.5, 0.0])
    one, two = vectors[[0, 1]], vectors[[2, 3]]
    cosine = SentenceSimilarity("cosine").loss(model, twins([0, 1], [2, 3], labels=scores))
    assert cosine.item() == pytest.approx(((one * two).sum(-1) - scores).square().sum().item(), rel=1e-6)
    contrast = SentenceSimilarity("contrastive", temperature=0.1).loss(model, twins([0, 1], [2, 3]))
    table = one @ two.T / 0.1
    wanted = -(table.log_softmax(1).diagonal() + table.log_softmax(0).diagonal()).sum() / 2
    assert contrast.item() == pytest.approx(wanted.item(), rel=1e-5)


def test_the_same_text_is_no_wrong_answer() -> None:
    vectors = F.normalize(torch.randn(8, 5), dim=-1)
    task = SentenceSimilarity("contrastive", temperature=0.1)
    same = task.loss(Fixed(pooled=vectors), twins([0, 1], [2, 2]))
    scores = vectors[[0, 1]] @ vectors[2] / 0.1
    assert same.item() == pytest.approx(-scores.log_softmax(0).sum().item() / 2, rel=1e-5)
    assert task.loss(Fixed(pooled=vectors), twins([0], [2])).item() == 0
