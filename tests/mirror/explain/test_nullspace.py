"""A⊥ against a plain singular value decomposition, row by row where rows see different keys."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.explain.nullspace import basis, reaching


def by_svd(a, path):
    """The part of one row that reaches the output, and the null space's dimension and basis: plain and slow."""
    u, sizes, _ = torch.linalg.svd(path, full_matrices=True)
    rank = int((sizes > sizes[0] * max(path.shape) * torch.finfo(path.dtype).eps).sum())
    null = u[:, rank:]
    return a - null @ (null.T @ a), len(a) - rank, null


def case(n, width, dtype, seed=0, *, n_queries=None):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(2, 3, n_queries or n, n, generator=generator, dtype=torch.float64).mul(2).softmax(-1)
    path = torch.randn(2, 3, n, width, generator=generator, dtype=torch.float64)
    return weights.to(dtype), path.to(dtype)


def check(weights, path, seen, effective, null, tolerance):
    """Every row against its own decomposition over the keys that it sees."""
    wanted, got = weights @ path, effective @ path
    assert (got - wanted).abs().amax() <= tolerance * wanted.abs().amax()
    for b in range(weights.shape[0]):
        for h in range(weights.shape[1]):
            for q in range(weights.shape[2]):
                keys = seen[b, h, q].nonzero().flatten()
                row, dimension, empty = by_svd(weights[b, h, q, keys].double(), path[b, h, keys].double())
                assert int(null[b, h, q]) == dimension
                torch.testing.assert_close(effective[b, h, q, keys].double(), row, atol=100 * tolerance, rtol=0)
                assert (
                    (empty.T @ effective[b, h, q, keys].double()).abs().amax() <= 100 * tolerance if dimension else True
                )
                hidden = ~seen[b, h, q]
                assert (effective[b, h, q, hidden] == 0).all()


TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("n", "width", "n_queries"), [(40, 8, 40), (8, 16, 8), (33, 8, 5), (1, 4, 1)])
def test_without_a_mask(dtype, n, width, n_queries):
    weights, path = case(n, width, dtype, n_queries=n_queries)
    effective, null = reaching(weights, path)
    check(weights, path, torch.ones_like(weights, dtype=torch.bool), effective, null, TOLERANCE[dtype])
    assert (null == max(n - width, 0)).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("block", [4, 16, 64])
@pytest.mark.parametrize(("n", "width"), [(50, 8), (40, 64), (70, 16)])
def test_causal_rows_see_their_own_keys(dtype, block, n, width):
    weights, path = case(n, width, dtype)
    seen = torch.ones(n, n).tril().bool()
    weights = weights * seen
    effective, null = reaching(weights, path, seen, block=block)
    check(weights, path, seen.expand_as(weights), effective, null, TOLERANCE[dtype])
    assert (null == (torch.arange(1, n + 1) - width).clamp_min(0)).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_repeated_keys_and_lost_features_lower_the_rank(dtype):
    n, width = 60, 16
    weights, path = case(n, width, dtype)
    path[:, :, 5:20] = path[:, :, 4:5]
    path[..., 3] = 0
    seen = torch.ones(n, n).tril().bool()
    effective, null = reaching(weights * seen, path, seen, block=16)
    check(weights * seen, path, seen.expand_as(weights), effective, null, TOLERANCE[dtype])
    whole, null = reaching(weights, path)
    check(weights, path, torch.ones_like(weights, dtype=torch.bool), whole, null, TOLERANCE[dtype])
    assert (null == n - 15).all()


@pytest.mark.parametrize("causal", [False, True])
def test_padding_on_either_side(causal):
    n, width, dtype = 30, 8, torch.float64
    weights, path = case(n, width, dtype)
    real = torch.ones(2, 1, 1, n, dtype=torch.bool)
    real[0, ..., :7], real[1, ..., 22:] = False, False
    seen = (real & torch.ones(n, n).tril().bool()) if causal else real.expand(2, 1, n, n)
    weights = weights * seen
    effective, null = reaching(weights, path, seen)
    whole = seen.expand_as(weights)
    rows = whole.any(-1)
    assert (effective[~rows] == 0).all()
    for b, h, q in rows.nonzero().tolist():
        keys = whole[b, h, q]
        row, dimension, _ = by_svd(weights[b, h, q, keys], path[b, h, keys])
        torch.testing.assert_close(effective[b, h, q, keys], row, atol=1e-11, rtol=0)
        assert int(null[b, h, q]) == dimension


def test_windows_and_odd_masks():
    n, width = 24, 4
    weights, path = case(n, width, torch.float64)
    gap = torch.arange(n)[:, None] - torch.arange(n)
    for seen in ((gap.abs() <= 3), torch.rand(2, 3, n, n, generator=torch.Generator().manual_seed(1)) > 0.4):
        whole = seen.expand_as(weights) | torch.eye(n, dtype=torch.bool)
        effective, null = reaching(weights * whole, path, whole)
        check(weights * whole, path, whole, effective, null, 1e-12)


@given(n=st.integers(1, 30), width=st.integers(1, 12), seed=st.integers(0, 10_000), causal=st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_shape(n, width, seed, causal):
    weights, path = case(n, width, torch.float64, seed)
    seen = torch.ones(n, n).tril().bool() if causal else torch.ones(n, n, dtype=torch.bool)
    effective, _ = reaching(weights * seen, path, seen if causal else None, block=8)
    again, _ = reaching(effective, path, seen if causal else None, block=8)
    torch.testing.assert_close(effective @ path, (weights * seen) @ path, atol=1e-11, rtol=0)
    torch.testing.assert_close(again, effective, atol=1e-10, rtol=0)  # a projection: twice is once


def test_a_basis_is_orthonormal_where_the_rank_allows():
    path = torch.randn(3, 20, 6, dtype=torch.float64)
    path[1, :, 4] = path[1, :, 2]
    vectors, rank = basis(path)
    assert rank.tolist() == [6, 5, 6]
    product = vectors.mT @ vectors
    torch.testing.assert_close(product[0], torch.eye(6, dtype=torch.float64))
    assert float(product[1].diagonal().sum()) == pytest.approx(5)
