"""Functions that recurrent models share: the states of layers by name, and rows with all padding on the right."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.layers.recurrent import RecurrentState


def layer_states(carried: Mapping[str, Tensor] | None, count: int) -> list[RecurrentState | None]:
    """The state of each layer, from a mapping with names such as "0.hidden"."""
    if carried is None:
        return [None] * count
    parts: list[RecurrentState | None] = []
    for number in range(count):
        own = f"{number}."
        parts.append({name.removeprefix(own): part for name, part in carried.items() if name.startswith(own)})
    return parts


def to_the_left(ids: Tensor, real: Tensor) -> tuple[Tensor, Tensor | None]:
    """Rows with all padding moved to the right, and the new position of each old position; None if nothing moved."""
    order = torch.sort((~real).to(torch.uint8), dim=1, stable=True).indices
    if bool((order == torch.arange(ids.shape[1], device=ids.device)).all()):
        return ids, None
    return ids.gather(1, order), order.argsort(1)
