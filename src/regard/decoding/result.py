"""What a search returns, and the ranking of a request's best hypotheses during the search."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """One output. `tokens` has a forced prefix but neither the first token nor the end token.

    `log_prob` is the model's own, of all generated tokens (the end token too, the forced prefix not), before
    temperature and filters; `score` is what the search ranked by. `finished` is False where the length ran out, or the
    constraints left no token, before the end token came.
    """

    tokens: list[int]
    score: float
    log_prob: float
    finished: bool


class Ranking:
    """The n best hypotheses of one request: finished ones before others, then by score; of equals the first added."""

    def __init__(self, size: int) -> None:
        self._size, self._best = size, list[Hypothesis]()

    @property
    def best(self) -> list[Hypothesis]:
        return list(self._best)

    @property
    def bar(self) -> float:
        """What a finished hypothesis must score more than to enter; −inf while there is room."""
        full = len(self._best) == self._size and self._best[-1].finished
        return self._best[-1].score if full else -math.inf

    def add(self, hypothesis: Hypothesis) -> None:
        insort(self._best, hypothesis, key=lambda entry: (not entry.finished, -entry.score))
        del self._best[self._size :]
