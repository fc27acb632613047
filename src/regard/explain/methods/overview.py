"""An overview of a run on one page: raw and effective attention of every head, and hidden token attribution.

Attribution belongs to a whole block, not to a head: it is shown as the share of each input token in the block's states,
beside the heads of that block's self-attention. It is estimated with random probes, and only for texts up to `longest`
tokens, since it needs many backward passes; `--probes 0` leaves it out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.core.errors import UsageError
from regard.explain.methods.attribute import attributed
from regard.explain.methods.effective import effective
from regard.explain.methods.maps import maps
from regard.explain.traces import Trace
from regard.views.result import Heads, HeadSite, Panel, Result

LOOKS_AT = "trace"
NEEDS = {"value_path": True}


def overview(trace: Trace, *, sites: str = "*", row: int = 0, probes: int = 8, longest: int = 64) -> Result:
    """Raw and effective attention and attribution of every head and layer, for one page."""
    if probes < 0:
        raise UsageError("probes must not be negative", got=probes, expected="0 (none) or more")
    raw, part = maps(trace, sites=sites, row=row), effective(trace, sites=sites, row=row)
    assert part.heads is not None
    shares, statements = _shares(trace, list(part.heads.sites), row, probes, longest)
    explorer = {
        name: HeadSite(
            site.rows, site.columns, {**site.kinds, **({"attribution": shares[name]} if name in shares else {})}
        )
        for name, site in part.heads.sites.items()
    }
    kinds = ["raw", "effective", *(["attribution"] if shares else [])]
    panels: list[Panel] = [*raw.panels, *[panel for panel in part.panels if panel.as_dict()["kind"] == "table"]]
    return replace(
        raw,
        method="overview",
        panels=panels,
        statements=[*dict.fromkeys([*raw.statements, *part.statements]), *statements],
        data={"maps": raw.data, "effective": part.data},
        heads=Heads(explorer, kinds),
    )


def _shares(trace: Trace, sites: list[str], row: int, probes: int, longest: int) -> tuple[dict[str, Any], list[str]]:
    """Contributions [1,T,T] for the self-attention of each block, and a statement, such as why there are none."""
    if not probes or trace.subject is None:
        return {}, []
    tokens = max(len(rows[row]) for rows in trace.sides.values())
    if tokens > longest:
        return {}, [f"Attribution is left out for {tokens} tokens; --longest {tokens} includes it."]
    known: dict[str, Any] = {}
    shares = {}
    for site in sites:
        layer = site.removesuffix(".self")
        if layer != site and layer in trace.hidden:
            moved = attributed(trace, layer, row=row, probes=probes, known=known)
            shares[site] = moved.contributions[None].float()
    statement = f"Attribution is estimated with {probes} random probes per token; --method attribute gives more."
    return shares, [statement] if shares else []
