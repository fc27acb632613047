"""Packed products against torch's."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.runtime.native import Missing, kernels
from regard.runtime.products import PackedBfloat16, PackedFloat, PackedInt8

NATIVE = kernels()
HAS_LOW = not isinstance(NATIVE, Missing) and NATIVE.has_low_products
needs_low = pytest.mark.skipif(not HAS_LOW, reason="no compiler, or this CPU has no products of bfloat16 numbers")
PACKED = [PackedFloat, PackedInt8, *([PackedBfloat16] if HAS_LOW else [])]
needs_kernels = pytest.mark.skipif(isinstance(NATIVE, Missing), reason="no C compiler to build the kernels with")


SIZES = st.integers(1, 20), st.integers(1, 200), st.integers(1, 200)


def any_shape(test):
    """Rows, inputs and outputs; with a bias or not, with a residual or not; a seed."""
    return settings(max_examples=60, deadline=None)(
        given(*SIZES, st.booleans(), st.booleans(), st.integers(0, 1 << 30))(test)
    )


def parts(m: int, k: int, n: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((m, k), (n, k), (n,), (m, n))
    return [torch.randn(shape, generator=generator) for shape in shapes]


@needs_kernels
@any_shape
def test_float_products_equal_torchs(m, k, n, with_bias, with_residual, seed):
    x, weight, bias, residual = parts(m, k, n, seed)
    arguments = (weight, bias if with_bias else None)
    added = residual if with_residual else None
    expected = F.linear(x.double(), weight.double(), bias.double() if with_bias else None)
    expected = expected + residual if with_residual else expected
    torch.testing.assert_close(PackedFloat(NATIVE, *arguments)(x, added).double(), expected, atol=2e-4, rtol=0)


@needs_kernels
@any_shape
def test_int8_products_are_those_of_the_rounded_numbers(m, k, n, with_bias, with_residual, seed):
    """Weights rounded by output, inputs by row; then the product is exact but for the last scaling."""
    x, weight, bias, residual = parts(m, k, n, seed)
    weight[0], x[0] = 0.0, 0.0
    scale_n, scale_m = (t.double().abs().amax(1, keepdim=True).div(127) for t in (weight, x))
    scale_n[scale_n == 0], scale_m[scale_m == 0] = 1.0, 1.0
    expected = (x / scale_m).round() @ (weight / scale_n).round().T * scale_m * scale_n.T
    expected = expected + (bias if with_bias else 0) + (residual if with_residual else 0)
    arguments, added = (weight, bias if with_bias else None), residual if with_residual else None
    # A number that lies between two integers may go either way in the last bit of the scale.
    torch.testing.assert_close(PackedInt8(NATIVE, *arguments)(x, added).double(), expected, atol=0.05, rtol=1e-3)


@needs_low
@any_shape
def test_bfloat16_products_are_those_of_the_rounded_numbers(m, k, n, with_bias, with_residual, seed):
    x, weight, bias, residual = parts(m, k, n, seed)
    expected = x.bfloat16().double() @ weight.bfloat16().double().T
    expected = expected + (bias if with_bias else 0) + (residual if with_residual else 0)
    arguments, added = (weight, bias if with_bias else None), residual if with_residual else None
    torch.testing.assert_close(PackedBfloat16(NATIVE, *arguments)(x, added).double(), expected, atol=2e-4, rtol=0)


@needs_kernels
def test_a_row_is_the_same_bits_in_any_company():
    x, weight, bias, _ = parts(23, 100, 70)
    for product in (packed(NATIVE, weight, bias) for packed in PACKED):
        together = product(x)
        for row in range(len(x)):
            assert torch.equal(product(x[row : row + 1])[0], together[row])


@needs_kernels
def test_rows_with_gaps_are_read_rightly():
    x, weight, bias, _ = parts(8, 10, 5)
    for product in (packed(NATIVE, weight, bias) for packed in PACKED):
        assert torch.equal(product(x[::2]), product(x[::2].clone()))
        assert torch.equal(product(x[:, ::2].repeat(1, 2)), product(x[:, ::2].repeat(1, 2).clone()))
