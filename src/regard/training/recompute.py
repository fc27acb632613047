"""Less memory for long inputs: blocks compute their activations again in the backward pass (`layers.block`)."""

from __future__ import annotations

from torch import nn

from regard.core.errors import UsageError


def recompute_blocks(model: nn.Module, wanted: bool) -> None:
    """Turn this on or off in all blocks of a model. Raises an error if it is wanted and no block can do it."""
    blocks = [module for module in model.modules() if hasattr(module, "recompute")]
    if wanted and not blocks:
        raise UsageError(
            f"{type(model).__name__} has no Transformer blocks that could recompute",
            remedy="Leave training.recompute out; smaller batches (training.accumulate) need less memory too.",
        )
    for block in blocks:
        block.recompute = wanted  # type: ignore[assignment]
