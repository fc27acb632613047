"""The result of calling a model: named tensors, or None if the model has no such output.

The names are those of `transformers` (`logits`, `start_logits`, …), so that code written for its models works here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


class Output:
    """`hidden` [B,T,D] are the last states, `logits` the output of the model's head.

    Logits over a vocabulary are given as a function that is called on first use: training works with `hidden` and never
    holds all logits at once. They are computed in the mode (with or without gradients) that the model ran in.
    """

    __slots__ = ("_logits", "_mode", "hidden", "log_prob", "pair_logits", "penalty", "pooled", "state", "values")

    def __init__(
        self,
        hidden: Tensor | None = None,
        logits: Tensor | Callable[[], Tensor] | None = None,
        pooled: Tensor | None = None,
        pair_logits: Tensor | None = None,
        log_prob: Tensor | None = None,
        state: Mapping[str, Tensor] | None = None,
        penalty: Tensor | None = None,
        values: Tensor | None = None,
    ) -> None:
        self.hidden = hidden
        self._logits = logits
        self._mode = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        self.pooled = pooled
        """One vector for the whole input [B,D]."""
        self.pair_logits = pair_logits
        """Logits of whether the second sentence follows the first [B,2]: index 0 means that it does."""
        self.log_prob = log_prob
        """log p of the sampled choices (hard attention, actions); None if nothing was sampled."""
        self.state = state
        """A recurrent model's state after the input; a later call can continue from it."""
        self.penalty = penalty
        """A term that the model itself adds to the loss in training, for each row [B] or each target position [B,T];
        None: there is none."""
        self.values = values
        """The expected return of a policy from each step on [B,T]."""

    @property
    def logits(self) -> Tensor | None:
        if callable(self._logits) and not isinstance(self._logits, Tensor):
            inference, grad = self._mode
            with torch.inference_mode(inference), torch.set_grad_enabled(grad):
                self._logits = self._logits()
        return self._logits

    @property
    def last_hidden_state(self) -> Tensor | None:
        return self.hidden

    @property
    def pooler_output(self) -> Tensor | None:
        return self.pooled

    @property
    def start_logits(self) -> Tensor | None:
        """Span heads: the logit that the answer begins at each token [B,T]."""
        return None if self.logits is None else self.logits[..., 0]

    @property
    def end_logits(self) -> Tensor | None:
        """Span heads: the logit that the answer ends at each token [B,T]."""
        return None if self.logits is None else self.logits[..., 1]

    @property
    def prediction_logits(self) -> Tensor | None:
        return self.logits

    @property
    def seq_relationship_logits(self) -> Tensor | None:
        return self.pair_logits
