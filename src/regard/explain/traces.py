"""The record of one run, in the same form for every model: tokens, attention sites, hidden states, answers.

A trace is saved as one safetensors file, with everything but tensors in its header. It is read without the model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.core import weights
from regard.core.errors import DataError, UnknownName, UsageError
from regard.explain.subject import Subject
from regard.explain.trace_checks import check_trace

FORMAT = "regard.trace"
_PARTS = ("weights", "allowed", "path", "frame", "gradients", "rows", "calls")


@dataclass(frozen=True)
class Site:
    """One attention site: weights [B,H,Q,K] and, if requested, the factors of T and gradients.

    `queries` and `keys` name what its axes are. The queries of several calls are joined in order.
    """

    name: str
    queries: str
    keys: str
    weights: Tensor | None = None
    allowed: Tensor | None = None
    """What each query may see, broadcastable to [B,H,Q,K]; None: everything."""
    path: Tensor | None = None
    frame: Tensor | None = None
    gradients: Tensor | None = None
    """∂score/∂weights [B,H,Q,K]."""
    rows: Tensor | None = None
    """The input of each row [B], if one input has several rows; None: row b is input b."""
    calls: Tensor | None = None
    """The call of each query [Q], if the values differ between calls; then each call has its own T [B,H,C,…]."""

    @property
    def value_path(self) -> Tensor:
        """T [B,H,K,D], or [B,H,C,K,D] if each of C calls has its own."""
        if self.path is None:
            raise UsageError(f"T of {self.name} was not recorded", remedy="Trace with value_path=True.")
        return self.path if self.frame is None else self.path @ self.frame


@dataclass(frozen=True, eq=False)
class Look:
    """One site for one input: tensors without a batch axis and without padding."""

    trace: Trace
    site: Site
    place: int
    """The row of the site's tensors."""
    name: str

    @property
    def queries(self) -> list[str]:
        return self._labels(self.site.queries, 2)

    @property
    def keys(self) -> list[str]:
        return self._labels(self.site.keys, 3)

    @property
    def weights(self) -> Tensor:
        """[H,Q,K]."""
        assert self.site.weights is not None
        return self.real(self.site.weights)

    @property
    def allowed(self) -> Tensor | None:
        """What each query may see [1 or H,Q,K]; None: everything."""
        allowed, weights = self.site.allowed, self.site.weights
        if allowed is None or weights is None:
            return None
        return self.real(allowed.expand(len(weights), -1, -1, -1))

    def real(self, tensor: Tensor) -> Tensor:
        """This row of a tensor [B,H,Q,K]."""
        return tensor[self.place, :, : len(self.queries), : len(self.keys)]

    def _labels(self, side: str, axis: int) -> list[str]:
        """The labels that the subject gave; numbers without them."""
        if side in self.trace.sides:
            return self.trace.sides[side][self.place]
        assert self.site.weights is not None
        return [str(number) for number in range(self.site.weights.shape[axis])]


