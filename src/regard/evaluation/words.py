"""Tests of word vectors, as a table.

analogies     a is to b as c is to …, by section (Mikolov et al. 2013a): the share of questions whose best word is the
              right one, by 3CosAdd and 3CosMul; the three given words are no answers
similarity    WordSim-353 (Finkelstein et al. 2002): Spearman's correlation of cosines with people's judgements

Words are compared in lower case, and words of the vocabulary that differ only in case count as the first of them. A
question or pair with a word that is not in the vocabulary is left out; the table says how many were asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.articles import with_article
from regard.core.errors import DataError, UsageError
from regard.core.lines import read_lines
from regard.evaluation.metrics import scores
from regard.pipelines._words import AnalogyMethod, WordSpace

ANALOGIES, PAIRS = "questions-words.txt", "wordsim353.tsv"
_TOGETHER = 256
Say = Callable[[str], None]


@dataclass(frozen=True)
class WordRow:
    """One test: the number of questions asked, the number of all questions, and the scores (correlations or shares)."""

    test: str
    asked: int
    questions: int
    scores: dict[str, float]


def words(model: Any, data: str | Path, *, say: Say = lambda _: None) -> list[WordRow]:
    """A row for each test whose file is in `data`; `model` are loaded word vectors."""
    space, data = getattr(model, "space", None), Path(data)
    if not isinstance(space, WordSpace):
        raise UsageError(
            "this suite needs word vectors", got=f"{with_article(model.stored.name)} for {model.stored.task}"
        )
    if not any((data / name).is_file() for name in (ANALOGIES, PAIRS)):
        raise DataError(f"{data} holds no test of word vectors", expected=f"{ANALOGIES} or {PAIRS}")
    table = [_similarity(space, data / PAIRS)] if (data / PAIRS).is_file() else []
    if (data / ANALOGIES).is_file():
        for row in _analogies(_in_lower_case(space), data / ANALOGIES):
            say(f"{row.test}: {row.asked} of {row.questions} questions")
            table.append(row)
    return table


def _in_lower_case(space: WordSpace) -> WordSpace:
    """The words without those that differ from an earlier word only in case."""
    first = {word.lower(): n for n, word in reversed(list(enumerate(space.words)))}
    numbers = sorted(first.values())
    if len(numbers) == len(space.words):
        return space
    return WordSpace([space.words[n] for n in numbers], space.vectors[torch.tensor(numbers)])


def _similarity(space: WordSpace, path: Path) -> WordRow:
    judged, cosines, count = [], [], 0
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        try:
            first, second, judgement = fields[0], fields[1], float(fields[2])
        except (IndexError, ValueError):
            raise DataError(f"line {number} of {path} is not two words and a number", got=repr(line[:60])) from None
        count += 1
        numbers = space.get(first), space.get(second)
        if numbers[0] is not None and numbers[1] is not None:
            judged.append(judgement)
            cosines.append(space.cosine(numbers[0], numbers[1]))
    measured = {}
    if len(judged) > 2:
        measured = scores(torch.tensor(cosines)[:, None], torch.tensor(judged), ("spearman", "pearson"))
    return WordRow("WordSim-353", len(judged), count, measured)


def _analogies(space: WordSpace, path: Path) -> Iterator[WordRow]:
    """A row for each section, then one over all."""
    total = {"3CosAdd": 0, "3CosMul": 0}
    asked_in_all, in_all = 0, 0
    for section, questions in _sections(path).items():
        numbers = [[space.get(word) for word in question] for question in questions]
        known = torch.tensor([row for row in numbers if None not in row], dtype=torch.long).reshape(-1, 4)
        right = {"3CosAdd": _right(space, known, "add"), "3CosMul": _right(space, known, "mul")}
        total = {name: total[name] + count for name, count in right.items()}
        asked_in_all, in_all = asked_in_all + len(known), in_all + len(questions)
        yield WordRow(section, len(known), len(questions), _shares(right, len(known)))
    yield WordRow("all analogies", asked_in_all, in_all, _shares(total, asked_in_all))


def _shares(right: dict[str, int], asked: int) -> dict[str, float]:
    return {name: count / asked for name, count in right.items()} if asked else {}


def _sections(path: Path) -> dict[str, list[list[str]]]:
    sections: dict[str, list[list[str]]] = {}
    name = "analogies"
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith(":"):
            name = line[1:].strip()
        elif line.strip():
            if len(fields := line.split()) != 4:
                raise DataError(f"line {number} of {path} is not four words", got=repr(line[:60]))
            sections.setdefault(name, []).append(fields)
    return sections


def _right(space: WordSpace, questions_Q4: Tensor, method: AnalogyMethod) -> int:
    right = 0
    for part in questions_Q4.split(_TOGETHER):
        scored = space.analogy_scores(part[:, :3], method)
        scored.scatter_(1, part[:, :3], -torch.inf)
        right += int((scored.argmax(1) == part[:, 3]).sum())
    return right
