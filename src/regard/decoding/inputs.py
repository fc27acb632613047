"""The inputs of several requests as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def joined(rows: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Stack tensors without a batch axis; sequences [S] of different lengths are padded with zeros (False)."""
    batch = {}
    for name in rows[0]:
        parts = [row[name] for row in rows]
        if parts[0].dim() == 1:
            longest = max(len(part) for part in parts)
            parts = [part if len(part) == longest else F.pad(part, (0, longest - len(part))) for part in parts]
        batch[name] = torch.stack(parts)
    return batch