@dataclass(frozen=True)
class Trace:
    """What one run did. `trace["encoder.3.self"]` is a site; `hidden` is in the order of layers."""

    model: str
    task: str
    sides: dict[str, list[list[str]]]
    sites: dict[str, Site] = field(default_factory=dict)
    hidden: dict[str, Tensor] = field(default_factory=dict)
    ids: dict[str, Tensor] = field(default_factory=dict)
    output: dict[str, Any] = field(default_factory=dict)
    grids: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Rows and columns of patches, for sides that are images."""
    axes: dict[str, str] = field(default_factory=dict)
    """The side of each entry of `hidden`."""
    texts: list[str] = field(default_factory=list)
    """Each row's text before it became tokens; empty for images, and in files written without texts."""
    subject: Subject | None = field(default=None, repr=False, compare=False)
    """The model and its inputs, for methods that run it again; None in a trace read from a file."""

    def __getitem__(self, site: str) -> Site:
        if site not in self.sites:
            raise UnknownName("attention site", site, self.sites)
        return self.sites[site]

    @property
    def rows(self) -> int:
        return len(next(iter(self.sides.values())))

    def labels(self, side: str, row: int = 0) -> list[str]:
        self.check_row(row)
        return self.sides[side][row]

    def looks(self, site: str, row: int = 0) -> list[Look]:
        """What a site did for one input: one look, or several if an input has several rows."""
        self.check_row(row)
        recorded = self[site]
        if recorded.weights is None:
            raise UsageError(f"the weights of {site} were not recorded", remedy="Trace with weights=True.")
        if recorded.rows is None:
            return [Look(self, recorded, row, site)]
        places = (recorded.rows == row).nonzero().flatten().tolist()
        return [Look(self, recorded, place, f"{site}[{number}]") for number, place in enumerate(places)]

    def heads(self, site: str, row: int = 0) -> Tensor:
        """The weights of one row [H,Q,K] without padding."""
        looks = self.looks(site, row)
        if len(looks) != 1:
            raise UsageError(f"{site} has {len(looks)} rows for this input", remedy=f"Use trace.looks({site!r}).")
        return looks[0].weights

    def layers(self, side: str | None = None) -> list[str]:
        """Names of hidden states after the input, in order; optionally of one side (`encoder`, `decoder`)."""
        return [
            name for name in self.hidden if not name.endswith(".input") and (side is None or name.split(".")[0] == side)
        ]

    def side_of(self, name: str) -> str:
        """The side that a layer's hidden states belong to."""
        return self.axes.get(name) or next(iter(self.sides))

    def states(self, name: str) -> Tensor:
        if name not in self.hidden:
            raise UnknownName("layer", name, self.hidden)
        return self.hidden[name]

    def live(self) -> Subject:
        """The subject, for methods that must run the model."""
        if self.subject is None:
            raise UsageError(
                "this method runs the model again, which is not possible with a trace from a file",
                remedy="Give the model and the text instead of the file.",
            )
        return self.subject

    def save(self, path: str | Path) -> None:
        """Write one file with this name; read it with `Trace.load`."""
        if Path(path).suffix != ".trace":
            raise UsageError("the name of a trace must end in .trace", got=str(path))
        if not Path(path).parent.is_dir():
            raise UsageError(f"there is no folder {Path(path).parent}", remedy="Create it first.")
        tensors = {f"hidden.{name}": tensor for name, tensor in self.hidden.items()}
        tensors |= {f"ids.{side}": tensor for side, tensor in self.ids.items()}
        for site in self.sites.values():
            for part in _PARTS:
                if (tensor := getattr(site, part)) is not None:
                    tensors[f"site.{site.name}.{part}"] = tensor
        words = {
            "format": FORMAT, "version": 2, "model": self.model, "task": self.task, "sides": self.sides,
            "output": self.output, "grids": self.grids, "hidden": list(self.hidden), "axes": self.axes,
            "texts": self.texts,
            "sites": [[site.name, site.queries, site.keys] for site in self.sites.values()],
        }  # fmt: skip
        weights.write(path, tensors, metadata={FORMAT: json.dumps(words, ensure_ascii=False)})

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a saved trace."""
        if not Path(path).is_file():
            raise DataError(f"there is no file {path}")
        tensors, notes = weights.read_tensors(path), weights.metadata(path)
        if FORMAT not in notes:
            raise DataError(f"{path} is not a trace", remedy="Make one: regard explain MODEL TEXT --out NAME.trace")
        try:
            return cls._from(json.loads(notes[FORMAT]), tensors, path)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, DataError):
                raise
            remedy = "Make it again: regard explain MODEL TEXT --out NAME.trace"
            raise DataError(
                f"{path} is a damaged trace", got=str(error) or type(error).__name__, remedy=remedy
            ) from None

    @classmethod
    def _from(cls, words: dict[str, Any], tensors: dict[str, Tensor], path: str | Path) -> Trace:
        if words.get("version") not in (1, 2):
            raise DataError(f"{path} is a trace of another version", got=words.get("version"), expected="1 or 2")
        if words["version"] == 1:
            words = _as_version_2(words)
        check_trace(words, tensors)
        sites = {
            name: Site(name, queries, keys, *(tensors.get(f"site.{name}.{part}") for part in _PARTS))
            for name, queries, keys in words["sites"]
        }
        return cls(
            words["model"],
            words["task"],
            words["sides"],
            sites,
            {name: tensors[f"hidden.{name}"] for name in words["hidden"]},
            {name.removeprefix("ids."): tensor for name, tensor in tensors.items() if name.startswith("ids.")},
            words["output"],
            {side: (grid[0], grid[1]) for side, grid in words["grids"].items()},
            words["axes"],
            words.get("texts", []),
        )

    def check_row(self, row: int) -> None:
        """Raise an error if there is no such row."""
        if not 0 <= row < self.rows:
            raise UsageError("no such row", got=row, expected=f"0 to {self.rows - 1}" if self.rows > 1 else 0)

    def _repr_html_(self) -> str:
        from regard.explain.methods.maps import maps

        return maps(self)._repr_html_()


def _as_version_2(words: dict[str, Any]) -> dict[str, Any]:
    """Traces of the first version did not store the side of hidden states; their names give it."""
    sides = words["sides"]
    only = next(iter(sides)) if len(sides) == 1 else None
    axes = {name: only or ("source" if name.startswith("encoder") else "prefix") for name in words["hidden"]}
    return {**words, "axes": axes, "grids": {only: words["grid"]} if words["grid"] and only else {}}
