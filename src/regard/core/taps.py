"""Access to the inside of a model: attention sites and block outputs report here while a `watch` is open.

    with regard.watch() as record:
        model(x)
    record["encoder.3.self"].weights      # [B, H, Q, K]

Without a watch this costs one read of a context variable. Watching never changes a result: the fused kernel still
computes the output, and the weights are computed separately from the query and keys. `alter` changes results, at the
same places. Context variables keep threads and asynchronous tasks apart: each watches only its own calls.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regard.core.errors import UnknownName, UsageError

Labels = tuple[Sequence[str] | None, Sequence[str] | None]


@dataclass(frozen=True, eq=False)
class Axes:
    """Names for the queries and the keys of a site: "source", "target", "image", "memory", "word" and so on.

    The names are those for which the explanation has labels (`explain.Subject.sides`). `rows` [B] gives the input of
    each row of the call, if one input gives several rows, for example the sentences of a document. `first_key` is the
    position of the call's first key on its axis, for a window that moves (a tape whose oldest entries are cut off).
    """

    queries: str = "input"
    keys: str = "input"
    rows: Tensor | None = None
    first_key: int = 0
    mixes: bool = True
    """True if the site returns the values mixed by its weights; False if it writes to the values by its weights."""


@dataclass
class Seen:
    """The record of one call of one attention site. Fields that were not requested are None."""

    site: str
    axes: Axes = Axes()
    weights: Tensor | None = None
    query: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None
    value_path: Tensor | None = None
    slices: Tensor | None = None
    """Each head's slice of the output projection [H,E,D]; the value path is the values times this slice."""
    allowed: Tensor | None = None
    """The keys that each query may attend to, broadcastable to [B,H,Q,K]; None: all keys. It is recorded with weights
    and with parts."""
    query_labels: Sequence[str] | None = None
    key_labels: Sequence[str] | None = None


@dataclass
class Record:
    """All that a `watch` has recorded, in the order of the calls."""

    patterns: Sequence[str] = ("*",)
    want_weights: bool = True
    want_parts: bool = False
    want_path: bool = False
    want_slices: bool = False
    want_hidden: bool = True
    graph: bool = False
    labels: Mapping[str, Labels] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    hidden: dict[str, list[Tensor]] = field(default_factory=dict)
    hidden_axes: dict[str, str] = field(default_factory=dict)
    """For each name in `hidden`, the axis that its states belong to."""

    @property
    def sites(self) -> list[str]:
        return list(dict.fromkeys(entry.site for entry in self.seen))

    def calls(self, site: str) -> list[Seen]:
        """All calls of a site; a recurrent decoder calls its attention once per step."""
        calls = [entry for entry in self.seen if entry.site == site]
        if not calls:
            raise UnknownName("attention site", site, self.sites)
        return calls

    def __getitem__(self, site: str) -> Seen:
        calls = self.calls(site)
        if len(calls) > 1:
            raise UsageError(
                f"attention site {site!r} was called {len(calls)} times", remedy=f"Use record.calls({site!r})."
            )
        return calls[0]

    def __iter__(self) -> Iterator[Seen]:
        return iter(self.seen)

    def __len__(self) -> int:
        return len(self.seen)

    def wants(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.patterns)

    def labels_of(self, site: str) -> Labels:
        return next((pair for pattern, pair in self.labels.items() if fnmatch.fnmatchcase(site, pattern)), (None, None))


Change = Callable[[str, Tensor], Tensor]

_watchers: ContextVar[tuple[Record, ...]] = ContextVar("regard_watchers", default=())
_changes: ContextVar[tuple[tuple[str, Change], ...]] = ContextVar("regard_changes", default=())


def watched() -> bool:
    """Whether a `watch` or an `alter` is active here."""
    return bool(_watchers.get() or _changes.get())


