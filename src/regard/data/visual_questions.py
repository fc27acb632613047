"""Questions about images, with their answers, as files hold them.

    JSON lines     {"image": "1.jpg", "question": "What is it?", "answer": "a dog"}
    JSON           a list of such objects, or of [question, answer, image], as easy-VQA has it

An image may be a number; a pattern makes its name ("train/images/{}.png"). The images and the file of questions are in
one folder or archive.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.core.errors import DataError
from regard.data.archives import Archive

_ENTRY = '{"image": "1.jpg", "question": "…", "answer": "…"} or ["question", "answer", "image"]'


@dataclass(frozen=True)
class Asked:
    """A question about an image, and its answer."""

    image: str
    question: str
    answer: str


def read_questions(archive: Archive, name: str, pattern: str = "{}") -> list[Asked]:
    """The questions of a file, in its order; `pattern` makes the name of an image's file."""
    where = f"{archive.place}:{name}"
    try:
        text = archive.read(name).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{where} is not UTF-8", remedy="Convert it.") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    try:
        if text.lstrip().startswith("["):
            entries = list(enumerate(json.loads(text), 1))
        else:
            entries = [(number, json.loads(line)) for number, line in lines]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON", got=str(error)[:80], expected=f"entries such as {_ENTRY}") from None
    if not entries:
        raise DataError(f"{where} holds no questions", expected=f"entries such as {_ENTRY}")
    return [_asked(entry, number, where, pattern) for number, entry in entries]


def _asked(entry: object, number: int, where: str, pattern: str) -> Asked:
    given: Any = entry
    if isinstance(given, Mapping):
        given = [given.get(key) for key in ("question", "answer", "image")]
    good = isinstance(given, list) and len(given) == 3 and type(given[2]) in (str, int)
    if not good or not all(isinstance(part, str) and part.strip() for part in given[:2]):
        got = json.dumps(entry, ensure_ascii=False)[:60]
        raise DataError(f"entry {number} of {where} is no question with an answer", got=got, expected=_ENTRY)
    return Asked(pattern.replace("{}", str(given[2])), given[0], given[1])


def answers_of(asked: Iterable[Asked]) -> list[str]:
    """The different answers, in alphabetical order."""
    answers = sorted({entry.answer for entry in asked})
    if len(answers) < 2:
        raise DataError(
            "there is nothing to choose from", got=f"{len(answers)} different answers", expected="2 or more"
        )
    return answers
