"""How scores become weights: one file a chooser, found by its file name."""

from __future__ import annotations

import functools
from typing import cast

from torch import nn

from regard.core import lookup
from regard.core.contracts import Chooser


def make_chooser(name: str) -> Chooser:
    """The chooser `name`, in training mode as every new module is: `hard` samples until `.eval()` is called."""
    return cast(Chooser, lookup.build(__name__, name))


@functools.cache
def shared_chooser(name: str) -> Chooser:
    """The instance behind a bare name: one for all, in evaluation mode, so that it draws nothing at random."""
    chooser = make_chooser(name)
    return cast(Chooser, chooser.eval()) if isinstance(chooser, nn.Module) else chooser
