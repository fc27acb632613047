"""Which sites of a trace a method looks at, and words that several methods use."""

from __future__ import annotations

import fnmatch

from torch import Tensor

from regard.core.errors import UnknownName, UsageError
from regard.explain._trace import Site, Trace


def chosen(trace: Trace, sites: str = "*", *, own: bool = False) -> list[Site]:
    """The sites that match; `own`: only where a side looks at itself."""
    if not trace.sites:
        raise UsageError(
            "this model has no attention to look at",
            got=f"a {trace.model} without attention",
            remedy="Look at its hidden states: --method attribute, gradients or identify.",
        )
    found = [
        site for name, site in trace.sites.items() if fnmatch.fnmatchcase(name, sites) or name.startswith(f"{sites}.")
    ]
    if not found:
        raise UnknownName("layer or site", sites, trace.sites)
    if own and not (found := [site for site in found if looks_at_itself(site)]):
        raise UsageError("no self-attention among these sites", got=sites, expected="sites such as encoder.0.self")
    return found


def looks_at_itself(site: Site) -> bool:
    return site.queries == site.keys or site.keys == "prefix"


def pick(trace: Trace, name: str | None, side: str | None = None) -> str:
    """A layer of hidden states by name or number; without one the last."""
    layers = trace.layers(side)
    if not layers:
        raise UsageError("this trace holds no hidden states", remedy="Trace with hidden=True.")
    if name is None:
        return layers[-1]
    if name in layers:
        return name
    if name.lstrip("-").isdigit() and -len(layers) <= int(name) < len(layers):
        return layers[int(name)]
    raise UnknownName("layer", name, layers)


def input_of(trace: Trace, layer: str) -> str:
    """The name of what enters the stack that a layer belongs to."""
    return f"{layer.split('.')[0]}.input"


def short(labels: list[str], most: int = 60) -> str:
    text = " ".join(labels)
    return text if len(text) <= most else text[: most - 1] + "…"


def numbers(tensor: Tensor) -> list[list[float]]:
    found: list[list[float]] = tensor.float().tolist()
    return found
