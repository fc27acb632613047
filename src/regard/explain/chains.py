"""Chains of operations between two positions, counted in the graph that autograd records.

The longest chain from a layer's last output back to its first input is the number of operations that must run one after
another: no number of processors makes it shorter. The shortest chain is how far a signal, or a gradient, must travel
between the two positions that are furthest apart (Vaswani et al. 2017, table 1: sequential operations, maximum path
length).
An operation on a whole matrix counts as one, since its parts can run at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from regard.views.result import Table

Layer = Callable[[list[Tensor]], list[Tensor]]
"""From the vector of each position to the output at each position."""
_CELLS: dict[str, Callable[[int, int], nn.RNNCellBase]] = {"elman": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}


def chain_lengths(layer: Layer, n: int, d_model: int, *, start: int = -1, end: int = 0) -> tuple[int, int]:
    """Operations in the longest and in the shortest chain from the output at `start` to the input at `end`.

    Both are 0 if there is no such chain."""
    with torch.enable_grad():
        words = [torch.randn(d_model, requires_grad=True) for _ in range(n)]
        node = layer(words)[start].grad_fn
    longest = shortest = now = 0
    front: set[Any] = {node}
    while front:
        front, now = {further for each in front for further, _ in each.next_functions if further is not None}, now + 1
        if any(getattr(each, "variable", None) is words[end] for each in front):
            longest, shortest = now, shortest or now
    return longest, shortest


def usual_layers(d_model: int) -> dict[str, Layer]:
    """Attention, and recurrent networks written out step by step: a library call would count as one operation."""
    layers: dict[str, Layer] = {"explicit attention": _explicit, "fused attention": _fused}
    for name, kind in _CELLS.items():
        layers[name] = _unrolled(kind(d_model, d_model), name == "lstm")
    return layers


def _explicit(words: list[Tensor]) -> list[Tensor]:
    x_TD = torch.stack(words)
    return list(((x_TD @ x_TD.T / math.sqrt(x_TD.shape[1])).softmax(-1) @ x_TD).unbind())


def _fused(words: list[Tensor]) -> list[Tensor]:
    x_BHTD = torch.stack(words)[None, None]
    return list(scaled_dot_product_attention(x_BHTD, x_BHTD, x_BHTD)[0, 0].unbind())


def _unrolled(cell: nn.RNNCellBase, remembers_cell: bool) -> Layer:
    def run(words: list[Tensor]) -> list[Tensor]:
        state: Any = None
        outputs = []
        for word in words:
            state = cell(word, state)
            outputs.append(state[0] if remembers_cell else state)
        return outputs

    return run


def chain_table(lengths: list[int], chains: dict[str, list[tuple[int, int]]]) -> Table:
    """Both chains at the first and the last of the lengths, and how they grow."""
    first, last = lengths[0], lengths[-1]
    columns = ["layer", f"steps at {first}", f"at {last}", "grow as", f"path at {first}", f"at {last} ", "grows as"]
    rows: list[list[str | float | int | None]] = []
    for name, by_length in chains.items():
        row: list[str | float | int | None] = [name]
        for which in (0, 1):
            ends = by_length[0][which], by_length[-1][which]
            row += [*ends, order(lengths, ends)]
        rows.append(row)
    note = "steps: operations one after another; path: operations between the two positions that are furthest apart"
    return Table("Sequential steps and path length", columns, rows, note)


def order(lengths: list[int], ends: tuple[int, int]) -> str:
    """How a count grows from the first to the last length: O(1), O(n), or its power of n."""
    power = math.log(ends[1] / ends[0]) / math.log(lengths[-1] / lengths[0])
    return "O(1)" if ends[0] == ends[1] else "O(n)" if round(power, 1) == 1 else f"n^{power:.2f}"


def chain_statement(lengths: list[int], chains: dict[str, list[tuple[int, int]]]) -> str:
    """One sentence: which layers need more steps for a longer input, and which do not."""
    first, last = lengths[0], lengths[-1]
    groups = []
    for kind in dict.fromkeys(order(lengths, (ways[0][0], ways[-1][0])) for ways in chains.values()):
        alike = {name: ways for name, ways in chains.items() if order(lengths, (ways[0][0], ways[-1][0])) == kind}
        counts = ", ".join(f"{name} {ways[0][0]} and {ways[-1][0]}" for name, ways in alike.items())
        groups.append(f"{kind}: {counts}")
    return f"Operations one after another at n = {first} and n = {last}: {'; '.join(groups)}."
