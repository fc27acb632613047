"""Settings of greedy search, beam search and sampling.

    score(Y) = log P(Y|X) / D(n) + β Σ_i log min(Σ_t a_ti, 1)

D(n) = ((5 + n)/6)^α for `length_form="wu"` (Wu et al. 2016, eq. 14), n^α for "mean" (α = 1: the mean log-probability);
α is `length_penalty`, β `coverage_penalty`, a_ti the attention on input i when token t was generated. n counts the
generated tokens with the end token, but without forced prefixes.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from regard.core.config import Config
from regard.core.errors import UsageError

_MOST = 1_000_000
_WIDEST = 10_000
Count = Annotated[int, Field(ge=0, le=_MOST)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Weight = Annotated[float, Field(ge=0.0)]


class Search(Config):
    """Beam search unless `beam` is 1 (greedy) or `sample` is set. Settings of the other methods are ignored."""

    beam: Annotated[int, Field(ge=1, le=_WIDEST)] = 5
    nbest: Annotated[int, Field(ge=1, le=_WIDEST)] = 1
    """The number of outputs for each row; when sampling, they are independent samples."""
    patience: Annotated[float, Field(gt=0.0)] | None = None
    """Stop as soon as `patience` × beam outputs have ended (1: as CTranslate2 does). None: stop when no unfinished
    output can become better."""
    length_penalty: Weight = 1.0
    length_form: Literal["wu", "mean"] = "wu"
    coverage_penalty: Weight = 0.0
    min_length: Count = 0
    """The number of tokens that must come before the end token."""
    max_length: Annotated[int, Field(ge=1, le=_MOST)] | None = None
    """The largest number of tokens, the end token included; None: max_ratio · source length + max_extra."""
    max_ratio: Annotated[float, Field(ge=0.0, le=1000.0)] = 2.0
    max_extra: Count = 10
    max_source: Annotated[int, Field(ge=1, le=_MOST)] = 1024
    """The largest number of source tokens: the work grows with the square of their number."""
    no_repeat_ngram: Count = 0
    """No sequence of this many tokens is generated twice; 0: repetition is allowed."""
    repetition_penalty: Annotated[float, Field(gt=0.0, le=1000.0)] = 1.0
    """Above 1, tokens that were read or generated before become less probable (Keskar et al. 2019); 1: no effect."""
    forbidden: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Tokens that are never generated, besides padding and the like. End tokens stay allowed."""
    sample: bool = False
    temperature: Weight = 1.0
    """Below 1, probable tokens become more probable; 0 is greedy."""
    top_k: Count = 0
    """Sample from the k most probable tokens; 0: from all tokens."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    min_p: Share = 0.0
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.nbest > self.beam and not self.sample:
            raise UsageError(
                "nbest is larger than the beam",
                got=f"nbest={self.nbest}, beam={self.beam}",
                remedy=f"Set beam to {self.nbest} or more, or set sample.",
            )
        if self.max_length is not None and self.min_length >= self.max_length:
            raise UsageError(
                "min_length leaves no room for the end token",
                got=f"min_length={self.min_length}, max_length={self.max_length}",
                remedy=f"Set max_length to {self.min_length + 1} or more.",
            )
        return self

    def limit(self, source_length: int) -> int:
        """The most tokens that may be generated for a source of this length."""
        if self.max_length is not None:
            return self.max_length
        return max(int(self.max_ratio * source_length) + self.max_extra, self.min_length + 1)
