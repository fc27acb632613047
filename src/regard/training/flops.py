"""How much arithmetic a run's training takes, in floating-point operations (FLOPs).

A product of matrices [m,k] · [k,n] counts 2mkn, in the forward and in the backward pass; convolutions and attention are
counted as the products that they are, masked places included. The first updates and then every update whose number is
a power of two are counted as they run, each operation by its shapes. Their FLOPs per item of the loss, times the items
of all updates, is the run's number. Counting looks at shapes only: no bit of the training changes.

Left out: everything that is no product (softmax, norms, activations, dropout, the optimizer; a few per cent in wide
models, more in narrow ones), loops of our own in C, validation, and the making of data (a policy that plays).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from regard.training.log import Log, Silent
from regard.training.progress import Progress

_FIRST = 8
"""The first updates are all counted, up to this number; then only powers of two."""


class Counting(TorchDispatchMode):
    """Adds up the FLOPs of the operations that run inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        if (own := _FORMULAS.get(packet)) is not None:
            self.flops += own(*args)
        elif (known := flop_registry.get(packet)) is not None:
            self.flops += known(*args, **(kwargs or {}), out_val=result)
        return result


def counting(step: int) -> AbstractContextManager[Counting | None]:
    """A context for the passes of an update. It counts FLOPs in some updates, and does nothing in the others."""
    return Counting() if step <= _FIRST or step & (step - 1) == 0 else nullcontext()


def note(progress: Progress, items: int, flops: float | None) -> None:
    """Add an update with its number of items of the loss, and its FLOPs if they were counted."""
    progress.items += items
    if flops is not None:
        progress.counted_items += items
        progress.counted_flops += flops


def total(progress: Progress) -> float | None:
    """The FLOPs of all updates so far; None if an earlier version ran a part of the run without counting, or if there
    was nothing to count: sums of embeddings are no products."""
    if progress.step == 0 or not progress.counted_items or not progress.counted_flops or progress.uncounted:
        return None
    return progress.counted_flops * (progress.items / progress.counted_items)


def report(log: Log | Silent, progress: Progress, unit: str) -> None:
    """Write the FLOPs of a finished run into its log, if they are known."""
    if (flops := total(progress)) is not None:
        log.write(progress.step, training_flops=flops, items=progress.items)
        log.say(f"training: {flops:.3g} FLOPs in {progress.step:,} updates with {progress.items:,} {unit}")


def _attention(query: Any, keys: Any, values: Any, *_: Any) -> int:
    return int(sdpa_flop_count(query.shape, keys.shape, values.shape))


def _attention_backward(slope: Any, query: Any, keys: Any, values: Any, *_: Any) -> int:
    return int(sdpa_backward_flop_count(slope.shape, query.shape, keys.shape, values.shape))


def _recurrent(x: Any, w_input: Any, w_state: Any, *_: Any) -> int:
    """One layer of one direction, x [T,B,D]: each row is multiplied by both matrices."""
    return int(2 * x.shape[0] * x.shape[1] * (w_input.numel() + w_state.numel()))


_ATEN = torch.ops.aten
_FORMULAS: dict[Any, Callable[..., int]] = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _attention,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    _ATEN.mkldnn_rnn_layer: _recurrent,
    _ATEN.mkldnn_rnn_layer_backward: lambda *given: 2 * _recurrent(*given),
}
"""Operations of CPUs that torch does not count."""
