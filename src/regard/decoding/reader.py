"""Runs the model during one step, and computes the candidates for the next token of each path."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from regard.core import taps
from regard.core.batch import pad
from regard.core.contracts import Decodable
from regard.core.errors import RegardError
from regard.core.state import State
from regard.decoding.candidates import Candidates, best_of, best_of_logits
from regard.decoding.constraints import forbid, penalise_repeats
from regard.decoding.paths import Paths


class Reader:
    """Runs the model on tokens of some paths, and keeps its logits until the next step."""

    def __init__(self, model: Decodable, state: State) -> None:
        self._model, self._state = model, state
        self._parts: list[Tensor] = []
        self._row_P = torch.zeros_like(state.lengths_P)
        """For each slot, the row of its path among all rows that ran in this step."""
        self._room: Tensor | None = None

    def forget(self) -> None:
        """Discard the logits of the previous step."""
        self._parts = []

    def run_prompts(self, tokens: Sequence[Sequence[int]], slots: Sequence[int], covers: bool) -> Tensor | None:
        """Read parts of prompts, which may differ in length, into paths."""
        device = self._state.lengths_P.device
        counts_N = torch.tensor([len(part) for part in tokens], device=device)
        tokens_NT, _ = pad(tokens, value=0)
        return self.run(tokens_NT.to(device), counts_N, torch.tensor(slots, device=device), covers)

    def run(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, covers: bool) -> Tensor | None:
        """Read tokens into paths; return the attention that each input received [N,K] if `covers`, else None."""
        site = self._model.coverage_site if covers else None
        with taps.watch(site) if site is not None else nullcontext() as record:
            logits_NV = self._model.step(tokens_NT, counts_N, paths_N, self._state)
        start = sum(map(len, self._parts))
        self._row_P[paths_N] = torch.arange(start, start + len(paths_N), device=paths_N.device)
        self._parts.append(logits_NV)
        return None if record is None else self._attention(record, site or "", paths_N, counts_N)

    def best(self, paths: Paths, count: int, forbidden: Sequence[int]) -> Candidates:
        """The most probable next tokens of each path, without the forbidden ones."""
        candidates = best_of_logits(self._logits(), self._row_P[paths.slot_N], count, forbidden)
        if candidates is None:
            log_probs_NV = self.log_probs(paths)
            forbid(log_probs_NV, forbidden)
            return best_of(log_probs_NV, count)
        _check(candidates.log_prob_NC[:, 0], paths)
        return candidates

    def _logits(self) -> Tensor:
        return self._parts[0] if len(self._parts) == 1 else torch.cat(self._parts)

    def log_probs(self, paths: Paths, penalty: float = 1.0) -> Tensor:
        """Log-probabilities [N,V] of the next token, with a penalty on the logits of tokens that a path contains."""
        logits_NV, rows_N = self._logits(), self._row_P[paths.slot_N]
        if not torch.equal(rows_N, torch.arange(len(logits_NV), device=rows_N.device)):
            logits_NV = logits_NV[rows_N]
        if penalty != 1.0:
            precise_NV = logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()
            logits_NV = penalise_repeats(precise_NV, paths.tokens_NT, penalty)
        return self._log_softmax(logits_NV, paths)

    def _log_softmax(self, logits_NV: Tensor, paths: Paths) -> Tensor:
        dtype = torch.float64 if logits_NV.dtype == torch.float64 else torch.float32
        if self._room is None or len(self._room) < len(logits_NV):
            # The buffer is kept from step to step: allocating this much memory takes longer than filling it.
            self._room = logits_NV.new_empty(logits_NV.shape, dtype=dtype)
        log_probs_NV = torch.log_softmax(logits_NV, -1, dtype, out=self._room[: len(logits_NV)])
        _check(log_probs_NV[:, 0], paths)  # a single NaN makes the whole row NaN
        return log_probs_NV

    def _attention(self, record: taps.Record, site: str, paths_N: Tensor, counts_N: Tensor) -> Tensor:
        """The attention that each input received from the real tokens [N,K], averaged over heads and over sites."""
        if not record.seen:
            raise RegardError(
                f"the model's coverage site {site!r} reported nothing", remedy="Set coverage_penalty to 0."
            )
        total: Tensor | None = None
        groups = self._state.groups(paths_N)
        for entry in record.seen:
            assert entry.weights is not None
            weights_NTK = groups.apart(entry.weights).mean(1)
            real_NT = torch.arange(weights_NTK.shape[1], device=counts_N.device) < counts_N[:, None]
            seen_NK = (weights_NTK * real_NT[..., None]).sum(1)
            total = seen_NK if total is None else total + seen_NK
        assert total is not None
        return total / len(record.sites)


def _check(log_prob_N: Tensor, paths: Paths) -> None:
    """Raise an error if the logits give no valid distribution."""
    broken_N = log_prob_N.isnan()
    if bool(broken_N.any()):
        raise RegardError(
            f"the model's logits leave nothing to choose from at step {int(paths.length_N[broken_N][0])}",
            got=f"NaN, +inf, or −inf for every token, in row {int(paths.ticket_N[broken_N][0])}",
            remedy="Check the inputs and the weights for NaN.",
        )
