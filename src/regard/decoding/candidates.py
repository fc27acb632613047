"""The candidates for the next token of each path.

A search needs few of them: greedy search needs one per path, a beam of k at most k that continue and k that end. So the
best logits of each path are selected and normalised, and no other log-probability is written. If constraints,
penalties or sampling need the whole vocabulary, the whole distribution is computed.

On a CPU with a C compiler the best tokens are found in two passes over a row (`candidates.c`); otherwise by `topk` on
the chunks of the vocabulary with the largest maxima.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.core.native import StepLoops

_CHUNK = 128
_NATIVE_CHUNK = 256  # CHUNK in candidates.c
_MANY = 8  # a vocabulary of fewer chunks is searched as a whole
_WORTH = 1024  # for a smaller vocabulary a call into C saves nothing

_NUMBER, _ADDRESS = ctypes.c_int64, ctypes.c_void_p
LOOPS = StepLoops(
    *(Path(__file__).with_name("candidates.c"), "best_tokens"),
    *(_ADDRESS, _NUMBER, _ADDRESS, _NUMBER, _NUMBER, _NUMBER),
    *(_ADDRESS, _NUMBER, _ADDRESS, _ADDRESS, _ADDRESS, _NUMBER),
)


@dataclass(frozen=True)
class Candidates:
    """Log-probabilities and their tokens, best first. If `token_NC` is None, the log-probabilities are those of the
    whole vocabulary in its order."""

    log_prob_NC: Tensor
    token_NC: Tensor | None = None

    def at(self, index_M: Tensor) -> Candidates:
        """The candidates of some paths."""
        return Candidates(self.log_prob_NC[index_M], None if self.token_NC is None else self.token_NC[index_M])

    def token(self, place_N: Tensor) -> Tensor:
        """The token at one place in each path's candidates [N]."""
        return place_N if self.token_NC is None else self.token_NC.gather(1, place_N[:, None])[:, 0]


def best_of(log_probs_NV: Tensor, count: int) -> Candidates:
    """The `count` most probable tokens of each path, or as many as there are."""
    n_paths, vocab = log_probs_NV.shape
    count, n_chunks = min(count, vocab), vocab // _CHUNK
    if count == 1 and (n_paths == 1 or n_chunks < _MANY):
        return _first(log_probs_NV, log_probs_NV.argmax(-1))
    if n_chunks < max(_MANY, count):
        return Candidates(*log_probs_NV.topk(count))
    # The best tokens are in the chunks with the largest maxima, or in the rest that fills no chunk.
    rest = n_chunks * _CHUNK
    peaks_NX = log_probs_NV[:, :rest].unflatten(1, (n_chunks, _CHUNK)).amax(-1)
    # The chunks are in the order of the vocabulary, so that the first of equally probable tokens comes first.
    chunks_NX = peaks_NX.topk(count).indices.sort(-1).values if count > 1 else peaks_NX.argmax(-1, keepdim=True)
    places_NXS = chunks_NX[..., None] * _CHUNK + torch.arange(_CHUNK, device=chunks_NX.device)
    rest_S = torch.arange(rest, vocab, device=chunks_NX.device).expand(n_paths, -1)
    place_NY = torch.cat([places_NXS.flatten(1), rest_S], 1)
    some_NY = log_probs_NV.gather(1, place_NY)
    if count == 1:
        return _first(log_probs_NV, place_NY.gather(1, some_NY.argmax(-1, keepdim=True))[:, 0])
    log_prob_NC, best_NC = some_NY.topk(count)
    return Candidates(log_prob_NC, place_NY.gather(1, best_NC))


def _first(log_probs_NV: Tensor, token_N: Tensor) -> Candidates:
    token_N1 = token_N[:, None]
    return Candidates(log_probs_NV.gather(1, token_N1), token_N1)


def best_of_logits(logits_MV: Tensor, rows_N: Tensor, count: int, forbidden: Sequence[int] = ()) -> Candidates | None:
    """The most probable tokens of some rows of logits, except the forbidden ones. Log-probabilities are normalised over
    all tokens, the forbidden ones included.

    A row without a valid distribution begins with a NaN. Returns None if there is no compiled loop for these logits.
    """
    vocab = logits_MV.shape[1]
    suits = logits_MV.device.type == "cpu" and logits_MV.dtype == torch.float32 and logits_MV.stride(1) == 1
    find = LOOPS.call if suits and vocab >= _WORTH else None
    if find is None:
        return None
    count, threads = min(count, vocab), torch.get_num_threads()
    rows_N, left_out = rows_N.contiguous(), torch.tensor(forbidden, dtype=torch.long)
    room = torch.empty(threads * -(-vocab // _NATIVE_CHUNK))
    log_prob_NC = torch.empty(len(rows_N), count)
    token_NC = torch.empty(len(rows_N), count, dtype=torch.long)
    find(
        *(logits_MV.data_ptr(), logits_MV.stride(0), rows_N.data_ptr(), len(rows_N), vocab, count),
        *(left_out.data_ptr(), len(left_out), room.data_ptr(), log_prob_NC.data_ptr(), token_NC.data_ptr(), threads),
    )
    return Candidates(log_prob_NC, token_NC)
