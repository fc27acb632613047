"""How scores become weights: one file per chooser, found by its file name."""

from __future__ import annotations

import functools
from typing import cast

from torch import nn

from regard.core import lookup
from regard.core.contracts import Chooser


def make_chooser(name: str) -> Chooser:
    """Make the chooser `name`. Like any new module it is in training mode: `hard` samples until `.eval()` is called."""
    return cast(Chooser, lookup.build(__name__, name))


@functools.cache
def shared_chooser(name: str) -> Chooser:
    """The shared instance for a name, in evaluation mode, so that it draws nothing at random."""
    chooser = make_chooser(name)
    return cast(Chooser, chooser.eval()) if isinstance(chooser, nn.Module) else chooser
