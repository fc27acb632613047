"""Products with packed weights: y = x Wᵀ + b (+ residual), for x [M,K] in float32.

float32   W unchanged, in panels that the kernel reads front to back
bfloat16  W and x rounded to 8 significant bits, sums in float32
int8      W as integers with a scale for each output; x becomes integers with a scale for each row, so that a row's
          result does not depend on other rows
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from regard.runtime.native import Kernels

_COLUMNS = 64  # of a panel in kernels.c
_ALIGNED = 64  # bytes


class Product(Protocol):
    form: int
    """The number of this kind of product in kernels.c."""
    n: int
    k: int
    room: int
    """The bytes of working memory that it needs for each row of x."""

    @property
    def places(self) -> Sequence[int | None]:
        """The addresses of the packed weights, their scales, their offsets, and the bias."""
        ...

    def __call__(self, x_MK: Tensor, residual_MN: Tensor | None = None) -> Tensor:
        """x Wᵀ + b, plus the residual."""
        ...


class PackedFloat:
    form, room = 0, 0

    def __init__(self, kernels: Kernels, weight_NK: Tensor, bias_N: Tensor | None) -> None:
        self._run = kernels.product_float
        self.n, self.k = weight_NK.shape
        weight_NK = weight_NK.contiguous()
        self._packed = _room(_panels(self.n) * self.k, torch.float32)
        kernels.pack_float(weight_NK.data_ptr(), self.n, self.k, self._packed.data_ptr())
        self._bias = None if bias_N is None else bias_N.contiguous()
        self.places = self._packed.data_ptr(), None, None, None if self._bias is None else self._bias.data_ptr()

    def __call__(self, x_MK: Tensor, residual_MN: Tensor | None = None) -> Tensor:
        x_MK = x_MK.contiguous()
        y_MN = x_MK.new_empty(len(x_MK), self.n)
        residual, (packed, _, _, bias) = None if residual_MN is None else residual_MN.data_ptr(), self.places
        self._run(x_MK.data_ptr(), len(x_MK), self.k, packed, self.n, bias, residual, y_MN.data_ptr())
        return y_MN


class PackedBfloat16:
    form = 1

    def __init__(self, kernels: Kernels, weight_NK: Tensor, bias_N: Tensor | None) -> None:
        self._run = kernels.product_low
        self.n, self.k = weight_NK.shape
        self._width = -(-self.k // 2) * 2
        self.room = 2 * self._width
        weight_NK = weight_NK.contiguous()
        self._packed = _room(_panels(self.n) * self._width, torch.bfloat16)
        kernels.pack_low(weight_NK.data_ptr(), self.n, self.k, self._packed.data_ptr())
        self._bias = None if bias_N is None else bias_N.contiguous()
        self.places = self._packed.data_ptr(), None, None, None if self._bias is None else self._bias.data_ptr()

    def __call__(self, x_MK: Tensor, residual_MN: Tensor | None = None) -> Tensor:
        x_MK, m = x_MK.contiguous(), len(x_MK)
        y_MN, room = x_MK.new_empty(m, self.n), torch.empty(m * self._width, dtype=torch.bfloat16)
        residual, (packed, _, _, bias) = None if residual_MN is None else residual_MN.data_ptr(), self.places
        self._run(x_MK.data_ptr(), m, self.k, packed, self.n, bias, residual, y_MN.data_ptr(), room.data_ptr())
        return y_MN


class PackedInt8:
    form = 2

    def __init__(self, kernels: Kernels, weight_NK: Tensor, bias_N: Tensor | None) -> None:
        self._run = kernels.product_int8
        self.n, self.k = weight_NK.shape
        self._width = -(-self.k // 4) * 4
        self.room = self._width + 4
        weight_NK = weight_NK.contiguous()
        n_panels = _panels(self.n)
        self._packed = _room(n_panels * self._width, torch.int8)
        self._scales, self._offsets = _room(n_panels, torch.float32), _room(n_panels, torch.int32)
        parts = [part.data_ptr() for part in (self._packed, self._scales, self._offsets)]
        kernels.pack_int8(weight_NK.data_ptr(), self.n, self.k, *parts)
        self._bias = None if bias_N is None else bias_N.contiguous()
        self.places = *parts, None if self._bias is None else self._bias.data_ptr()

    def __call__(self, x_MK: Tensor, residual_MN: Tensor | None = None) -> Tensor:
        x_MK, m = x_MK.contiguous(), len(x_MK)
        y_MN, room = x_MK.new_empty(m, self.n), x_MK.new_empty(m * (self._width // 4 + 1))
        residual = None if residual_MN is None else residual_MN.data_ptr()
        *packed, bias = self.places
        # The scales of all rows follow the integers: four bytes each.
        q = room.data_ptr()
        self._run(x_MK.data_ptr(), m, self.k, *packed, self.n, bias, residual, y_MN.data_ptr(), q, q + m * self._width)
        return y_MN


def _panels(n: int) -> int:
    return -(-n // _COLUMNS) * _COLUMNS


def _room(count: int, dtype: torch.dtype) -> Tensor:
    """Memory whose address is a multiple of a cache line."""
    size = torch.empty((), dtype=dtype).element_size()
    whole = torch.empty(count + _ALIGNED // size, dtype=dtype)
    return whole[-whole.data_ptr() % _ALIGNED // size :][:count]
