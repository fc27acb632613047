"""What the replaceable pieces of attention promise each other. A new piece is a file whose class keeps one of these.

Shapes throughout the project: B batch, Q queries, K keys, T time, D model width, H heads, E head width,
V vocabulary, P patches. `scores` are before choosing, `weights` after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor

from regard.core.batch import Batch
from regard.core.state import State

# bias(query_BHQE, distance) and gain(distance) receive distance = key position − query position, broadcastable to
# BHQK, and return something broadcastable to BHQK.
BiasFunction = Callable[[Tensor, Tensor], Tensor]
GainFunction = Callable[[Tensor], Tensor]


@runtime_checkable
class Score(Protocol):
    """How well a query matches each key."""

    by_index: bool
    """True when scores belong to positions of keys or queries rather than their contents: neither can be regrouped,
    unless `as_dot` gives a form that needs the contents only."""
    same_width: bool
    """True when the query and the keys must have the same width."""

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        """query [B,H,Q,E], keys [B,H,K,E'] → scores [B,H,Q,K]: compare(query, prepare(keys))."""
        ...

    def prepare(self, keys: Tensor) -> Tensor:
        """What depends on the keys alone, to be done once for many queries."""
        ...

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        """query and prepared keys → scores."""
        ...

    def as_dot(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float] | None:
        """(query', keys', scale) such that scores = scale · query' keys'ᵀ; None when there is no such form.

        A score with this form gets the fused kernel for free."""
        ...


@runtime_checkable
class Chooser(Protocol):
    """How scores become weights."""

    fused: bool
    """True when torch's fused kernel makes the same choice (softmax)."""

    @property
    def stochastic(self) -> bool:
        """True while choosing draws random numbers, so that asking twice gives two answers."""
        ...

    def __call__(self, scores: Tensor) -> Tensor:
        """scores [...,K] → weights [...,K], not negative, sum 1. Forbidden keys have hugely negative scores."""
        ...


@runtime_checkable
class SamplingChooser(Chooser, Protocol):
    """A chooser that may draw at random, and can say how likely that was."""

    def log_prob(self, scores: Tensor, weights: Tensor) -> Tensor:
        """log p(chosen) [...]."""
        ...


@runtime_checkable
class Fitted(Protocol):
    """A model that is not trained by gradients: it sees the data once, and counts, say."""

    def fit(self, batches: Iterable[Batch]) -> None: ...


@runtime_checkable
class Decodable(Protocol):
    """A model that generates text; all that it remembers is in the state, path by path (see `core.state`)."""

    coverage_site: str | None
    """The attention site whose weights say which inputs have been used up; None: there is none."""

    longest: int | None
    """The most tokens that either side may have, beginning and end tokens included; None: any number."""

    @property
    def vocab_size(self) -> int:
        """How many tokens it may choose from."""
        ...

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        """Room for so many sources and so many paths of `capacity` tokens each."""
        ...

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        """Read the inputs (`source` [R,S] and `source_mask` [R,S], say), which become these sources of the state."""
        ...

    def step(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, state: State) -> Tensor:
        """Take the first `counts` tokens of each row into its path; logits [N,V] of the token that comes next."""
        ...
