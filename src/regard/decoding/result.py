"""The result of a search, and the ranking of a request's best hypotheses during the search."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One output. `tokens` includes a forced prefix, but neither the first token nor the end token.

    `log_prob` is the model's log-probability of all generated tokens (with the end token, without the forced prefix),
    before temperature and filters. `score` is the number that the search ranks by. `finished` is False if the output
    reached its length limit, or the constraints allowed no token, before an end token was generated.
    """

    tokens: list[int]
    score: float
    log_prob: float
    finished: bool


class Ranking:
    """The n best hypotheses of one request: finished ones first, then by score; on a tie, the first one added."""

    def __init__(self, size: int) -> None:
        self._size, self._best = size, list[Hypothesis]()

    @property
    def best(self) -> list[Hypothesis]:
        return list(self._best)

    @property
    def bar(self) -> float:
        """The score that a finished hypothesis must exceed to enter; −inf while there is room."""
        full = len(self._best) == self._size and self._best[-1].finished
        return self._best[-1].score if full else -math.inf

    def add(self, hypothesis: Hypothesis) -> None:
        insort(self._best, hypothesis, key=lambda entry: (not entry.finished, -entry.score))
        del self._best[self._size :]
