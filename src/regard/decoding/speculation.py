"""Speculative decoding: guess the next tokens cheaply, and let the model read them all at once (Leviathan et al. 2023).

    faster = Speculative(model, Lookup())            # a Decodable that replaces the model

On a CPU, reading several tokens takes hardly longer than reading one, since each weight is fetched once for all of
them. So a step reads the path's new token and some guesses after it, and keeps the logits after each token. As long as
the search chooses the guessed tokens, the next logits are already known and the model does not run.

Where we differ: Leviathan et al. accept a guess with some probability and sample again if it is rejected. Here the
search itself chooses every token from the model's logits, and a guess only decides how much computing them costs.
Greedy search, sampling and constraints therefore give the same tokens as without guesses, not only the same
distribution.

Guesses and their logits are kept in the state and move with their path. The model's memory of wrong guesses lies past
the path's length, where the next tokens overwrite it. So this works only for models whose whole memory consists of
entries for single tokens (keys and values).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core import taps
from regard.core.contracts import Verifiable
from regard.core.state import Rows, State

_MOST_ROWS = 24
"""The largest number of tokens that a step reads, guesses included: additional tokens are no longer almost free."""
_NONE = -1


class Guesser(Protocol):
    def guess(self, histories: Sequence[Sequence[int]], paths: Sequence[int], count: int) -> list[list[int]]:
        """At most `count` guessed tokens after each history; `paths` are the slots of the histories."""
        ...


class Lookup:
    """Guesses the tokens that followed an earlier occurrence of the text's last tokens ("prompt lookup", Saxena 2023).

    It looks for the last `longest` tokens, then for fewer, down to 1, and takes the latest earlier occurrence.
    """

    def __init__(self, longest: int = 3) -> None:
        self._longest = longest

    def guess(self, histories: Sequence[Sequence[int]], paths: Sequence[int], count: int) -> list[list[int]]:
        return [self._after(list(history), count) for history in histories]

    def _after(self, history: list[int], count: int) -> list[int]:
        for size in range(min(self._longest, len(history) - 1), 0, -1):
            newest = history[-size:]
            for start in range(len(history) - size - 1, -1, -1):
                if history[start : start + size] == newest:
                    return history[start + size : start + size + count]
        return []


class Draft:
    """Guesses the most probable tokens of a smaller model with the same vocabulary."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._state: State | None = None
        self._read: dict[int, list[int]] = {}

    @torch.inference_mode()
    def guess(self, histories: Sequence[Sequence[int]], paths: Sequence[int], count: int) -> list[list[int]]:
        state = self._room(max(paths) + 1)
        longest = self._model.longest
        if longest is not None:
            count = min(count, longest - max(map(len, histories)))
        if count < 1:
            return [[] for _ in histories]
        paths_N, new = torch.tensor(paths), []
        for history, path in zip(histories, paths, strict=True):
            kept = _common(self._read.get(path, []), history)
            kept = min(kept, len(history) - 1)  # the last token is read again for its logits
            state.lengths_P[path] = kept
            new.append(list(history[kept:]))
        guesses: list[list[int]] = [[] for _ in histories]
        for _ in range(count):
            counts_N = torch.tensor([len(tokens) for tokens in new])
            widest = int(counts_N.max())
            tokens_NT = torch.tensor([tokens + [0] * (widest - len(tokens)) for tokens in new])
            best = self._model.step(tokens_NT, counts_N, paths_N, state).argmax(-1).tolist()
            for row, token in zip(guesses, best, strict=True):
                row.append(token)
            new = [[token] for token in best]
        for history, path, row in zip(histories, paths, guesses, strict=True):
            self._read[path] = [*history, *row[:-1]]
        return guesses

    def _room(self, paths: int) -> State:
        """A state with at least this many slots. If a larger state is needed, it begins empty."""
        if self._state is None or len(self._state.lengths_P) < paths:
            state: State = self._model.new_state(sources=0, paths=paths, capacity=64)
            self._state, self._read = state, {}
        return self._state


