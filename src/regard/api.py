"""The verbs, for Python, the command line and the server alike. Results are plain numbers, lists and strings."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class FourKeys:
    """The lectures' worked example: which of the keys A A B A does a query for B look at?"""

    keys: list[str]
    queries: list[str]
    weights: list[list[float]]
    contexts: list[list[float]]


def four_keys() -> FourKeys:
    """Attend to A A B A with A = (1, 0) and B = (0, 1): not at all selectively, a little, and sharply."""
    import torch

    import regard

    a, b = [1.0, 0.0], [0.0, 1.0]
    keys = torch.tensor([a, a, b, a])
    # Scaling a query by ln 3 is taking powers of 3 instead of powers of e.
    queries = {
        "no query: the plain average": torch.zeros(2),
        "B, in powers of 3": torch.tensor(b) * math.log(3),
        "10 · B": torch.tensor(b) * 10,
    }
    attended = regard.attend(torch.stack(list(queries.values())), keys, keys, score="dot")
    return FourKeys(list("AABA"), list(queries), attended.weights.tolist(), attended.context.tolist())
