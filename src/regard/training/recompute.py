"""Less memory for long inputs: blocks that compute their inside once more in the backward pass (`layers.block`)."""

from __future__ import annotations

from torch import nn

from regard.core.errors import UsageError


def recompute_blocks(model: nn.Module, wanted: bool) -> None:
    """Tell all blocks of a model whether to do so; a model without such blocks is refused, if it is wanted."""
    blocks = [module for module in model.modules() if hasattr(module, "recompute")]
    if wanted and not blocks:
        raise UsageError(
            f"{type(model).__name__} has no Transformer blocks that could recompute",
            remedy="Leave training.recompute out; smaller batches (training.accumulate) need less memory too.",
        )
    for block in blocks:
        block.recompute = wanted  # type: ignore[assignment]
