"""regard: train, run and explain attention models, from one small core.

Names are imported on first use, so that `import regard` and `regard --help` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from regard.core.version import VERSION as __version__

if TYPE_CHECKING:
    from regard.api import from_pretrained, load, train
    from regard.attention import Attended, Gaussian, Mask, around, attend, causal, padding, window
    from regard.core.taps import watch
    from regard.explain import Trace, trace

_HOMES = {
    "Attended": "regard.attention",
    "Gaussian": "regard.attention",
    "Mask": "regard.attention",
    "Trace": "regard.explain",
    "around": "regard.attention",
    "attend": "regard.attention",
    "causal": "regard.attention",
    "from_pretrained": "regard.api",
    "load": "regard.api",
    "padding": "regard.attention",
    "trace": "regard.explain",
    "train": "regard.api",
    "window": "regard.attention",
    "watch": "regard.core.taps",
}

__all__ = [
    "Attended",
    "Gaussian",
    "Mask",
    "Trace",
    "__version__",
    "around",
    "attend",
    "causal",
    "from_pretrained",
    "load",
    "padding",
    "trace",
    "train",
    "watch",
    "window",
]


def __getattr__(name: str) -> Any:
    if name == "explain":
        return importlib.import_module("regard.explain")
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
