"""Checkpoints of llama2.c: 28 bytes of header, then float32 tensors, then (in its web build) the tokenizer.

    header     dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len    int32, little-endian
    tensors    embedding; for all layers at once: attention norm, wq, wk, wv, wo, feed-forward norm, w1, w2, w3;
               last norm; cos and sin of the rotary positions, which are not needed; output unless shared

A negative vocab_size means that the output has its own matrix. Rotary pairs are neighbours there and halves here, so
the rows of wq and wk are reordered within each head, which changes no score.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import WeightsError

_HEADER = struct.Struct("<7i")
_MOST, _MOST_LAYERS = 1 << 24, 1000


@dataclass(frozen=True)
class Checkpoint:
    options: dict[str, Any]
    tensors: dict[str, Tensor]
    rest: bytes
    """The bytes after the tensors: empty, or a tokenizer."""


def is_checkpoint(path: Path) -> bool:
    """Whether the file begins with a plausible header and is long enough for it."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER.size)
        return len(head) == _HEADER.size and path.stat().st_size >= _size(_HEADER.unpack(head))
    except (OSError, WeightsError):
        return False


def read_llama2c(path: Path) -> Checkpoint:
    """Read the checkpoint; tensors that need no change are mapped from the file."""
    try:
        with open(path, "rb") as file:
            numbers = _HEADER.unpack(file.read(_HEADER.size))
        size = _size(numbers)
        data = np.memmap(path, dtype=np.uint8, mode="c")
    except (OSError, struct.error, ValueError) as error:
        raise WeightsError(f"{path} is not a llama2.c checkpoint", got=error) from error
    if len(data) < size:
        raise WeightsError(f"{path} is cut short", got=f"{len(data)} bytes", expected=f"{size} bytes")
    dim, hidden, layers, heads, kv_heads, vocab, length = numbers
    options = {
        "vocab_size": abs(vocab), "max_len": length, "d_model": dim, "n_layers": layers, "n_heads": heads,
        "n_kv_heads": kv_heads, "d_ff": hidden, "eps": 1e-5, "tie": vocab > 0,
    }  # fmt: skip
    tensors = torch.from_numpy(data[_HEADER.size : size].view(np.float32))
    return Checkpoint(options, _named(tensors, numbers), data[size:].tobytes())


def _shapes(numbers: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
    dim, hidden, layers, heads, kv_heads, vocab, length = numbers
    width = dim // heads
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("embedding.weight", (abs(vocab), dim)),
        ("around_self.norm.weight", (layers, dim)),
        ("self.query.weight", (layers, dim, dim)),
        ("self.key.weight", (layers, kv_heads * width, dim)),
        ("self.value.weight", (layers, kv_heads * width, dim)),
        ("self.output.weight", (layers, dim, dim)),
        ("around_feedforward.norm.weight", (layers, dim)),
        ("feedforward.gate.weight", (layers, hidden, dim)),
        ("feedforward.down.weight", (layers, dim, hidden)),
        ("feedforward.up.weight", (layers, hidden, dim)),
        ("norm.weight", (dim,)),
        ("", (2, length, width // 2)),
    ]
    return [*shapes, *([("output.weight", (-vocab, dim))] if vocab < 0 else [])]


def _size(numbers: tuple[int, ...]) -> int:
    dim, hidden, layers, heads, kv_heads, vocab, length = numbers
    sound = all(0 < n < _MOST for n in (dim, hidden, layers, heads, kv_heads, length, abs(vocab)))
    # Rotary positions rotate pairs of a head's features, so a head's width is even.
    if not sound or layers > _MOST_LAYERS or dim % (2 * heads) or heads % kv_heads:
        raise WeightsError("this is not a llama2.c header", got=numbers)
    return _HEADER.size + 4 * sum(int(np.prod(shape, dtype=object)) for _, shape in _shapes(numbers))


def _named(flat: Tensor, numbers: tuple[int, ...]) -> dict[str, Tensor]:
    tensors, start, layers = dict[str, Tensor](), 0, numbers[2]
    width = numbers[0] // numbers[3]
    for name, shape in _shapes(numbers):
        count = int(np.prod(shape))
        tensor, start = flat[start : start + count].view(shape), start + count
        if name.startswith(("self.", "around_", "feedforward.")):
            turned = name in ("self.query.weight", "self.key.weight")
            for layer in range(layers):
                tensors[f"decoder.{layer}.{name}"] = _halves(tensor[layer], width) if turned else tensor[layer]
        elif name:
            tensors[name] = tensor
    return tensors


def _halves(weight: Tensor, width: int) -> Tensor:
    """Reorder rows 0, 1, 2, 3, … of each head to 0, 2, 4, …, 1, 3, 5, …"""
    return weight.view(-1, width // 2, 2, weight.shape[1]).transpose(1, 2).reshape_as(weight)
