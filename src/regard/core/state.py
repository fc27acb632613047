"""A model's memory during generation: named tensors that are passed to the model and never kept on a module.

Unfinished outputs are **paths**. Each path has a slot and its own length, and a token's index in its slot is its
position, so there is no padding on the left. Tensors of a **source** (the encoder's output, the keys and values of
cross-attention) are held once per source, however many paths read from it. Key-value caches and recurrent states share
this one interface, so that paths can be forked and freed without knowing which model runs.

A model's step works on some of the paths, which `rows` describes:

    rows = state.rows(paths_N, counts_N, n_tokens)
    keys_NHKE = rows.extend("keys", new_NHTE)        # writes at each path's own positions, returns all keys so far
    memory_RHSE = rows.of_sources("memory")          # a row for each source that these paths read from
    rows.advance()                                   # the new tokens now belong to the paths
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.core.copies import copy_paths
from regard.core.errors import UnknownName
from regard.core.groups import Groups, as_index


@dataclass
class _Cell:
    """One tensor. `dim` is the axis that may grow, that of tokens or of a source's parts, or None if no axis grows.
    `lengths` are the lengths of the sources along `dim`."""

    buffer: Tensor
    dim: int | None = None
    lengths: list[int] = field(default_factory=list)


class State:
    """Room for `sources` sources and `paths` paths of `capacity` tokens. The capacity grows when it is exceeded."""

    def __init__(
        self, *, sources: int = 0, paths: int = 1, capacity: int = 32, device: torch.device | str | None = None
    ) -> None:
        self.capacity = capacity
        self.lengths_P = torch.zeros(paths, dtype=torch.long, device=device)
        """The number of tokens of each path."""
        self.source_P = torch.zeros(paths, dtype=torch.long, device=device)
        """The source that each path reads from."""
        self.n_sources = sources
        self.ahead = 0
        """The number of tokens past a path's length that are copied when it is forked: tokens read as a guess."""
        self._of_tokens: dict[str, _Cell] = {}
        self._of_paths: dict[str, _Cell] = {}
        self._of_sources: dict[str, _Cell] = {}
        self._latest_groups: tuple[list[int], Groups] | None = None
        self._spare: dict[tuple[torch.Size, torch.dtype], Tensor] = {}

    def rows(self, paths_N: Tensor, counts_N: Tensor, n_tokens: int) -> Rows:
        """These paths for one step in which each takes `counts_N` of `n_tokens` new tokens."""
        return Rows(self, paths_N, counts_N, n_tokens)

    def groups(self, paths_N: Tensor) -> Groups:
        """Which of these paths read from the same source."""
        sources = self.source_P[paths_N].tolist()
        if self._latest_groups is None or self._latest_groups[0] != sources:
            self._latest_groups = sources, Groups(sources, paths_N.device)
        return self._latest_groups[1]

    def put_sources(self, name: str, sources_R: Tensor, tensor: Tensor, *, dim: int | None = None) -> None:
        """Store a tensor for these sources. `dim` is the axis along which sources may differ in length."""
        index = as_index(sources_R)
        cell = self._of_sources.get(name)
        if cell is None:
            buffer = tensor.new_zeros(self.n_sources, *tensor.shape[1:])
            cell = self._of_sources[name] = _Cell(buffer, dim, [0] * self.n_sources)
        if dim is None:
            cell.buffer[index] = tensor
            return
        length = tensor.shape[dim]
        _lengthen(cell, length)
        cell.buffer.narrow(dim, length, cell.buffer.shape[dim] - length)[index] = 0
        cell.buffer.narrow(dim, 0, length)[index] = tensor
        for source in sources_R.tolist():
            cell.lengths[source] = length

    def fork(self, from_N: Tensor, to_N: Tensor) -> None:
        """Make path `to` a copy of path `from`. All paths are read before any is written."""
        n_paths, longest = len(self.lengths_P), min(int(self.lengths_P.max()) + self.ahead, self.capacity)
        if copy_paths([cell.buffer for cell in self._of_tokens.values()], from_N, to_N, longest):
            for cell in self._of_paths.values():
                cell.buffer.index_copy_(0, to_N, cell.buffer.index_select(0, from_N))
        elif 3 * len(to_N) > n_paths:  # one pass over all slots is then faster than copying some of them (measured)
            origin_P = torch.arange(n_paths, device=to_N.device).index_copy(0, to_N, from_N)
            for cell in self._of_paths.values():
                cell.buffer = cell.buffer.index_select(0, origin_P)
            for cell in self._of_tokens.values():
                self._copy_all(cell, origin_P, longest)
        else:
            written = [cell.buffer.narrow(2, 0, longest) for cell in self._of_tokens.values()]
            for part in (*written, *(cell.buffer for cell in self._of_paths.values())):
                part.index_copy_(0, to_N, part.index_select(0, from_N))
        self.lengths_P[to_N] = self.lengths_P[from_N]
        self.source_P[to_N] = self.source_P[from_N]

    def _copy_all(self, cell: _Cell, origin_P: Tensor, length: int) -> None:
        """Copy the first `length` tokens of path `origin_P[p]` to slot p of a second buffer, then swap the two buffers.
        Only tokens that have been written are copied."""
        key = cell.buffer.shape, cell.buffer.dtype
        spare = self._spare.pop(key, None)
        if spare is None:
            spare = torch.zeros_like(cell.buffer)
        torch.index_select(cell.buffer.narrow(2, 0, length), 0, origin_P, out=spare.narrow(2, 0, length))
        self._spare[key], cell.buffer = cell.buffer, spare

    def move_sources(self, from_N: Tensor, to_N: Tensor) -> None:
        """Make source `to` a copy of source `from`, and let the paths that read from `from` read from `to`."""
        pairs = list(zip(from_N.tolist(), to_N.tolist(), strict=True))
        for cell in self._of_sources.values():
            cell.buffer[to_N] = cell.buffer[from_N]
            before = list(cell.lengths)
            for old, new in pairs:
                cell.lengths[new] = before[old]
        moved = torch.arange(self.n_sources, device=from_N.device)
        moved[from_N] = to_N
        self.source_P = moved[self.source_P]

    def begin(self, paths_N: Tensor, sources_N: Tensor | None = None) -> None:
        """Begin empty paths that read from these sources."""
        self.free(paths_N)
        if sources_N is not None:
            self.source_P[paths_N] = sources_N

    def free(self, paths_N: Tensor) -> None:
        """Empty these slots."""
        self.lengths_P[paths_N] = 0

    def grow(self, capacity: int) -> None:
        """Make room for paths of `capacity` tokens."""
        if capacity > self.capacity:
            self.capacity = max(capacity, 2 * self.capacity)
            for cell in self._of_tokens.values():
                _lengthen(cell, self.capacity)


