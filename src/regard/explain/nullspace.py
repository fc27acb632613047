"""The part of attention weights that reaches the output: A⊥, orthogonal to the left null space of T.

For a row a of A that sees the keys k ∈ S, a · T_S reaches the output. With U an orthonormal basis of the columns of T_S
(rank ≤ d_head), the effective part is a⊥ = U Uᵀ a, and the null space has dimension |S| − rank. U comes from a thin QR
of the value path (K × d_head), never from an n × n decomposition.

**Causal rows.** Row i sees keys 0…i, so each row has its own null space. These null spaces are nested: a null vector of
the first i keys is one of more keys too. The family is built block by block. Let R be the triangle of a QR of the keys
before the block (so that a prefix of any length is only d_head coordinates), S the block's rows of U and

    Ū = S R⁻¹        [−Ū, I] [R; S] = 0

The rows of [−Ū, I] are null vectors; the j-th uses only the block's keys up to j. A QR of the transpose makes them
orthonormal and keeps that order. Subtracting from row i its components along the vectors up to i is exact. It takes two
small QRs per block instead of one decomposition per row. Before the first key, R = εI. This stands for virtual keys
whose values are too small to matter, so that a prefix of lower rank is not a special case.
"""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK = 64
_EPSILON = 1e-9  # the size of the virtual keys
_OWN = 1e-5  # below this share on its newest key, a vector is not a null vector: the key added a new direction


def reaching(
    weights: Tensor, path: Tensor, allowed: Tensor | None = None, *, block: int = _BLOCK
) -> tuple[Tensor, Tensor]:
    """A⊥ [B,H,Q,K] of weights [B,H,Q,K] with value path [B,H,K,E], and the dimension of each row's null space [B,H,Q].

    `allowed` (broadcastable to [B,H,Q,K], True = may see) gives the keys that each row sees.
    """
    n_rows, n_heads, n_queries, n_keys = weights.shape
    flat, thin = weights.flatten(0, 1), path.flatten(0, 1)
    if allowed is None:
        effective, null = _same_keys(flat, thin, None)
    else:
        seen = allowed.expand(n_rows, n_heads, n_queries, n_keys).flatten(0, 1)
        real, counts = seen.any(1), seen.sum(2)
        if bool((seen == real[:, None]).all()):
            effective, null = _same_keys(flat, thin, real)
        elif (ends := _prefixes(seen, real)) is not None:
            effective, null = _nested(flat, thin, real, ends, block)
            null = counts - null
        else:
            effective, null = _any_keys(flat, thin, seen)
    return effective.unflatten(0, (n_rows, n_heads)), null.unflatten(0, (n_rows, n_heads))


def basis(path: Tensor) -> tuple[Tensor, Tensor]:
    """An orthonormal basis of the columns of path [N,K,E]: [N,K,min(K,E)], with zeros where the rank [N] is lower."""
    q, triangle = torch.linalg.qr(path)
    sizes = torch.linalg.svdvals(triangle)
    least = sizes[:, :1] * max(path.shape[1:]) * torch.finfo(path.dtype).eps
    rank = (sizes > least).sum(1)
    low = (rank < sizes.shape[1]).nonzero().flatten()
    if len(low):
        turn, _, _ = torch.linalg.svd(triangle[low])
        q[low] = q[low] @ (turn[..., : sizes.shape[1]] * (sizes[low] > least[low]).unsqueeze(1))
    return q, rank


