"""Questions about paragraphs, in SQuAD's JSON format (Rajpurkar et al. 2016; unanswerable questions 2018)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import DataError
from regard.core.lines import read_whole


@dataclass(frozen=True)
class Question:
    """`answers` are parts of the context with the index of their first character; empty if unanswerable."""

    id: str
    text: str
    context: str
    answers: tuple[tuple[str, int], ...] = ()
    title: str = ""
    """The article of the context."""

    @property
    def wanted(self) -> tuple[str, ...]:
        return tuple(text for text, _ in self.answers)


def read_squad(path: Path) -> list[Question]:
    """All questions of a file, plain or compressed (.gz, .xz)."""
    try:
        articles = json.loads(read_whole(path))["data"]
        questions = [
            _question(entry, paragraph["context"], str(article.get("title", "")))
            for article in articles
            for paragraph in article["paragraphs"]
            for entry in paragraph["qas"]
        ]
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        wanted = '{"data": [{"paragraphs": [{"context": …, "qas": [{"question", "id", "answers"}]}]}]}'
        got = f"{type(error).__name__}: {error}"[:200]
        raise DataError(f"{path} is not in SQuAD's format", got=got, expected=wanted) from error
    if not questions:
        raise DataError(f"{path} holds no questions")
    return questions


def _question(entry: dict[str, Any], context: Any, title: str) -> Question:
    answers = [] if entry.get("is_impossible") else entry.get("answers", [])
    places = tuple((str(answer["text"]), int(answer["answer_start"])) for answer in answers)
    if not isinstance(context, str) or not isinstance(entry["question"], str):
        raise TypeError("a context or question that is not text")
    return Question(str(entry["id"]), entry["question"], context, places, title)


def by_article(questions: Sequence[Question], share: float) -> tuple[list[Question], list[Question]]:
    """Split off the last articles, with about this share of the questions; no article is split."""
    order = list(dict.fromkeys(question.title for question in questions))
    last: set[str] = set()
    while len(last) + 1 < len(order) and sum(question.title in last for question in questions) < share * len(questions):
        last.add(order[-1 - len(last)])
    if not last:
        raise DataError("a single article cannot be split into training and validation", remedy="Give data.validation.")
    return [question for question in questions if question.title not in last], [
        question for question in questions if question.title in last
    ]
