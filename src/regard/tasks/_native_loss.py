"""`loss.c` for torch's tensors: the loss and the gradient of logits in one visit, where this machine has a compiler."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core import native

_SOURCE = Path(__file__).with_name("loss.c")
Lose = Callable[[Tensor, Tensor, float, Tensor | None], Tensor]


def native_loss(dtype: torch.dtype, device: torch.device) -> Lose | None:
    """A function (logits [N,V], labels [N], smoothing, bias) → summed loss, which overwrites the logits by the
    gradient; None for other types and devices, and without a compiler."""
    if device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16):
        return None
    library = _library()
    return None if library is None else functools.partial(_lose, library)


@functools.cache
def _library() -> ctypes.CDLL | None:
    library = native.library(_SOURCE)
    if isinstance(library, native.Missing):
        return None
    number, place = ctypes.c_int64, ctypes.c_void_p
    every = (place, number, number, place, ctypes.c_float, place, place)
    for name, types in {"softmax_loss_float": every, "softmax_loss_low": (*every, place, number)}.items():
        function: Any = getattr(library, name)
        function.argtypes, function.restype = types, None
    return library


def _lose(library: ctypes.CDLL, logits: Tensor, labels: Tensor, smoothing: float, bias: Tensor | None) -> Tensor:
    assert logits.is_contiguous()
    rows, vocab = logits.shape
    if rows and not (int(labels.min()) >= 0 and int(labels.max()) < vocab):
        raise IndexError(f"labels from {int(labels.min())} to {int(labels.max())}, but there are {vocab} logits")
    losses = torch.empty(rows)
    labels = labels.contiguous()
    added = None if bias is None else bias.detach().float().contiguous()
    places = (
        *(logits.data_ptr(), rows, vocab, labels.data_ptr(), smoothing),
        *(None if added is None else added.data_ptr(), losses.data_ptr()),
    )
    if logits.dtype == torch.float32:
        library.softmax_loss_float(*places)
    else:
        threads = torch.get_num_threads()
        room = torch.empty(threads * vocab)
        library.softmax_loss_low(*places, room.data_ptr(), threads)
    return losses.sum()