def _same_keys(weights: Tensor, path: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
    """For queries that all see the same keys."""
    n_keys = torch.full((len(path),), path.shape[1]) if real is None else real.sum(1)
    u, rank = basis(path if real is None else path * real.unsqueeze(-1))
    return (weights @ u) @ u.mT, (n_keys - rank).unsqueeze(1).expand(-1, weights.shape[1])


def _any_keys(weights: Tensor, path: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """For windows and other masks: one decomposition for each distinct set of visible keys."""
    effective, null = torch.zeros_like(weights), torch.zeros(weights.shape[:2], dtype=torch.long)
    for number in range(len(weights)):
        sets, which = seen[number].unique(dim=0, return_inverse=True)
        for index, keys in enumerate(sets):
            rows = (which == index).nonzero().flatten()
            if bool(keys.any()):
                part, none = _same_keys(weights[number, rows][:, keys][None], path[number, keys][None], None)
                effective[number, rows.unsqueeze(1), keys.nonzero().flatten()] = part[0]
                null[number, rows] = none[0]
    return effective, null


def _prefixes(seen: Tensor, real: Tensor) -> Tensor | None:
    """The end of each query's keys [N,Q], if each sees all real keys before its end and later queries never fewer."""
    places = torch.arange(1, seen.shape[2] + 1)
    ends = (seen * places).amax(2)
    if bool((ends.diff(dim=1) < 0).any()):
        return None
    return ends if bool((seen == ((places <= ends.unsqueeze(-1)) & real[:, None])).all()) else None


def _nested(weights: Tensor, path: Tensor, real: Tensor, ends: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """For rows that see prefixes: A⊥, and each row's rank [N,Q]. In float64, because prefixes are ill-conditioned."""
    a, (u, _) = weights.double(), basis(path.double() * real.unsqueeze(-1))
    n, n_queries, n_keys = a.shape
    width = u.shape[2]
    triangle = torch.eye(width, dtype=a.dtype).mul(_EPSILON).expand(n, -1, -1)
    prefix = a.new_zeros(n, n_queries, width)  # each row's part on the keys so far, in coordinates of their basis
    effective, ranks = torch.zeros_like(a), torch.zeros(n, n_keys + 1, dtype=torch.long)
    turns: list[Tensor] = []
    for start in range(0, n_keys, block):
        stop = min(start + block, n_keys)
        part, size = u[:, start:stop], stop - start
        across = torch.linalg.solve_triangular(triangle, part, upper=True, left=False)
        unit = torch.eye(size, dtype=a.dtype).expand(n, -1, -1)
        null, fresh = _null_vectors(torch.cat([-across.mT, unit], 1))
        ranks[:, start + 1 : stop + 1] = ranks[:, start : start + 1] + fresh.cumsum(1)
        rows = ((ends > start) & (ends <= stop)).any(0).nonzero().flatten()
        if len(rows):
            mine = torch.cat([prefix[:, rows], a[:, rows, start:stop]], 2)
            inside = torch.arange(start, stop) < ends[:, rows, None]
            mine = mine - ((mine @ null) * (inside & ~fresh.unsqueeze(1))) @ null.mT
            _place(effective, mine, rows, ends, (start, stop), turns)
        turn, triangle = _row_wise_qr(torch.cat([triangle, part], 1))
        prefix = torch.cat([prefix, a[:, :, start:stop]], 2) @ turn
        turns.append(turn)
    seen = (torch.arange(n_keys) < ends.unsqueeze(-1)) & real.unsqueeze(1)
    return effective.mul_(seen).to(weights.dtype), ranks.gather(1, ends)


def _null_vectors(candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal null vectors in the order of the columns, and a mask of the columns whose keys add new directions:
    these are not null vectors."""
    null, scale = _row_wise_qr(candidates)
    fresh = scale.diagonal(dim1=1, dim2=2).abs().reciprocal() < _OWN
    if bool(fresh.any()) and not bool(fresh.all()):
        # The columns of keys with new directions are huge beside the others. They go first, so that they do not round
        # away the digits of the others. They change the others by less than a rounding error, since their vectors lie
        # almost entirely on the virtual keys.
        order = (~fresh).long().argsort(dim=1, stable=True).unsqueeze(1)
        null, _ = _row_wise_qr(candidates.take_along_dim(order, 2))
        null = torch.empty_like(null).scatter_(2, order.expand_as(null), null)
    return null, fresh


def _row_wise_qr(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """A QR that keeps the digits of small rows beside large ones: the large rows go first (Cox and Higham 1998)."""
    order = matrix.abs().amax(2).argsort(dim=1, descending=True, stable=True).unsqueeze(-1)
    q, triangle = torch.linalg.qr(matrix.take_along_dim(order, 1))
    return torch.empty_like(q).scatter_(1, order.expand_as(q), q), triangle


def _place(
    effective: Tensor, mine: Tensor, rows: Tensor, ends: Tensor, span: tuple[int, int], turns: list[Tensor]
) -> None:
    """Turn coordinates into weights on keys, block by block, for the rows that end in this block."""
    start, stop = span
    width = mine.shape[2] - (stop - start)
    pieces = [mine[..., width:]]
    coordinates = mine[..., :width]
    for turn in reversed(turns):
        whole = coordinates @ turn.mT
        coordinates = whole[..., :width]
        pieces.append(whole[..., width:])
    whole = torch.cat(pieces[::-1], 2)
    here = ((ends[:, rows] > start) & (ends[:, rows] <= stop)).unsqueeze(-1)
    effective[:, rows, :stop] = torch.where(here, whole, effective[:, rows, :stop])