class Speculative:
    """A `Decodable` that gives the same logits as the model. `count` tokens are guessed at a time."""

    def __init__(self, model: Verifiable, guesser: Guesser, count: int = 5) -> None:
        self.model, self._guesser, self._count = model, guesser, count
        self.coverage_site, self.longest = model.coverage_site, model.longest
        self.runs = self.tokens = 0
        """The number of runs of the model, and of tokens chosen from its logits. Prompts are not counted."""

    @property
    def vocab_size(self) -> int:
        return int(self.model.vocab_size)

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        state = self.model.new_state(sources=sources, paths=paths, capacity=capacity)
        state.ahead = self._count
        return state

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        self.model.read(inputs, state, sources_R)

    def step(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, state: State) -> Tensor:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        history_NK = rows.extend("guess.history", tokens_NT[:, None, :, None])[:, 0, :, 0]
        if tokens_NT.shape[1] > 1 or taps.watched():
            rows.put("guess.tokens", self._nothing(paths_N))
            return self.model.step(tokens_NT, counts_N, paths_N, state)
        place_N, foreseen_N = self._follow(rows, tokens_NT[:, 0])
        self.tokens += len(paths_N)
        state.lengths_P[paths_N] += foreseen_N.long()
        if not bool(foreseen_N.all()):
            self._run(tokens_NT[~foreseen_N], history_NK[~foreseen_N], paths_N[~foreseen_N], state)
        return rows.pick("guess.logits", torch.where(foreseen_N, place_N, 0))

    def _follow(self, rows: Rows, token_N: Tensor) -> tuple[Tensor, Tensor]:
        """The place of each path's next logits if its new token was guessed correctly [N], and whether it was [N]."""
        guesses_NG = rows.get("guess.tokens", self._nothing(rows.paths_N))
        place_N = rows.get("guess.place", torch.zeros_like(token_N))
        guess_N = F.pad(guesses_NG, (0, 1), value=_NONE).gather(1, place_N[:, None])[:, 0]
        rows.put("guess.place", place_N + 1)
        return place_N + 1, guess_N == token_N

    def _run(self, tokens_M1: Tensor, history_MK: Tensor, paths_M: Tensor, state: State) -> None:
        """Read each path's new token and the guesses after it; keep the logits after each token."""
        self.runs += 1
        starts_M = state.lengths_P[paths_M]
        guesses = self._guesses(history_MK, starts_M, paths_M)
        counts_M = torch.tensor([1 + len(row) for row in guesses])
        guesses_MG = self._nothing(paths_M)
        for row, tokens in zip(guesses_MG, guesses, strict=True):
            row[: len(tokens)] = torch.tensor(tokens, dtype=torch.long)
        widest = int(counts_M.max())
        if widest == 1:
            logits_MTV = self.model.step(tokens_M1, counts_M, paths_M, state)[:, None]
        else:
            read_MT = torch.cat([tokens_M1, guesses_MG[:, : widest - 1].clamp_min(0)], 1)
            logits_MTV = self.model.verify(read_MT, counts_M, paths_M, state)
        state.lengths_P[paths_M] = starts_M + 1  # guesses join the path only when the search chooses them
        rows = state.rows(paths_M, counts_M, widest)
        rows.put("guess.logits", F.pad(logits_MTV, (0, 0, 0, self._count + 1 - widest)))
        rows.put("guess.tokens", guesses_MG)
        rows.put("guess.place", torch.zeros_like(paths_M))

    def _guesses(self, history_MK: Tensor, starts_M: Tensor, paths_M: Tensor) -> list[list[int]]:
        count = min(self._count, _MOST_ROWS // len(paths_M) - 1)
        if self.longest is not None:
            count = min(count, self.longest - 1 - int(starts_M.max()))
        if count < 1:
            return [[] for _ in paths_M]
        lengths = (starts_M + 1).tolist()
        histories = [tokens[:length] for tokens, length in zip(history_MK.tolist(), lengths, strict=True)]
        return self._guesser.guess(histories, paths_M.tolist(), count)

    def _nothing(self, paths_N: Tensor) -> Tensor:
        return torch.full((len(paths_N), self._count), _NONE)


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """The length of the longest common prefix of two sequences."""
    for place, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return place
    return min(len(left), len(right))
