"""What every model returns when it is called: named tensors, None where there is no such thing.

The names of `transformers` are kept (`logits`, `start_logits`, …), so that code written for its models carries over.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class Output:
    """`hidden` [B,T,D] are the last states, `logits` those of the model's head.

    Logits over a vocabulary are given as a function, which is called on first use: training works with `hidden`, and
    never holds all of them at once. They are worked out in the mode (gradients or not) that the model ran in.
    """

    __slots__ = ("_logits", "_mode", "hidden", "log_prob", "pair_logits", "pooled")

    def __init__(
        self,
        hidden: Tensor | None = None,
        logits: Tensor | Callable[[], Tensor] | None = None,
        pooled: Tensor | None = None,
        pair_logits: Tensor | None = None,
        log_prob: Tensor | None = None,
    ) -> None:
        self.hidden = hidden
        self._logits = logits
        self._mode = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        self.pooled = pooled
        """One vector for the whole input [B,D]."""
        self.pair_logits = pair_logits
        """Whether the second sentence follows the first [B,2]: index 0 says that it does."""
        self.log_prob = log_prob
        """log p of what was sampled on the way (hard attention, actions); None where nothing was."""

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
        """Of a span head: how likely the answer begins at each token [B,T]."""
        return None if self.logits is None else self.logits[..., 0]

    @property
    def end_logits(self) -> Tensor | None:
        """Of a span head: how likely the answer ends at each token [B,T]."""
        return None if self.logits is None else self.logits[..., 1]

    @property
    def prediction_logits(self) -> Tensor | None:
        return self.logits

    @property
    def seq_relationship_logits(self) -> Tensor | None:
        return self.pair_logits
