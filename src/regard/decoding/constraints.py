"""Which tokens may come: each function writes −inf into log-probabilities [N,V], in place, where a token may not come.

Nothing is normalised again: what stays keeps the model's own log-probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from torch import Tensor


def forbid(log_probs_NV: Tensor, tokens: Iterable[int]) -> None:
    """These tokens may come nowhere; numbers outside the vocabulary are passed over."""
    for token in tokens:
        if 0 <= token < log_probs_NV.shape[1]:
            log_probs_NV[:, token] = -math.inf


def forbid_repeats(log_probs_NV: Tensor, tokens_NT: Tensor, n: int, *, ends: Sequence[int]) -> None:
    """No n-gram of `tokens` may come again, unless an end token closes it."""
    if n == 0 or tokens_NT.shape[1] < n:
        return
    grams_NWn = tokens_NT.unfold(1, n, 1)
    last_N1n = tokens_NT[:, None, tokens_NT.shape[1] - n + 1 :]
    again_NW = (grams_NWn[..., :-1] == last_N1n).all(-1)
    for token in ends:
        again_NW &= grams_NWn[..., -1] != token
    path_M, place_M = again_NW.nonzero(as_tuple=True)
    log_probs_NV[path_M, grams_NWn[path_M, place_M, -1]] = -math.inf


def force(log_probs_NV: Tensor, token_N: Tensor) -> None:
    """Where `token` is not negative it comes for certain: log-probability 0, whatever the model says."""
    forced_M = (token_N >= 0).nonzero().flatten()
    if len(forced_M):
        log_probs_NV[forced_M] = -math.inf
        log_probs_NV[forced_M, token_N[forced_M]] = 0.0
