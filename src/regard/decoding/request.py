"""A request to a decoder: one input, the search settings, and the tokens that the output must begin with."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.core.contracts import Decodable
from regard.core.errors import LengthError, UsageError
from regard.core.search import Search

NONE = -1  # stands for a token that does not exist; no token has this id


@dataclass(frozen=True)
class SpecialTokens:
    """The end tokens, any of which ends an output, and the tokens that are never generated."""

    ends: tuple[int, ...]
    forbidden: frozenset[int] = frozenset()

    @classmethod
    def of(cls, *, bos: int | Sequence[int], eos: int | Sequence[int], pad: int) -> SpecialTokens:
        """`bos` is forbidden if it is a single token for all rows; −1 stands for a token that does not exist."""
        ends = tuple(token for token in ([eos] if isinstance(eos, int) else eos) if token != NONE)
        # Some vocabularies use one token for several purposes, so end tokens are never forbidden.
        return cls(ends, frozenset({pad, bos} if isinstance(bos, int) else {pad}) - set(ends))

    def is_end(self, tokens: Tensor) -> Tensor:
        """Which of these tokens end an output."""
        if len(self.ends) == 1:
            return tokens == self.ends[0]
        return torch.isin(tokens, torch.tensor(self.ends, dtype=tokens.dtype, device=tokens.device))


@dataclass(frozen=True, eq=False)
class Request:
    """One input for which `search.nbest` outputs are to be generated."""

    search: Search
    first: int
    """The token that generation begins with; it is not part of the output."""
    prefix: Sequence[int] = ()
    """Tokens that the output must begin with."""
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    """The inputs of the model, without a batch axis, for example `source` [S] and `source_mask` [S]."""
    source_length: int | None = None
    """The source length; it limits the output unless `search.max_length` does."""
    number: int = 0
    """Samples depend only on the seed and this number, not on other requests."""
    grammar: Callable[[Sequence[int]], Tensor] | None = None
    """Maps the output so far, with its prefix, to a mask [V] of the allowed next tokens; None: all are allowed. It may
    have a tensor `same` of tokens that say the same wherever one of them is allowed: that one gets the probability of
    all."""
    deadline: float | None = None
    """A time of `time.monotonic()` at which generation stops; the output so far is returned as unfinished."""

    @property
    def prompt(self) -> list[int]:
        """All tokens that are read before the first token is chosen."""
        return [self.first, *self.prefix]

    @property
    def width(self) -> int:
        """The largest number of paths that it can have at a time."""
        return self.search.nbest if self.search.sample else self.search.beam

    def limit(self, longest: int | None) -> int:
        """The largest number of tokens of an output, prefix included; `longest` is the model's own limit."""
        if self.source_length is None and self.search.max_length is None:
            raise UsageError("nothing says how long an output may be", remedy="Set max_length, or give source lengths.")
        limit = self.search.limit(self.source_length or 0)
        return limit if longest is None else min(limit, longest)

    def seed(self) -> int:
        """The search's seed, or a random seed from the system. A seed beyond signed 64 bits is reduced to 63 bits."""
        seed = secrets.randbits(62) if self.search.seed is None else self.search.seed
        return seed if -(2**63) <= seed < 2**63 else seed % 2**63


def check_request(request: Request, model: Decodable, special: SpecialTokens, row: int) -> None:
    """Refuse requests that the model cannot serve, with errors in terms of the request."""
    if request.search.coverage_penalty and model.coverage_site is None:
        raise UsageError(
            "this model has no attention that shows which inputs are covered", remedy="Set coverage_penalty to 0."
        )
    longest, wanted = getattr(model, "longest", None), request.limit(None)
    if len(request.prefix) > wanted:
        raise UsageError(
            f"the forced prefix of row {row} is longer than its output may be",
            got=f"{len(request.prefix)} tokens",
            expected=f"at most {wanted}",
            remedy="Raise max_length (or max_extra), or shorten the prefix.",
        )
    if longest is not None and len(request.prefix) > longest:
        raise LengthError(
            f"the forced prefix of row {row} is longer than the model can read",
            got=f"{len(request.prefix)} tokens",
            expected=f"at most {longest}",
            remedy="Shorten it.",
        )
    if min(request.prefix, default=0) < 0:
        raise UsageError(f"the forced prefix of row {row} holds a negative token", got=min(request.prefix))
    for name, tokens in (("end token", special.ends), ("forced prefix", request.prefix)):
        if outside := [token for token in tokens if not 0 <= token < model.vocab_size]:
            raise UsageError(
                f"the {name} is outside the model's vocabulary",
                got=outside[0],
                expected=f"0 to {model.vocab_size - 1}",
                remedy="Use the tokenizer that the model was trained with.",
            )
