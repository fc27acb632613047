"""Reversible tables between our parameter names and those of another format.

A table is a list of rules, and each rule works both ways, so the reader and the writer of a format cannot disagree.
In a pattern, a placeholder of one letter (`{i}`) matches digits and a longer one (`{part}`) matches a word without a
dot. The matched text on one side is filled in on the other side. All problems are reported together: names that match
no rule or two rules, two names that map to one name, incomplete packs, and wrong shapes.

Memory: renamed tensors are the same objects; transposed tensors and parts of a pack are views. So memory-mapped weights
stay mapped and no tensor is held twice. Matrix products are as fast with a transposed matrix.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.core.errors import UsageError, WeightsError
from regard.core.weights import brief

Names = tuple[str, ...]
Tensors = Sequence[Tensor]
_Way = tuple[Names, Names, Callable[[Tensors], Tensors]]  # a rule in one direction: from, to, how
_Use = tuple[int, tuple[tuple[str, str], ...]]  # the index of a rule, and the values of its placeholders
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Rule(Protocol):
    """One kind of correspondence. Tensors are passed and returned in the order of the patterns."""

    def names(self) -> tuple[Names, Names]:
        """The patterns of our names, and the matching patterns of theirs."""

    def to_ours(self, theirs: Tensors) -> Tensors:
        """Their tensors as ours. Raises a `WeightsError` if they cannot be converted; the map adds their names."""

    def to_theirs(self, ours: Tensors) -> Tensors:
        """Our tensors as theirs."""


@dataclass(frozen=True)
class Rename:
    """The same tensor under another name."""

    ours: str
    theirs: str

    def names(self) -> tuple[Names, Names]:
        return (self.ours,), (self.theirs,)

    def to_ours(self, theirs: Tensors) -> Tensors:
        return theirs

    def to_theirs(self, ours: Tensors) -> Tensors:
        return ours


@dataclass(frozen=True)
class Transpose(Rename):
    """A matrix that the other format stores input × output, as GPT-2 does; ours is output × input."""

    def to_ours(self, theirs: Tensors) -> Tensors:
        return [_transposed(tensor) for tensor in theirs]

    def to_theirs(self, ours: Tensors) -> Tensors:
        return [_transposed(tensor) for tensor in ours]


@dataclass(frozen=True)
class Row(Rename):
    """A vector that the other format stores as a matrix of one row."""

    def to_ours(self, theirs: Tensors) -> Tensors:
        if bad := [tensor for tensor in theirs if tensor.ndim != 2 or len(tensor) != 1]:
            raise WeightsError("is not a single row", got=f"shape {list(bad[0].shape)}", expected="[1, n]")
        return [tensor[0] for tensor in theirs]

    def to_theirs(self, ours: Tensors) -> Tensors:
        return [tensor[None] for tensor in ours]


@dataclass(frozen=True)
class Pack:
    """Several tensors of ours that are one tensor of theirs, joined along `dim` and then optionally transposed.
    The parts are of equal size unless `parts` gives their sizes, as grouped-query attention needs.
    """

    ours: Sequence[str]
    theirs: str
    dim: int = 0
    transpose: bool = False
    parts: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.dim < 0 or (self.parts is not None and len(self.parts) != len(self.ours)):
            raise UsageError("a pack needs dim ≥ 0 and as many sizes as names", got=repr(self))

    def names(self) -> tuple[Names, Names]:
        return tuple(self.ours), (self.theirs,)

    def to_ours(self, theirs: Tensors) -> Tensors:
        packed = _transposed(theirs[0]) if self.transpose else theirs[0]
        parts = self._sizes((length := self._length(packed)) // len(self.ours))
        if sum(parts) != length:
            raise WeightsError(f"cannot be split along dim {self.dim}", got=length, expected=f"the sum of {parts}")
        return packed.split(parts, self.dim)

    def to_theirs(self, ours: Tensors) -> Tensors:
        lengths = [self._length(tensor) for tensor in ours]
        kinds = {(tensor.dtype, *tensor.shape[: self.dim], *tensor.shape[self.dim + 1 :]) for tensor in ours}
        if lengths != (expected := self._sizes(lengths[0])) or len(kinds) > 1:
            got = ", ".join(f"{tensor.dtype} {list(tensor.shape)}" for tensor in ours)
            raise WeightsError("cannot be packed", got=got, expected=f"lengths {expected} and one type")
        packed = torch.cat(list(ours), self.dim)
        return [_transposed(packed) if self.transpose else packed]

    def _sizes(self, each: int) -> list[int]:
        return [each] * len(self.ours) if self.parts is None else list(self.parts)

    def _length(self, tensor: Tensor) -> int:
        if tensor.ndim <= self.dim:
            raise WeightsError("has too few dimensions", got=f"shape {list(tensor.shape)}", expected=f"dim {self.dim}")
        return tensor.shape[self.dim]


@dataclass(frozen=True)
class Copies:
    """One tensor of ours that the other format stores under several names; reading takes the first."""

    ours: str
    theirs: Sequence[str]

    def names(self) -> tuple[Names, Names]:
        return (self.ours,), tuple(self.theirs)

    def to_ours(self, theirs: Tensors) -> Tensors:
        return theirs[:1]

    def to_theirs(self, ours: Tensors) -> Tensors:
        return [ours[0], *(ours[0].clone() for _ in self.theirs[1:])]


@dataclass(frozen=True)
class Drop:
    """Buffers of the other format that hold no weights. They are ignored when reading and never written."""

    theirs: str

    def names(self) -> tuple[Names, Names]:
        return (), (self.theirs,)

    def to_ours(self, theirs: Tensors) -> Tensors:
        return ()

    def to_theirs(self, ours: Tensors) -> Tensors:
        return ()


class KeyMap:
    """The table of a format. It uses rules through their protocol only, so a new kind of rule is a new class."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        for ours, theirs in (rule.names() for rule in self.rules):
            if ours and theirs and len({frozenset(_PLACEHOLDER.findall(name)) for name in (*ours, *theirs)}) > 1:
                raise UsageError("a rule needs the same placeholders on both sides", got=f"{ours} and {theirs}")

    def to_ours(self, tensors: Mapping[str, Tensor], *, unknown: list[str] | None = None) -> dict[str, Tensor]:
        """Tensors by their names → by ours. Names that match no rule are added to the list `unknown`; without this
        list they are an error."""
        ways = [(rule.names()[1], rule.names()[0], rule.to_ours) for rule in self.rules]
        return _convert(ways, tensors, unknown)

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by our names → by theirs."""
        return _convert([(*rule.names(), rule.to_theirs) for rule in self.rules], tensors)


def _convert(
    ways: Sequence[_Way], tensors: Mapping[str, Tensor], unknown: list[str] | None = None
) -> dict[str, Tensor]:
    groups, problems = _groups(ways, tensors)
    if unknown is not None:
        unknown += problems.pop("matched by no rule", [])
    origins: defaultdict[str, list[str]] = defaultdict(list)
    result: dict[str, Tensor] = {}
    for (index, values), members in groups.items():
        *patterns, convert = ways[index]
        sources, targets = ([name.format(**dict(values)) for name in side] for side in patterns)
        if lacking := [name for name in sources if name not in members]:
            problems["incomplete"].append(f"{', '.join(members)} without {', '.join(lacking)}")
            continue
        for target in targets:
            origins[target].append(", ".join(sources))
        try:
            result.update(zip(targets, convert([tensors[name] for name in sources]), strict=True))
        except WeightsError as error:
            problems["unfit"].append(f"{', '.join(sources)} {error}")
    problems["same new name"] += [f"{' and '.join(names)} → {name}" for name, names in origins.items() if names[1:]]
    if faults := [f"{kind}: {brief(names)}" for kind, names in problems.items() if names]:
        raise WeightsError(f"the names do not fit the key map: {'; '.join(faults)}")
    return result


def _groups(ways: Sequence[_Way], names: Iterable[str]) -> tuple[dict[_Use, list[str]], defaultdict[str, list[str]]]:
    """The names grouped by the use of a rule that converts them together, and the names that match no or two rules."""
    groups: defaultdict[_Use, list[str]] = defaultdict(list)
    problems: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        matches = [(index, _regex(source).fullmatch(name)) for index, way in enumerate(ways) for source in way[0]]
        uses = [(index, tuple(sorted(match.groupdict().items()))) for index, match in matches if match]
        if len(uses) == 1:
            groups[uses[0]].append(name)
        else:
            problems["matched by two rules" if uses else "matched by no rule"].append(name)
    return groups, problems


@functools.cache
def _regex(pattern: str) -> re.Pattern[str]:
    digits = re.sub(r"\\\{(\w)\\\}", r"(?P<\1>[0-9]+)", re.escape(pattern))
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^.]+)", digits))


def _transposed(tensor: Tensor) -> Tensor:
    if tensor.ndim != 2:
        raise WeightsError("cannot be transposed", got=f"shape {list(tensor.shape)}", expected="a matrix")
    return tensor.t()
