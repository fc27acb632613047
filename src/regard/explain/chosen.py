"""Selects the sites of a trace for a method; also titles, sentences and pictures that several methods share."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.core.articles import with_article
from regard.core.errors import UnknownName, UsageError
from regard.explain.traces import Look, Site, Trace
from regard.views.result import Matrix


def chosen(trace: Trace, sites: str = "*", *, own: bool = False) -> list[Site]:
    """The matching sites; with `own`, only self-attention."""
    if not trace.sites and any(not labels for rows in trace.sides.values() for labels in rows):
        remedy = "Give a longer text, or use --method words."
        raise UsageError(
            "this text is too short to look back in", got="one token", expected="two or more", remedy=remedy
        )
    if not trace.sites:
        raise UsageError(
            "this model has no attention to look at",
            got=f"{with_article(trace.model)} without attention",
            remedy=suited(trace),
        )
    matching_sites = [
        site for name, site in trace.sites.items() if fnmatch.fnmatchcase(name, sites) or name.startswith(f"{sites}.")
    ]
    if not matching_sites:
        raise UnknownName("layer or site", sites, trace.sites)
    if own and not (matching_sites := [site for site in matching_sites if looks_at_itself(site)]):
        named = [name for name in trace.sites if fnmatch.fnmatchcase(name, sites) or name.startswith(f"{sites}.")]
        raise UsageError(
            "no self-attention among these sites",
            got=", ".join(named[:4]) + (" …" if len(named) > 4 else ""),
            expected="sites such as encoder.0.self",
            remedy=suited(trace),
        )
    return matching_sites


def suited(trace: Trace) -> str:
    """A remedy that names methods which can explain this run."""
    if "decoder.orders" in trace.hidden:
        return "Use --method orders."
    nested = ["document"] if any(site.rows is not None for site in trace.sites.values()) else []
    return f"Use --method {' or '.join([*nested, *(['maps'] if trace.sites else _without_attention(trace))])}."


def _without_attention(trace: Trace) -> list[str]:
    """Methods that explain a model without attention. Images have many states of many numbers, which takes minutes;
    the gradient of their answer takes seconds."""
    headless = trace.subject is not None and trace.subject.score is None
    if headless:
        return ["attribute"]
    return ["attribute --how gradient"] if trace.grids else ["words", "attribute"]


def looked(trace: Trace, sites: str, row: int) -> list[Look]:
    """What the matching sites did for one input."""
    return [look for site in chosen(trace, sites) for look in trace.looks(site.name, row)]


def looks_at_itself(site: Site) -> bool:
    return site.queries == site.keys or site.keys == "prefix"


def pick(trace: Trace, name: str | None, side: str | None = None) -> str:
    """The name of a layer of hidden states, given by name or number; by default the last."""
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
    """The name of the input of the stack to which a layer belongs."""
    return f"{layer.split('.')[0]}.input"


def looked_at(trace: Trace, row: int = 0) -> str:
    """The input of a run, for titles: its text, or its tokens if the text is not known."""
    if trace.texts:
        trace.check_row(row)
        return short(trace.texts[row].split())
    read = []
    for side in trace.sides:
        if side in trace.grids:
            read.append("an image of {} × {} patches".format(*trace.grids[side]))
        elif not read or read[0].startswith("an image"):
            read.append(short(trace.labels(side, row)))
    return ", ".join(read[:2])


def answered(trace: Trace, row: int = 0) -> list[str]:
    """The model's answer in sentences, and how it mixes its layers if it does; an empty list for a model without an
    answer."""
    shares = (trace.output.get("layers") or [[]] * (row + 1))[row]
    listed = ", ".join(f"{name} {share:.0%}" for name, share in shares)
    return [*_answer(trace, row), *([f"The layers are mixed: {listed}."] if shares else [])]


def _answer(trace: Trace, row: int) -> list[str]:
    given: dict[str, Any] = trace.output
    if "translations" in given:
        own = {"parsing": "The parse", "summarisation": "The summary"}.get(trace.task, "The translation")
        return [f"{own if given.get('decoded') else 'The target'}: {given['translations'][row]}"]
    if "captions" in given:
        unknown = ", ".join(map(repr, (given.get("unknown") or [[]] * (row + 1))[row]))
        return [f"{'The caption' if given.get('decoded') else 'The given caption'}: {given['captions'][row]}",
                *([f"The model does not know {unknown}: it reads <unk> there."] if unknown else [])]  # fmt: skip
    if "next" in given:
        return [f"The most likely next tokens: {_ranked(given['next'][row])}."]
    if "classes" in given:
        return [f"The answer is {_ranked([given['classes'][row]])}."]
    if "values" in given:
        return [f"The answer is {given['values'][row]:.3f}."]
    if "cosines" in given:
        return [f"The cosine of the two vectors is {given['cosines'][row]:.3f}."]
    if "bits" in given:
        wrong, bits = given["bits"][row]
        return [f"{wrong} of the {bits} bits of the answer are wrong."]
    if "spans" in given:
        labels = trace.labels("input", row)
        first, last = given["spans"][row]
        if last == 0:  # [CLS]
            return ["The text holds no answer, says the model."]
        return [f"The answer is {' '.join(labels[first : last + 1])!r} (tokens {first} to {last})."]
    if trace.task == "masked_lm" and "[MASK]" in trace.labels("input", row):
        return [f"The most likely tokens for the gaps: {', '.join(map(repr, given['tokens'][row]))}."]
    return []


def scored(trace: Trace) -> str:
    """The name of the number that an answer is scored by."""
    if "values" in trace.output:
        return "number"
    return "cosine" if "cosines" in trace.output else "log p of the answer"


def _ranked(pairs: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{word!r} ({share:.0%})" for word, share in pairs[:3])


def pictured(
    trace: Trace, side: str, name: str, values: Tensor, *, diverging: bool = False, note: str = ""
) -> list[Matrix]:
    """One value for each patch of a side [T] as a picture, special tokens in the note; empty if it is not an image."""
    if side not in trace.grids:
        return []
    height, width = trace.grids[side]
    special = list(zip(trace.labels(side), values.tolist(), strict=True))[: -height * width]
    beside = [f"{label} is {value:.3g}".replace("-", "−") for label, value in special]
    note = "; ".join([f"{', '.join(beside)} and is not shown", *([note] if note else [])]) if beside else note
    patches = values[-height * width :].reshape(height, width)
    rows, columns = [str(row) for row in range(height)], [str(column) for column in range(width)]
    return [Matrix(name, rows, columns, numbers(patches), diverging, note, square=True)]


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def short(labels: list[str], most: int = 60) -> str:
    text = " ".join(labels)
    return text if len(text) <= most else text[: most - 1] + "…"


def numbers(tensor: Tensor) -> list[list[float]]:
    rows: list[list[float]] = tensor.float().tolist()
    return rows
