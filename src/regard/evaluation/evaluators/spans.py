"""SQuAD's two metrics for answers that are spans of a text: exact match, and F1 of the shared words.

If some questions have no answer, F1 is also given separately for questions with and without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from regard.core.directions import Direction
from regard.data.squad import Question
from regard.evaluation import metrics
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut
from regard.tasks.question_answering import answers


class Spans(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = {
        "exact": "higher",
        "f1": "higher",
        "answerable_f1": "higher",
        "unanswerable_f1": "higher",
    }
    needs: ClassVar[tuple[str, ...]] = ("questions", "windows")

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        material = held_out.material
        questions: Sequence[Question] = material["questions"]
        best = answers(
            material["windows"],
            held_out.measured.answers,
            [question.context for question in questions],
            longest=material["longest"],
            threshold=material["threshold"],
        )
        return span_scores([answer.text for answer in best], questions)


def span_scores(texts: Sequence[str], questions: Sequence[Question]) -> dict[str, float]:
    """Exact match and F1 of answers to questions."""
    exact = [metrics.exact_match(text, question.wanted) for text, question in zip(texts, questions, strict=True)]
    shared = [metrics.answer_f1(text, question.wanted) for text, question in zip(texts, questions, strict=True)]
    scores = {"exact": _mean(exact), "f1": _mean(shared)}
    answerable = [bool(question.answers) for question in questions]
    if not all(answerable):
        scores["answerable_f1"] = _mean([f1 for f1, has in zip(shared, answerable, strict=True) if has])
        scores["unanswerable_f1"] = _mean([f1 for f1, has in zip(shared, answerable, strict=True) if not has])
    return scores


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)
