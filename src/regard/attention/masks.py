"""Which keys a query may see. True means "may attend", everywhere in this project.

A `Mask` describes this by structure: how many keys before and after the query, and which keys are padding. It becomes a
Q × K tensor only where nothing cheaper works: a window over 16,384 keys never makes 16,384² booleans.

    causal()                       no key after the query
    causal(strict=True)            only keys before the query
    window(127, 0)                 causal, the last 128 keys (sliding window)
    window(10, 10, start=t)        Luong's local-m: D = 10 around step t
    around(centre, 10)             Luong's local-p: D = 10 around a predicted position p_t
    padding(lengths) & causal()    both
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.core.errors import ShapeError, UsageError


@dataclass(frozen=True, eq=False)
class Mask:
    """The keys that each query may see: all given conditions must hold."""

    before: int | None = None
    """The largest distance of a key before the query; None: any distance."""
    after: int | None = None
    """The largest distance of a key after the query; None: any distance; −1: the query's own key is excluded too."""
    start: int | None = None
    """The key position of query 0; None: the last query is at the last key."""
    centre: Tensor | None = None
    """Real-valued key positions [B,H,Q] (or broadcastable) of the queries, instead of `start`."""
    keys: Tensor | None = None
    """Boolean [B,K]: keys that are real (not padding)."""
    pairs: Tensor | None = None
    """Boolean, broadcastable to [B,H,Q,K]: any other condition."""

    def __post_init__(self) -> None:
        for name in ("keys", "pairs"):
            tensor = getattr(self, name)
            if tensor is not None and tensor.dtype != torch.bool:
                raise ShapeError(
                    f"mask ({name}) is not boolean",
                    got=str(tensor.dtype),
                    expected="torch.bool with True = may attend",
                    remedy="Use mask.bool(), or pass numbers that are added to the scores as bias=.",
                )
        if self.centre is not None and self.start is not None:
            raise UsageError("a mask has either a start or predicted centres", got="both", expected="one of them")

    def __and__(self, other: Mask | Tensor) -> Mask:
        if isinstance(other, Tensor):
            other = Mask(pairs=other)
        placed = self if self._placed or (self._limited and not other._placed) else other
        differ = self.start != other.start or self.centre is not other.centre
        if differ and ((self._limited and other._limited) or (self._placed and other._placed)):
            raise UsageError(
                "two windows with different centres cannot be combined",
                remedy="Give both the same start, or pass one as a boolean tensor (mask.dense(n_queries, n_keys)).",
            )
        return Mask(
            before=_least(self.before, other.before),
            after=_least(self.after, other.after),
            start=placed.start,
            centre=placed.centre,
            keys=_both(self.keys, other.keys),
            pairs=_both(self.pairs, other.pairs),
        )

    @property
    def _limited(self) -> bool:
        return self.before is not None or self.after is not None

    @property
    def _placed(self) -> bool:
        """Whether the mask itself gives the positions of the queries."""
        return self.start is not None or self.centre is not None

    def first(self, n_queries: int, n_keys: int) -> int:
        return n_keys - n_queries if self.start is None else self.start

    def trim(self, n_queries: int, n_keys: int) -> Mask:
        """The same mask without limits that have no effect here, such as `causal` for the newest query alone."""
        if self.centre is not None or (self.before is None and self.after is None):
            return self
        first = self.first(n_queries, n_keys)
        before, after = self.before, self.after
        if before is not None and first + n_queries - 1 - before <= 0:
            before = None
        if after is not None and first + after >= n_keys - 1:
            after = None
        return replace(self, before=before, after=after)

    def distance(self, n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor:
        """Key position − query position: integers [Q,K], or reals [B,H,Q,K] where centres are predicted."""
        places = torch.arange(n_keys, device=device)
        if self.centre is not None:
            return places - self.centre.unsqueeze(-1)
        first = self.first(n_queries, n_keys)
        return places - torch.arange(first, first + n_queries, device=device).unsqueeze(-1)

    def dense(self, n_queries: int, n_keys: int, device: torch.device | None = None) -> Tensor | None:
        """The boolean tensor, broadcastable to [B,H,Q,K]; None when everything is allowed."""
        allowed = self.pairs
        if self.keys is not None:
            allowed = _both(allowed, self.keys[:, None, None, :])
        if self.before is not None or self.after is not None:
            allowed = _both(allowed, self.within(self.distance(n_queries, n_keys, device)))
        return allowed

    def within(self, distance: Tensor) -> Tensor:
        """Which distances the window allows."""
        before = -math.inf if self.before is None else -self.before
        after = math.inf if self.after is None else self.after
        return (distance >= before) & (distance <= after)


def causal(*, start: int | None = None, strict: bool = False) -> Mask:
    """Each query sees its own key and those before it. With `strict` it sees only those before it; the first query then
    sees nothing."""
    return Mask(after=-1 if strict else 0, start=start)


def window(before: int, after: int | None = None, *, start: int | None = None) -> Mask:
    """Each query sees `before` keys before it, its own key, and `after` keys after it (by default `before` keys)."""
    after = before if after is None else after
    if before < 0 or after < 0:
        raise UsageError("a window reaches a negative distance", got=(before, after), expected="0 or more")
    return Mask(before=before, after=after, start=start)


def around(centre: Tensor, radius: int) -> Mask:
    """Each query sees the keys within `radius` of its predicted position (Luong's local-p)."""
    if radius < 1:
        raise UsageError("a window around a centre needs a radius", got=radius, expected="1 or more")
    return Mask(before=radius, after=radius, centre=centre)


def padding(lengths: Tensor, n_keys: int | None = None) -> Mask:
    """Row b sees its first lengths[b] keys."""
    n_keys = int(lengths.max()) if n_keys is None else n_keys
    return Mask(keys=torch.arange(n_keys, device=lengths.device) < lengths[:, None])


@dataclass(frozen=True)
class Gaussian:
    """exp(−(s − p_t)² / 2σ²), which multiplies the weights after the choice; Luong takes σ = D/2."""

    sigma: float

    def __call__(self, distance: Tensor) -> Tensor:
        return torch.exp(-distance.square() / (2 * self.sigma**2))


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return second if first is None else first if second is None else first & second