class Rows:
    """Some paths during one step: row n is path `paths_N[n]`, whose new tokens begin at position `starts_N[n]`.

    Of the T new tokens of a row the first `counts_N` are real. Results for the others, the padding, are never used.
    """

    def __init__(self, state: State, paths_N: Tensor, counts_N: Tensor, n_tokens: int) -> None:
        self._index = as_index(paths_N)
        self.state, self.paths_N, self.counts_N = state, paths_N, counts_N
        self.n_tokens, self._prefix = n_tokens, ""
        self._known_places: dict[tuple[int, int], Tensor] = {}
        self.starts_N = state.lengths_P[paths_N]
        starts, counts = self.starts_N.tolist(), counts_N.tolist()
        self.uniform_start: int | None = starts[0] if len(set(starts)) == 1 and set(counts) == {n_tokens} else None
        """The position of the first new token, if it is the same in all rows and no row has padding; otherwise None."""
        self.n_keys = max(starts) + n_tokens
        state.grow(self.n_keys)

    def sub(self, prefix: str) -> Rows:
        """The same rows with names under a prefix."""
        view = object.__new__(Rows)
        view.__dict__ = {**self.__dict__, "_prefix": f"{self._prefix}{prefix}."}
        return view

    @property
    def positions_NT(self) -> Tensor:
        """The position of each new token. Padding gets the position of the row's last real token."""
        if self.n_tokens == 1:
            return self.starts_N[:, None]
        steps_T = torch.arange(self.n_tokens, device=self.starts_N.device)
        return self.starts_N[:, None] + torch.minimum(steps_T, self.counts_N[:, None] - 1)

    def extend(self, name: str, new_NHTE: Tensor) -> Tensor:
        """Write the entries of the new tokens, return all entries so far [N,H,K,E]; K is the longest row's length."""
        buffer = self.room(name, *new_NHTE.shape[1::2], like=new_NHTE)
        if self.uniform_start is not None:
            buffer[self._index, :, self.uniform_start : self.n_keys] = new_NHTE
        else:
            buffer.view(-1, buffer.shape[-1]).index_copy_(0, self._places(buffer), new_NHTE.flatten(0, 2))
        return buffer[self._index, :, : self.n_keys]

    def room(self, name: str, heads: int, width: int, *, like: Tensor) -> Tensor:
        """The memory [P,H,C,E] of all slots, with room for the new tokens, for callers that write to it themselves."""
        cell = self.state._of_tokens.get(self._prefix + name)
        if cell is None:
            shape = len(self.state.lengths_P), heads, self.state.capacity, width
            cell = self.state._of_tokens[self._prefix + name] = _Cell(like.new_zeros(shape), dim=2)
        return cell.buffer

    def _places(self, buffer: Tensor) -> Tensor:
        """Where the new tokens go in a buffer [P,H,K,E], as indices [N·H·T] into its flattened first three axes. All
        layers of a model share them."""
        heads, length = buffer.shape[1:3]
        if (heads, length) not in self._known_places:
            # Padding is written past the row's end, where the next tokens will overwrite it.
            steps_T, heads_H = (torch.arange(n, device=buffer.device) for n in (self.n_tokens, heads))
            heads_NH = self.paths_N[:, None] * heads + heads_H
            places_NHT = (heads_NH * length + self.starts_N[:, None])[..., None] + steps_T
            self._known_places[heads, length] = places_NHT.flatten()
        return self._known_places[heads, length]

    def get(self, name: str, first: Tensor) -> Tensor:
        """The tensor stored under a name for these paths [N,…]; empty paths get `first` [N,…] instead."""
        cell = self.state._of_paths.get(self._prefix + name)
        if cell is None:
            return first
        new_N = (self.starts_N == 0).view(-1, *[1] * (first.dim() - 1))
        return torch.where(new_N, first, cell.buffer[self._index])

    def pick(self, name: str, place_N: Tensor) -> Tensor:
        """From the tensor stored under a name for these paths [N,X,…], the entry at each path's place [N,…]."""
        return self.state._of_paths[self._prefix + name].buffer[self.paths_N, place_N]

    def put(self, name: str, tensor: Tensor) -> None:
        """Store a tensor [N,…] under a name for these paths."""
        cell = self.state._of_paths.get(self._prefix + name)
        if cell is None:
            shape = len(self.state.lengths_P), *tensor.shape[1:]
            cell = self.state._of_paths[self._prefix + name] = _Cell(tensor.new_zeros(shape))
        cell.buffer[self._index] = tensor

    @functools.cached_property
    def groups(self) -> Groups:
        """Which of these paths read from the same source."""
        return self.state.groups(self.paths_N)

    def of_sources(self, name: str) -> Tensor:
        """The tensor of the sources of these paths [R,…], cut to the length of the longest of these sources."""
        return self.source_room(name)[self.groups.index]

    def source_buffer(self, name: str) -> Tensor:
        """The memory of all sources, for callers that know its layout."""
        return self.state._of_sources[name].buffer

    def source_room(self, name: str) -> Tensor:
        """The memory of all sources, cut to the length of the longest source that these paths read from."""
        cell = self.state._of_sources.get(name)
        if cell is None:
            raise UnknownName("tensor of the sources", name, self.state._of_sources)
        if cell.dim is None:
            return cell.buffer
        return cell.buffer.narrow(cell.dim, 0, max(cell.lengths[source] for source in self.groups.sources))

    def last(self, x_NTD: Tensor) -> Tensor:
        """The vector of each row's last real token [N,D]."""
        if self.uniform_start is not None or self.n_tokens == 1:
            return x_NTD[:, -1]
        return x_NTD[torch.arange(len(x_NTD), device=x_NTD.device), self.counts_N - 1]

    def advance(self) -> None:
        """Make the new tokens part of the paths."""
        self.state.lengths_P[self.paths_N] = self.starts_N + self.counts_N


def _lengthen(cell: _Cell, length: int) -> None:
    """Make room along the cell's axis, filled with zeros: masked memory that was never written must not be NaN."""
    assert cell.dim is not None
    if length > cell.buffer.shape[cell.dim]:
        shape = list(cell.buffer.shape)
        shape[cell.dim] = length
        grown = cell.buffer.new_zeros(shape)
        grown.narrow(cell.dim, 0, cell.buffer.shape[cell.dim]).copy_(cell.buffer)
        cell.buffer = grown
