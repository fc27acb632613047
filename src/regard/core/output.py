"""What a model returns when it is called: named tensors, None where there is no such head.

The names of `transformers` are kept (`logits`, `start_logits`, …), so that code written for its models carries over.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Output:
    """`hidden` [B,T,D] are the last states; `logits` those of the model's head."""

    hidden: Tensor
    logits: Tensor | None = None
    pooled: Tensor | None = None
    """One vector for the whole input [B,D]."""
    pair_logits: Tensor | None = None
    """Whether the second sentence follows the first [B,2]: index 0 says that it does."""

    @property
    def last_hidden_state(self) -> Tensor:
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