@contextlib.contextmanager
def watch(
    sites: str | Sequence[str] = "*",
    *,
    weights: bool = True,
    parts: bool = False,
    value_path: bool = False,
    slices: bool = False,
    hidden: bool = True,
    labels: Mapping[str, Labels] | None = None,
    graph: bool = False,
) -> Iterator[Record]:
    """Record every attention site whose name matches `sites` (shell patterns) while the block runs.

    `parts` keeps the query, keys and values of each head. `value_path` keeps T, the values times the head's slice of
    the output projection, and `slices` keeps that slice. `hidden` keeps the states between blocks. `labels` names
    queries and keys by site pattern, as `{"encoder.*": (source, source), "decoder.*.cross": (target, source)}`.
    `graph` keeps the recorded tensors in the autograd graph. Watches can be nested; each has its own record.
    """
    patterns = (sites,) if isinstance(sites, str) else tuple(sites)
    record = Record(patterns, weights, parts, value_path, slices, hidden, graph, labels or {})
    token = _watchers.set((*_watchers.get(), record))
    try:
        yield record
    finally:
        _watchers.reset(token)


@contextlib.contextmanager
def alter(changes: Mapping[str, Change]) -> Iterator[None]:
    """While the block runs, replace tensors at named places. Each function gets a name and a tensor and returns the new
    tensor.

    The names are those of attention sites (the heads' contexts [B,H,Q,E] before they are joined) and of block outputs
    and inputs [B,T,D]. Shell patterns work as in `watch`.
    """
    token = _changes.set((*_changes.get(), *changes.items()))
    try:
        yield
    finally:
        _changes.reset(token)


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Switch all watches and changes off while the block runs. This is for computations that belong to no row of the
    input, such as those on exemplars that a model holds."""
    watchers, changes = _watchers.set(()), _changes.set(())
    try:
        yield
    finally:
        _changes.reset(changes)
        _watchers.reset(watchers)


def altered(name: str, x: Tensor) -> Tensor:
    """Return x after all changes that `alter` makes at this place."""
    for pattern, change in _changes.get():
        if fnmatch.fnmatchcase(name, pattern):
            x = change(name, x)
    return x


def watchers(name: str) -> list[Record]:
    """The records of all watches that match `name`; almost always none."""
    records = _watchers.get()
    return [record for record in records if record.wants(name)] if records else []


def report(
    site: str,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: Callable[[], Tensor],
    value_path: Callable[[Tensor], Tensor] | None = None,
    allowed: Callable[[], Tensor | None] = lambda: None,
    axes: Axes | None = None,
) -> None:
    """Add a call of `site` to the records that watch it. The functions are called only for records that need them."""
    for record in watchers(site):
        keep = (lambda x: x) if record.graph else Tensor.detach
        entry = Seen(site, axes or Axes())
        entry.query_labels, entry.key_labels = record.labels_of(site)
        if record.want_weights:
            entry.weights = keep(weights())
        if record.want_weights or record.want_parts:
            entry.allowed = allowed()
        if record.want_slices and value_path is not None:
            unit = torch.eye(values.shape[3], dtype=values.dtype, device=values.device)
            entry.slices = keep(value_path(unit.expand(1, values.shape[1], -1, -1)))[0]
        if record.want_parts:
            entry.query, entry.keys, entry.values = keep(query), keep(keys), keep(values)
        if record.want_path and value_path is not None:
            entry.value_path = keep(value_path(values))
        record.seen.append(entry)


def point(name: str, hidden: Tensor, axis: str = "input") -> Tensor:
    """Pass states [B,T,D] through a named place, such as a block's output: `alter` changes them, `watch` records them.

    `axis` names the axis that the T states belong to, as in `Axes`.
    """
    hidden = altered(name, hidden)
    for record in watchers(name):
        if not record.want_hidden:
            continue
        record.hidden.setdefault(name, []).append(hidden if record.graph else hidden.detach())
        record.hidden_axes[name] = axis
    return hidden


def name_sites(model: nn.Module, prefix: str = "") -> None:
    """Give each attention site and block of a model the name it has in the module tree: `encoder.3.self`."""
    for name, module in model.named_modules():
        if name and isinstance(getattr(module, "site", None), str):
            module.site = prefix + name
