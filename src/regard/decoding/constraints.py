"""Constraints on the next token: each function writes −inf into log-probabilities [N,V], in place, at forbidden tokens.

The rest is not normalised again: allowed tokens keep the model's own log-probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from regard.core.search import Search
from regard.decoding.paths import Paths
from regard.decoding.request import Request, SpecialTokens


def constrain(log_probs_NV: Tensor, paths: Paths, search: Search, special: SpecialTokens) -> None:
    """Forbid all tokens that the search and the special tokens exclude. Lengths count generated tokens only, not the
    forced prefix."""
    forbid(log_probs_NV, special.forbidden)
    forbid(log_probs_NV, set(search.forbidden) - set(special.ends))
    if search.min_length:
        forbid(log_probs_NV, special.ends, paths.length_N - paths.prefix_N < search.min_length)
    forbid_repeats(
        log_probs_NV, paths.tokens_NT, search.no_repeat_ngram, ends=special.ends, counts_N=paths.length_N + 1
    )


def follow_grammars(log_probs_NV: Tensor, paths: Paths, requests: Mapping[int, Request]) -> None:
    """Forbid all tokens that the grammars of the paths' requests exclude.

    Of the tokens in `grammar.same`, if it has such, one is allowed at a time, and it gets the probability of all.
    """
    if all(request.grammar is None for request in requests.values()):
        return
    for row, (ticket, tokens) in enumerate(zip(paths.ticket_N.tolist(), paths.written(), strict=True)):
        grammar = requests[ticket].grammar
        if grammar is None:
            continue
        log_probs_V, allowed_V = log_probs_NV[row], grammar(tokens).to(log_probs_NV.device)
        if (same := getattr(grammar, "same", None)) is not None and allowed_V[same].any():
            log_probs_V[same] = log_probs_V[same].logsumexp(0)
        log_probs_V.masked_fill_(~allowed_V, -math.inf)


def penalise_repeats(scores_NV: Tensor, tokens_NT: Tensor, penalty: float) -> Tensor:
    """Divide the scores of tokens that a row already contains by the penalty, or multiply them if they are negative
    (CTRL, Keskar et al. 2019). So the result depends on where the zero of the scores is. As in `transformers`, the
    penalty acts on the logits of independent paths and on the log-probabilities of the paths of a beam."""
    rows, size = scores_NV.shape
    inside_NT = (tokens_NT >= 0) & (tokens_NT < size)
    seen_NV = scores_NV.new_zeros(rows, size + 1, dtype=torch.bool)
    seen_NV = seen_NV.scatter_(1, torch.where(inside_NT, tokens_NT, size), True)[:, :size]
    return torch.where(seen_NV, torch.where(scores_NV < 0, scores_NV * penalty, scores_NV / penalty), scores_NV)


def forbid(log_probs_NV: Tensor, tokens: Iterable[int], where_N: Tensor | None = None) -> None:
    """Forbid these tokens in all rows, or where `where_N` is True. Ids outside the vocabulary are ignored."""
    for token in tokens:
        if 0 <= token < log_probs_NV.shape[1]:
            log_probs_NV[slice(None) if where_N is None else where_N, token] = -math.inf


def forbid_repeats(
    log_probs_NV: Tensor, tokens_NT: Tensor, n: int, *, ends: Sequence[int], counts_N: Tensor | None = None
) -> None:
    """Forbid tokens that would repeat an n-gram of a row's first `counts` tokens, except end tokens."""
    if n == 0 or tokens_NT.shape[1] < n:
        return
    if counts_N is None:
        counts_N = torch.full((len(tokens_NT),), tokens_NT.shape[1], device=tokens_NT.device)
    grams_NWn = tokens_NT.unfold(1, n, 1)
    back_m = torch.arange(n - 1, device=tokens_NT.device) - (n - 1)
    last_N1m = tokens_NT.gather(1, (counts_N[:, None] + back_m).clamp_min(0))[:, None]
    again_NW = (grams_NWn[..., :-1] == last_N1m).all(-1)
    end_W = torch.arange(n, tokens_NT.shape[1] + 1, device=tokens_NT.device)
    again_NW &= end_W <= counts_N[:, None]
    for token in ends:
        again_NW &= grams_NWn[..., -1] != token
    path_M, place_M = again_NW.nonzero(as_tuple=True)
    log_probs_NV[path_M, grams_NWn[path_M, place_M, -1]] = -math.inf
