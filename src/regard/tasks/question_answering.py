"""Answers as spans of a context (Devlin et al. 2019, §4.2, 4.3).

    loss = − (log p_start(s) + log p_end(e)) / 2          score of a span = start_s + end_e,  s ≤ e < s + longest

The score of "no answer" is that of [CLS], the lowest over all windows (each window only says whether *it* holds the
answer). "No answer" wins if it beats the best span by more than `threshold`. Padding never counts, so batching changes
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import Batch
from regard.core.measured import Measured
from regard.core.output import Output
from regard.data.spans import Window
from regard.tasks._task import Task


class FindsSpans(Protocol):
    """What this task needs of a model: `logits` [B,T,2] for the beginning and the end of an answer."""

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Output: ...


@dataclass(frozen=True)
class Answer:
    """The text and its place in the context, "" for no answer; `margin` is its score minus that of no answer."""

    text: str
    start: int
    end: int
    score: float
    margin: float


class QuestionAnswering(Task):
    """Loss per window; `starts` and `ends` [B] are token indices in the row, 0 for no answer."""

    unit = "windows"

    def loss(self, model: FindsSpans, batch: Batch) -> Tensor:
        return _loss(span_logits(model, batch), batch)

    def measure(self, model: FindsSpans, batch: Batch) -> Measured:
        """The loss, and the logits [T,2] of each window."""
        with torch.no_grad():
            logits = span_logits(model, batch)
            mask = batch["attention_mask"]
            answers = {row: logits[place, mask[place]] for place, row in enumerate(batch.rows)}
            return Measured({"loss": _loss(logits, batch).item()}, {"loss": batch.size}, answers)


def _loss(logits: Tensor, batch: Batch) -> Tensor:
    begin = F.cross_entropy(logits[..., 0], batch["starts"], reduction="sum")
    return (begin + F.cross_entropy(logits[..., 1], batch["ends"], reduction="sum")) / 2


def span_logits(model: FindsSpans, batch: Batch) -> Tensor:
    """Logits [B,T,2], −∞ where there is no token."""
    logits = model(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]).logits
    assert logits is not None, "the model has no head for spans"
    return logits.float().masked_fill(~batch["attention_mask"].unsqueeze(-1), float("-inf"))


def answers(
    windows: Sequence[Window],
    logits: Mapping[int, Tensor],
    contexts: Sequence[str],
    *,
    longest: int = 30,
    threshold: float | None = 0.0,
) -> list[Answer]:
    """The best answer to each question; `contexts` are their contexts. With `threshold` None it is never empty."""
    spans: list[tuple[float, int, int]] = [(float("-inf"), 0, 0)] * len(contexts)
    nothing = [float("inf")] * len(contexts)
    for number, window in enumerate(windows):
        place, both = window.question, logits[number]
        nothing[place] = min(nothing[place], float(both[0].sum()))
        spans[place] = max(spans[place], best_span(both, window, longest), key=lambda span: span[0])
    return [
        _answer(span, none, context, threshold) for span, none, context in zip(spans, nothing, contexts, strict=True)
    ]


def best_span(logits: Tensor, window: Window, longest: int) -> tuple[float, int, int]:
    """The score of the best span in a window's context, and the beginning and end of its characters."""
    count = len(window.offsets)
    if count == 0:
        return float("-inf"), 0, 0
    score, start, end = best_places(logits[window.first : window.first + count], longest)
    return score, window.offsets[start][0], window.offsets[end][1]


def best_places(logits: Tensor, longest: int) -> tuple[float, int, int]:
    """The score of the best span among the tokens of a context [T,2], and its first and last token."""
    count = len(logits)
    scores = logits[:, :1] + logits[:, 1]
    allowed = torch.ones(count, count, dtype=torch.bool).triu().tril(longest - 1)
    start, end = divmod(int(scores.masked_fill(~allowed, float("-inf")).argmax()), count)
    return float(scores[start, end]), start, end


def _answer(span: tuple[float, int, int], nothing: float, context: str, threshold: float | None) -> Answer:
    score, start, end = span
    margin = score - nothing
    if score == float("-inf") or (threshold is not None and -margin > threshold):
        return Answer("", 0, 0, nothing, margin)
    return Answer(context[start:end], start, end, score, margin)
