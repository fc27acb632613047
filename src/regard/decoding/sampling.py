"""Sampling with filters: temperature, then the k most probable tokens (Fan et al. 2018), then the nucleus (Holtzman et
al. 2020), then tokens at least `min_p` times as probable as the most probable one (Nguyen et al. 2024).

Each filter acts on the renormalised distribution that the filter before it left; at least one token always stays. The
nucleus is the smallest set of most probable tokens whose probability is `top_p` or more.

The sample of a row depends only on the seed, the row's number, its copy and the step: a hash (BLAKE2) of them gives a
uniform number, which selects a token from the cumulative distribution. There is no generator with a state, so the other
rows of a batch change nothing, and torch's own generator is not used.
"""

from __future__ import annotations

import itertools
import math
from hashlib import blake2b

import torch
from torch import Tensor

from regard.core.search import Search
from regard.decoding.candidates import Candidates
from regard.decoding.paths import Paths

_COLDEST = 1e-300
_SIZES = (256, 2048, 16384)


def uniform(seed: int, row: int, copy: int, step: int) -> float:
    """A number in [0, 1) with 53 random bits."""
    digest = blake2b(f"{seed} {row} {copy} {step}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


def candidates(log_probs_NV: Tensor, search: Search) -> tuple[Tensor, Tensor | None]:
    """Probabilities [N,C] in float64 to sample from, and their tokens; None: the whole vocabulary in its order."""
    peak_N1 = log_probs_NV.amax(-1, keepdim=True)
    # The maximum is subtracted first, so that no temperature is too low to divide by.
    scaled_NV = (log_probs_NV - peak_N1).double().div_(max(search.temperature, _COLDEST))
    if bool((peak_N1 == -math.inf).any()):  # if no token is allowed, any token is drawn and the path ends unfinished
        scaled_NV.nan_to_num_(nan=0.0, neginf=-math.inf)
    if 0 < search.top_k < scaled_NV.shape[1]:
        scaled_NC, token_NC = scaled_NV.topk(search.top_k)
        probs_NC = _nucleus(scaled_NC.softmax(-1), search.top_p)
    elif search.top_p < 1.0:
        probs_NC, token_NC = _sorted_nucleus(scaled_NV.softmax(-1), search.top_p)
    else:
        return _likely(scaled_NV.softmax(-1), search.min_p), None
    return _likely(probs_NC, search.min_p), token_NC


class Draw:
    """Samples the next tokens for `greedy.IndependentPaths`."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def __call__(self, whole: Candidates, paths: Paths) -> Tensor:
        assert whole.token_NC is None
        probs_NC, token_NC = candidates(whole.log_prob_NC, self._search)
        place_N1 = pick(probs_NC, _uniforms(paths).to(probs_NC.device))
        return (place_N1 if token_NC is None else token_NC.gather(1, place_N1))[:, 0]


def _uniforms(paths: Paths) -> Tensor:
    facts = paths.seed_N, paths.number_N, paths.copy_N, paths.length_N
    numbers = [uniform(*row) for row in zip(*(fact.tolist() for fact in facts), strict=True)]
    return torch.tensor(numbers, dtype=torch.float64)


def pick(probs_NC: Tensor, uniform_N: Tensor) -> Tensor:
    """The place [N,1] at which the cumulative probability first exceeds `uniform` times the total."""
    cumulative_NC = probs_NC.cumsum(-1)
    whole_N1 = cumulative_NC[:, -1:].contiguous()
    below_N1 = torch.nextafter(whole_N1, torch.zeros_like(whole_N1))  # a product may round up to the whole
    target_N1 = torch.minimum(uniform_N[:, None] * whole_N1, below_N1)
    return torch.searchsorted(cumulative_NC, target_N1, right=True)


def _nucleus(probs_NC: Tensor, top_p: float) -> Tensor:
    """Set a probability to zero if the tokens before it sum to `top_p` or more; `probs` are sorted, largest first."""
    if top_p == 1.0:
        return probs_NC
    kept_NC = torch.ones_like(probs_NC, dtype=torch.bool)
    kept_NC[:, 1:] = probs_NC.cumsum(-1)[:, :-1] < top_p
    return probs_NC * kept_NC


def _sorted_nucleus(probs_NV: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The nucleus of each row, largest first. Only as much of the vocabulary is sorted as the widest nucleus needs,
    within a factor of 8."""
    vocab = probs_NV.shape[1]
    for size in (*itertools.takewhile(lambda size: size < vocab, _SIZES), vocab):
        probs_NC, token_NC = probs_NV.topk(size)
        if bool((probs_NC.sum(-1) >= top_p).all()):
            break
    return _nucleus(probs_NC, top_p), token_NC


def _likely(probs_NC: Tensor, min_p: float) -> Tensor:
    return probs_NC * (probs_NC >= min_p * probs_NC.amax(-1, keepdim=True)) if min_p > 0.0 else probs_NC
