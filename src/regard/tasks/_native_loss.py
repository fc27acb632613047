"""`loss.c` for torch tensors: the loss and the gradient of logits, row by row, if this machine has a compiler."""

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
Agree = Callable[[Tensor, Tensor, Tensor, float, Tensor | None, float], Tensor]


def native_loss(dtype: torch.dtype, device: torch.device) -> Lose | None:
    """A function (logits [N,V], labels [N], smoothing, bias) → summed loss, which overwrites the logits with the
    gradient; None for other types and devices, and without a compiler."""
    library = _library() if _fits(dtype, device) else None
    return None if library is None else functools.partial(_lose, library)


def native_agreement(dtype: torch.dtype, device: torch.device) -> Agree | None:
    """The same for two passes: (logits [N,V], logits [N,V], labels [N], smoothing, bias, strength) → summed loss of
    R-Drop, which overwrites both."""
    library = _library() if _fits(dtype, device) else None
    return None if library is None else functools.partial(_agree, library)


def _fits(dtype: torch.dtype, device: torch.device) -> bool:
    return device.type == "cpu" and dtype in (torch.float32, torch.bfloat16)


@functools.cache
def _library() -> ctypes.CDLL | None:
    library = native.library(_SOURCE)
    if isinstance(library, native.Missing):
        return None
    number, place = ctypes.c_int64, ctypes.c_void_p
    every = (place, number, number, place, ctypes.c_float, place, place)
    both = (place, place, number, number, place, ctypes.c_float, place, ctypes.c_float, place, place, number)
    signatures = {
        **{"softmax_loss_float": every, "softmax_loss_low": (*every, place, number)},
        **{"agreement_float": both, "agreement_low": both},
    }
    for name, types in signatures.items():
        function: Any = getattr(library, name)
        function.argtypes, function.restype = types, None
    return library


def _lose(library: ctypes.CDLL, logits: Tensor, labels: Tensor, smoothing: float, bias: Tensor | None) -> Tensor:
    rows, vocab = logits.shape
    labels, added, losses = _checked(labels, vocab), _added(bias), torch.empty(rows)
    assert logits.is_contiguous()
    places = logits.data_ptr(), rows, vocab, labels.data_ptr(), smoothing, _place(added), losses.data_ptr()
    if logits.dtype == torch.float32:
        library.softmax_loss_float(*places)
    else:
        threads = torch.get_num_threads()
        room = torch.empty(threads * vocab)
        library.softmax_loss_low(*places, room.data_ptr(), threads)
    return losses.sum()


def _agree(
    library: ctypes.CDLL,
    first: Tensor,
    second: Tensor,
    labels: Tensor,
    smoothing: float,
    bias: Tensor | None,
    strength: float,
) -> Tensor:
    rows, vocab = first.shape
    labels, added, losses = _checked(labels, vocab), _added(bias), torch.empty(rows)
    assert first.is_contiguous()
    assert second.is_contiguous()
    threads = torch.get_num_threads()
    room = torch.empty(threads * vocab * (2 if first.dtype == torch.float32 else 4))
    function = library.agreement_float if first.dtype == torch.float32 else library.agreement_low
    function(
        *(first.data_ptr(), second.data_ptr(), rows, vocab, labels.data_ptr(), smoothing, _place(added)),
        *(strength, losses.data_ptr(), room.data_ptr(), threads),
    )
    return losses.sum()


def _checked(labels: Tensor, vocab: int) -> Tensor:
    if len(labels) and not (int(labels.min()) >= 0 and int(labels.max()) < vocab):
        raise IndexError(f"labels from {int(labels.min())} to {int(labels.max())}, but there are {vocab} logits")
    return labels.contiguous()


def _added(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.detach().float().contiguous()


def _place(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
