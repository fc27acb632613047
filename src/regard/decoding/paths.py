"""Unfinished outputs: tensors with a row for each path.

A request has one path (greedy), several competing paths (beam), or several independent paths (sampling). Paths may
differ in length, since their requests begin at different times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.request import NONE

_FACTS = ("ticket", "copy", "slot", "number", "seed", "limit", "prefix", "length")


def _fact(name: str) -> property:
    column = _FACTS.index(name)
    return property(lambda paths: paths.facts_NF[:, column])


@dataclass(frozen=True)
class Paths:
    """`tokens` holds the first token, then the prefix, then the generated tokens, and −1 past a path's end."""

    facts_NF: Tensor
    tokens_NT: Tensor
    log_prob_N: Tensor
    cover_NK: Tensor | None = None
    """The attention that each input has received, if the search needs it; 1 where there is no input."""

    ticket_N = _fact("ticket")
    copy_N = _fact("copy")
    """The index among the independent samples of a request; −1 before the request's path is copied."""
    slot_N = _fact("slot")
    number_N = _fact("number")
    seed_N = _fact("seed")
    limit_N = _fact("limit")
    prefix_N = _fact("prefix")
    length_N = _fact("length")
    """The number of tokens so far, with the prefix but without the first token."""

    @classmethod
    def start(cls, prompt: Sequence[int], device: torch.device, cover_K: Tensor | None = None, **facts: int) -> Paths:
        """One path that has read its prompt."""
        row = {**facts, "copy": NONE, "prefix": len(prompt) - 1, "length": len(prompt) - 1}
        return cls(
            torch.tensor([[row[name] for name in _FACTS]], device=device),
            torch.tensor([list(prompt)], device=device),
            torch.zeros(1, dtype=torch.float64, device=device),
            None if cover_K is None else cover_K[None],
        )

    @classmethod
    def join(cls, parts: Sequence[Paths]) -> Paths:
        """Concatenate paths, in order."""
        if len(parts) == 1:
            return parts[0]
        covers = [part.cover_NK for part in parts if part.cover_NK is not None]
        return cls(
            torch.cat([part.facts_NF for part in parts]),
            _stacked([part.tokens_NT for part in parts], NONE),
            torch.cat([part.log_prob_N for part in parts]),
            _stacked(covers, 1.0) if covers else None,
        )

    def __len__(self) -> int:
        return len(self.facts_NF)

    def at(self, index_M: Tensor) -> Paths:
        """The paths with these indices, or those where a boolean index is True."""
        return Paths(
            self.facts_NF[index_M],
            self.tokens_NT[index_M],
            self.log_prob_N[index_M],
            None if self.cover_NK is None else self.cover_NK[index_M],
        )

    def ending(self, log_prob_N: Tensor) -> Paths:
        """The same tokens with another log-probability."""
        return replace(self, log_prob_N=log_prob_N)

    def extend(self, token_N: Tensor, log_prob_N: Tensor) -> Paths:
        """Append one token to each path."""
        if not len(self):
            return self
        end_N = self.length_N + 1
        tokens_NT = F.pad(self.tokens_NT, (0, 1), value=NONE)
        tokens_NT.scatter_(1, end_N[:, None], token_N[:, None])
        facts_NF = self.facts_NF.clone()
        facts_NF[:, _FACTS.index("length")] = end_N
        return Paths(facts_NF, tokens_NT[:, : int(end_N.max()) + 1], log_prob_N, self.cover_NK)

    def having(self, name: str, values_N: Tensor) -> Paths:
        """The same paths with another value of one fact."""
        facts_NF = self.facts_NF.clone()
        facts_NF[:, _FACTS.index(name)] = values_N
        return replace(self, facts_NF=facts_NF)

    @property
    def last_N(self) -> Tensor:
        """The newest token of each path."""
        return self.tokens_NT.gather(1, self.length_N[:, None])[:, 0]

    def written(self) -> list[list[int]]:
        """The tokens of each path, without the first token."""
        pairs = zip(self.tokens_NT.tolist(), self.length_N.tolist(), strict=True)
        return [tokens[1 : length + 1] for tokens, length in pairs]


def _stacked(parts: Sequence[Tensor], value: float) -> Tensor:
    """Concatenate rows of different lengths, padded with `value`."""
    longest = max(part.shape[1] for part in parts)
    return torch.cat([F.pad(part, (0, longest - part.shape[1]), value=value) for part in parts])
