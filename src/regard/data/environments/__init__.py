"""Environments to act in, one file per kind: bandits and tabular MDPs, made here, and those of Gymnasium.

A recipe chooses a kind by its file's name, with options: `environment: {name: bandit, arms: 5, pulls: 10}`. All that
happens in an environment is a function of the seed, the split, its number and the actions, so a resumed run has the
same environments. Many environments are stepped together, as arrays; `as_gymnasium` gives a single environment
Gymnasium's interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.core import lookup
from regard.core.errors import UnknownName
from regard.data.environments._environment import Environment, History, Worlds, step_features

__all__ = ["Environment", "History", "Worlds", "make_environment", "step_features"]


def make_environment(choice: Mapping[str, Any] | str, where: str = "environment") -> Environment:
    """An environment by name, or by a mapping with its name and options."""
    options = {"name": choice} if isinstance(choice, str) else dict(choice)
    name, known = options.pop("name", None), lookup.names(__name__)
    if name not in known:
        raise UnknownName("environment", str(name), known)
    made: Environment = lookup.find(__name__, name).parse(options, where)
    return made
