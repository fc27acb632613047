"""Protocols of the replaceable pieces of attention. A new piece is a file whose class implements one of them.

Shapes throughout the project: B batch, Q queries, K keys, T time, D model width, H heads, E head width,
V vocabulary, P patches. `scores` are the numbers before the chooser, `weights` those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    """True when scores depend on the positions of keys or queries, not on their contents. Such keys and queries cannot
    be regrouped, unless `as_dot` gives a form that needs the contents only."""
    same_width: bool
    """True when the query and the keys must have the same width."""

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        """query [B,H,Q,E], keys [B,H,K,E'] → scores [B,H,Q,K]: compare(query, prepare(keys))."""
        ...

    def prepare(self, keys: Tensor) -> Tensor:
        """Compute what depends on the keys alone, once for many queries."""
        ...

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        """Return the scores of a query and prepared keys."""
        ...

    def as_dot(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float] | None:
        """Return (query', keys', scale) such that scores = scale · query' keys'ᵀ, or None if there is no such form.

        A score with this form can use the fused kernel."""
        ...


@runtime_checkable
class Chooser(Protocol):
    """How scores become weights."""

    fused: bool
    """True when torch's fused kernel computes the same weights (softmax)."""

    @property
    def stochastic(self) -> bool:
        """True while choosing draws random numbers, so that two calls give two answers."""
        ...

    def __call__(self, scores: Tensor) -> Tensor:
        """scores [...,K] → weights [...,K], non-negative, sum 1. Forbidden keys have hugely negative scores."""
        ...


@runtime_checkable
class SamplingChooser(Chooser, Protocol):
    """A chooser that may sample, and returns the log-probability of its sample."""

    def log_prob(self, scores: Tensor, weights: Tensor) -> Tensor:
        """log p(chosen) [...]."""
        ...


@dataclass(frozen=True)
class FitEpoch:
    """One pass over the data: its number from 0, the total number of passes, and the recipe's `seed` and `lr`."""

    number: int = 0
    total: int = 1
    seed: int = 1
    lr: float = 0.0
    say: Callable[[str], None] = lambda _: None
    """Prints a line beside the progress bar."""
    check: Callable[[], None] = lambda: None
    """Raises if the run is to stop. Reading a batch does this too, so a `fit` only calls it if it reads no batch for a
    long time."""


@runtime_checkable
class Fitted(Protocol):
    """A model that is not trained by the usual training loop: it counts, or has its own loop.

    `fit` is called for each epoch, and may read its batches more than once. It returns numbers for the log, such as a
    mean loss. A model with `reads_in_order` gets all of the data, in order; afterwards its `config` holds the sizes
    that were counted.
    """

    def fit(self, batches: Iterable[Batch], epoch: FitEpoch) -> Mapping[str, float]: ...


@runtime_checkable
class FittedInEpochs(Fitted, Protocol):
    """A fitted model whose run writes a checkpoint after each epoch and resumes from it with bit-identical results.

    The checkpoint holds `state_dict` and, from `fit_state`, everything else that later epochs depend on.
    """

    def fit_state(self) -> Mapping[str, Tensor]: ...
    def load_fit_state(self, tensors: Mapping[str, Tensor]) -> None: ...


@runtime_checkable
class Primed(Protocol):
    """A model that computes statistics of the training data before its first update: document frequencies, lexicon
    hits."""

    def prime(self, batches: Iterable[Batch], words: Sequence[str]) -> None:
        """Read the training data once; `words` are the tokens of the vocabulary."""
        ...


@runtime_checkable
class Decodable(Protocol):
    """A model that generates text. Its whole memory is in the state, with a path per hypothesis (see `core.state`)."""

    coverage_site: str | None
    """The attention site whose weights show which inputs have been covered; None if there is none."""

    longest: int | None
    """The largest number of tokens on either side, beginning and end tokens included; None if there is no limit."""

    @property
    def vocab_size(self) -> int:
        """The number of tokens that the model chooses from."""
        ...

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        """Return a state with room for this many sources and this many paths of `capacity` tokens each."""
        ...

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        """Read the inputs (for example `source` [R,S] and `source_mask` [R,S]) and store them as these sources."""
        ...

    def step(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, state: State) -> Tensor:
        """Append the first `counts` tokens of each row to its path; return logits [N,V] of the next token."""
        ...


class Verifiable(Decodable, Protocol):
    """A model that generates, and that can predict the next token after each of several tokens in one call.

    Its memory consists of entries for single tokens, so that a path is shortened by reducing its length alone.
    """

    def verify(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, state: State) -> Tensor:
        """Append the first `counts` tokens of each row, as `step` does; return the logits after each token [N,T,V]."""
        ...
