"""The part of attention weights that reaches the output: A⊥, orthogonal to the left null space of T.

For a row a of A that sees the keys k ∈ S, what reaches the output is a · T_S. With U an orthonormal basis of the
columns of T_S (rank ≤ d_head) the part that counts is a⊥ = U Uᵀ a, and the null space has dimension |S| − rank. U comes
from a thin QR of the value path (K × d_head), never from an n × n decomposition.

**Causal rows.** Row i sees keys 0…i, so each row has a null space of its own, and they are nested: what cannot be told
apart by the first i keys cannot be by more. That family is built block by block. Let R be the triangle of a QR of the
keys before the block (so that a prefix of any length is only d_head coordinates), S the block's rows of U and

    Ū = S R⁻¹        [−Ū, I] [R; S] = 0

The rows of [−Ū, I] are null vectors, the j-th of which uses the block's keys up to j only; a QR of its transpose makes
them orthonormal and keeps that order. Subtracting from row i its components along the vectors up to i is exact, and
takes two small QRs a block instead of a decomposition a row. Before the first key R = εI: keys that do not exist, with
values too small to matter, so that a prefix of lower rank needs no case of its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK = 64
_EPSILON = 1e-9  # of the keys that do not exist
_OWN = 1e-5  # a null vector with less than this of its newest key is none: the key brought a new direction


def reaching(
    weights: Tensor, path: Tensor, allowed: Tensor | None = None, *, block: int = _BLOCK
) -> tuple[Tensor, Tensor]:
    """A⊥ [B,H,Q,K] of weights [B,H,Q,K] with value path [B,H,K,E], and the null space's dimension of each row [B,H,Q].

    `allowed` (broadcastable to [B,H,Q,K], True = may see) says which keys each row sees.
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
    """Every query sees the same keys."""
    n_keys = torch.full((len(path),), path.shape[1]) if real is None else real.sum(1)
    u, rank = basis(path if real is None else path * real.unsqueeze(-1))
    return (weights @ u) @ u.mT, (n_keys - rank).unsqueeze(1).expand(-1, weights.shape[1])


def _any_keys(weights: Tensor, path: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Windows and the like: one decomposition for each set of keys that some query sees."""
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
    """Where each query's keys end [N,Q], if each sees all real keys before some place and later queries never fewer."""
    places = torch.arange(1, seen.shape[2] + 1)
    ends = (seen * places).amax(2)
    if bool((ends.diff(dim=1) < 0).any()):
        return None
    return ends if bool((seen == ((places <= ends.unsqueeze(-1)) & real[:, None])).all()) else None


def _nested(weights: Tensor, path: Tensor, real: Tensor, ends: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Rows that see prefixes: A⊥, and the rank of what each sees [N,Q]. In float64: prefixes are badly conditioned."""
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
    """Orthonormal null vectors in the columns' order, and which columns are none: their key brings a new direction."""
    null, scale = _row_wise_qr(candidates)
    fresh = scale.diagonal(dim1=1, dim2=2).abs().reciprocal() < _OWN
    if bool(fresh.any()) and not bool(fresh.all()):
        # Keys with new directions are huge beside the others. Put first, they leave the others' digits alone, and touch
        # those by less than a rounding: their vectors lie almost wholly on the keys that do not exist.
        order = (~fresh).long().argsort(dim=1, stable=True).unsqueeze(1)
        null, _ = _row_wise_qr(candidates.take_along_dim(order, 2))
        null = torch.empty_like(null).scatter_(2, order.expand_as(null), null)
    return null, fresh


def _row_wise_qr(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """A QR that keeps the digits of small rows beside large ones: the large come first (Cox and Higham 1998)."""
    order = matrix.abs().amax(2).argsort(dim=1, descending=True, stable=True).unsqueeze(-1)
    q, triangle = torch.linalg.qr(matrix.take_along_dim(order, 1))
    return torch.empty_like(q).scatter_(1, order.expand_as(q), q), triangle


def _place(
    effective: Tensor, mine: Tensor, rows: Tensor, ends: Tensor, span: tuple[int, int], turns: list[Tensor]
) -> None:
    """Turn coordinates back into weights on keys, block by block, for those rows that end in this block."""
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
