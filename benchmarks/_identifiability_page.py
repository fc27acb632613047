"""The tables and figures of docs/identifiability.md, from the numbers that `identifiability.py` has stored.

A table stands in the page between `<!-- NAME -->` and `<!-- end of NAME -->`; all else in the page is written by hand.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from pathlib import Path
from statistics import fmean, quantiles
from typing import Any

from regard.views.result import Curves, Result

AMONG = ("sequence", "vocabulary")
VARIABLES = {"minilm": "REGARD_MINILM", "stories": "REGARD_STORIES", "translator": "REGARD_TRANSLATOR"}
EXAMPLE = (
    "Consumers would still have to get a descrambling security card from their cable operator to plug into the set . "
    "To watch pay television , consumers would insert into the set a security card provided by their cable service ."
)
EXAMPLE_SITE = "encoder.2.self"

KINDS = {
    "minilm": {"encoder.self": "MiniLM-L6 (width 32)"},
    "stories": {"decoder.self": "stories15M, causal (48)"},
    "translator": {
        "encoder.self": "translator, encoder (32)",
        "decoder.self": "translator, decoder, causal (32)",
        "decoder.cross": "translator, cross (32)",
    },
}
CORRELATIONS = {
    "r": "r",
    "r_random": "r if T were random",
    "r_others": "r without special tokens and `.`",
    "r_random_others": "the same if T were random",
}
EDGES = (16, 32, 48, 64, 96, 128, 192, 256)
LONG = {"minilm": (64, 256), "stories": (192, 192), "translator": (40, 256)}  # keys of texts with a large null space
LATE = 6  # from this token on: in a causal model the first ones have few others to come from
NAMES = {"minilm": "MiniLM-L6", "stories": "stories15M"}
WHERE = {"sequence": "sentence", "vocabulary": "vocabulary"}

Point = tuple[float, float]
Found = dict[str, Any]


def write(work: Path, out: Path) -> None:
    """Everything that the stored numbers allow; the rest of the page is left as it is."""
    parts: Found = {}
    for path in sorted(work.glob("*-*.json")):
        parts[path.stem] = json.loads(path.read_text())["found"]
    (out / "images").mkdir(parents=True, exist_ok=True)
    if (picture := work / "identifiability_example.svg").is_file():
        shutil.copy(picture, out / "images" / picture.name)
    effective = {name: parts[f"effective-{name}"] for name in KINDS if f"effective-{name}" in parts}
    identify = {name: parts[f"identify-{name}"] for name in NAMES if f"identify-{name}" in parts}
    attribute = {name: parts[f"attribute-{name}"] for name in NAMES if f"attribute-{name}" in parts}
    tables, figures = {}, {}
    if effective:
        tables |= {"lengths": lengths_table(effective), "marks": marks_table(effective)}
        figures |= {"effective": lengths_figure(effective), "marks": marks_figure(effective)}
    if identify:
        tables["tokens"] = tokens_table(identify)
        figures["tokens"] = tokens_figure(identify)
    if attribute:
        tables["attribution"] = attribution_table(attribute)
        figures["attribution"] = attribution_figure(attribute)
    for name, figure in figures.items():
        figure.save(out / "images" / f"identifiability_{name}.svg")
    fill(out / "identifiability.md", tables)


def fill(page: Path, tables: dict[str, list[list[str]]]) -> None:
    text = page.read_text() if page.is_file() else ""
    for name, (head, *rows) in tables.items():
        lines = [head, ["---"] * len(head), *rows]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        block = f"{begin}\n{table}\n{end}"
        if begin in text:
            text = re.sub(f"{begin}.*?{end}", lambda _, block=block: block, text, flags=re.DOTALL)
        else:
            print(f"{page} has no place for {name}:\n{block}")
    if page.is_file():
        page.write_text(text)


def kind_of(site: str) -> str:
    part, _, kind = site.split(".")
    return f"{part}.{kind}"


def sites(found: list[Found], kind: str) -> list[tuple[Found, Found]]:
    """Each text with each of its sites of that kind."""
    return [(text, site) for text in found for site in text["sites"] if kind_of(site["site"]) == kind]


def binned(found: list[Found], kind: str) -> dict[int, list[Found]]:
    """By the upper edge of the number of keys; each text as the mean over its sites."""
    groups: dict[int, list[Found]] = defaultdict(list)
    for text in found:
        own = [site for _, site in sites([text], kind)]
        edge = next(edge for edge in EDGES if own[0]["keys"] <= edge)
        groups[edge].append({name: fmean(site[name] for site in own) for name in ("keys", *CORRELATIONS, "null")})
    return dict(sorted(groups.items()))


def lengths_table(effective: Found) -> list[list[str]]:
    names = [f"{low + 1}–{high}" for low, high in zip((0, *EDGES), EDGES, strict=False)]
    rows = [["keys", *names]]
    for model, found in effective.items():
        for kind, name in KINDS[model].items():
            groups = binned(found, kind)
            for key, words in CORRELATIONS.items():
                cells = (f"{_mean(groups[edge], key):.3f}" if edge in groups else "" for edge in EDGES)
                rows.append([f"**{name}**: {words}" if key == "r" else words, *cells])
            cells = (f"{_mean(groups[edge], 'null'):.1f}" if edge in groups else "" for edge in EDGES)
            rows.append(["null space, dimensions", *cells])
            rows.append(["texts", *(str(len(groups.get(edge, []))) for edge in EDGES)])
    return rows


def lengths_figure(effective: Found) -> Result:
    r: dict[str, list[Point]] = {}
    null: dict[str, list[Point]] = {}
    bands: dict[str, list[tuple[float, float, float]]] = {}
    for model, found in effective.items():
        for kind, name in KINDS[model].items():
            for group in binned(found, kind).values():
                at = _mean(group, "keys")
                r.setdefault(name, []).append((at, _mean(group, "r")))
                null.setdefault(name, []).append((at, _mean(group, "null")))
                bands.setdefault(name, []).append((at, *_tenths([one["r"] for one in group])))
    note = "means over heads, layers and texts; bands: the middle 80 % of the texts; in brackets the width of a head"
    return Result(
        "identifiability",
        "Raw against effective attention by length",
        [
            Curves("Pearson's r of A and A⊥", "keys", "r", r, bands=bands, note=note),
            Curves("Dimension of the null space, mean over queries", "keys", "dimensions", null),
        ],
    )


def marked(found: list[Found], kind: str, mark: str, low: int, high: int) -> list[Found]:
    chosen = (site for _, site in sites(found, kind) if low <= site["keys"] <= high and mark in site["marks"])
    return [{**site["marks"][mark], "layer": int(site["site"].split(".")[1])} for site in chosen]


def marks_table(effective: Found) -> list[list[str]]:
    rows = [["attention", "token", "of the keys", "A", r"\|A⊥\|", r"\|A∥\|", "A·‖T‖", "A⊥ left of A"]]
    for model, found in effective.items():
        spans = [("", LONG[model])] if model != "minilm" else [("", LONG[model]), (", ≤ 32 tokens", (1, 32))]
        for kind, name in KINDS[model].items():
            for words, span in spans:
                names = dict.fromkeys(mark for _, site in sites(found, kind) for mark in site["marks"])
                for mark in sorted(names, key="others".__eq__):
                    one = marked(found, kind, mark, *span)
                    hidden = [x["null"] for x in one if x["null"] is not None]
                    cells = [_percent(_mean(one, key)) for key in ("keys", "raw", "effective")]
                    cells += [
                        _percent(fmean(hidden)) if hidden and span[1] > 48 else "–",
                        _percent(_mean(one, "reach")),
                    ]
                    left = _percent(_mean(one, "left") / _mean(one, "raw"))
                    rows.append([name.split(" (")[0] + words, f"`{mark}`" if mark != "others" else mark, *cells, left])
    return rows


def marks_figure(effective: Found) -> Result:
    panels = []
    for model, marks in {"minilm": ("[CLS]", "[SEP]"), "stories": ("<s>", ".")}.items():
        series: dict[str, list[Point]] = {}
        for mark in marks if model in effective else ():
            (kind,) = KINDS[model]
            found = marked(effective[model], kind, mark, *LONG[model])
            for key, words in (("raw", "of A"), ("effective", "of |A⊥|"), ("reach", "of A·‖T‖")):
                layers = sorted({one["layer"] for one in found})
                series[f"“{mark}”, share {words}"] = [
                    (layer + 1, fmean(one[key] for one in found if one["layer"] == layer)) for layer in layers
                ]
        low, high = LONG[model]
        span = f"{low} tokens" if low == high else f"{low} to {high} tokens"
        panels.append(Curves(f"{NAMES[model]}, texts of {span}", "layer", "share", series))
    return Result("identifiability", "What falls on special tokens", panels)


def tokens_table(identify: Found) -> list[list[str]]:
    layers = max(len(run["layers"]) for runs in identify.values() for run in runs)
    rows = [["model", "among", "map", "distance", *(f"layer {number + 1}" for number in range(layers))]]
    for model, runs in identify.items():
        for run in runs:
            groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
            for one in run["shares"]:
                groups[one["among"], one["map"], one["distance"]].append(_percent(one["share"]))
            rows += [[NAMES[model], WHERE[where], kind, by.upper() if len(by) == 2 else by, *cells]
                     for (where, kind, by), cells in groups.items()]  # fmt: skip
    return rows


def tokens_figure(identify: Found) -> Result:
    panels = []
    for where in AMONG:
        series: dict[str, list[Point]] = {}
        bands: dict[str, list[tuple[float, float, float]]] = {}
        for model, runs in identify.items():
            for run in runs:
                for one in run["shares"]:
                    if one["among"] == where and one["distance"] == "cosine":
                        name = f"{NAMES[model]}, {'no map' if one['map'] == 'none' else one['map']}"
                        layer = run["layers"].index(one["layer"]) + 1
                        series.setdefault(name, []).append((layer, one["share"]))
                        bands.setdefault(name, []).append((layer, *one["interval"]))
        title = f"Own token nearest within the {WHERE[where]}, by cosine"
        panels.append(Curves(title, "layer", "share", series, bands=bands, note="bands: 95 % intervals"))
    return Result("identifiability", "Tokens told from their hidden states", panels)


def attribution_table(attribute: Found) -> list[list[str]]:
    layers = sorted({one["layer"].split(".")[1] for found in attribute.values() for one in found}, key=int)
    rows = [["model", "", *(f"layer {int(layer) + 1}" for layer in layers)]]
    for model, found in attribute.items():
        groups = _by_layer(found)
        own = [[share for one in group for share in one["own"]] for group in groups]
        late = [[share for one in group for share in one["own"][LATE - 1 :]] for group in groups]
        other = [[float(main) for one in group for main in one["not_main"]] for group in groups]
        rows.append([NAMES[model], "self-contribution, mean", *(_percent(fmean(values)) for values in own)])
        spans = (" to ".join(f"{100 * end:.0f}" for end in _tenths(values)) + " %" for values in own)
        rows.append(["", "middle 80 % of the tokens", *spans])
        rows.append(
            ["", f"self-contribution from token {LATE} on, mean", *(_percent(fmean(values)) for values in late)]
        )
        rows.append(["", "not their own main contributor", *(_percent(fmean(values)) for values in other)])
        looks = (f"{_mean(group, 'attention_r'):.2f}" for group in groups)
        rows.append(["", "r with this layer's attention", *looks])
        errors = (_percent(_mean(group, "error")) for group in groups)
        rows.append(["", "standard error of a squared norm, mean", *errors])
        off = (max(one["off"] for one in group if one.get("off") is not None) for group in groups)
        rows.append(["", "largest error of a contribution, first sentence", *(f"{value:.3f}" for value in off)])
    return rows


def attribution_figure(attribute: Found) -> Result:
    own: dict[str, list[Point]] = {}
    other: dict[str, list[Point]] = {}
    bands: dict[str, list[tuple[float, float, float]]] = {}
    for model, found in attribute.items():
        for layer, group in enumerate(_by_layer(found), 1):
            values = [share for one in group for share in one["own"]]
            own.setdefault(NAMES[model], []).append((layer, fmean(values)))
            bands.setdefault(NAMES[model], []).append((layer, *_tenths(values)))
            main = [float(value) for one in group for value in one["not_main"]]
            other.setdefault(NAMES[model], []).append((layer, fmean(main)))
    note = "bands: the middle 80 % of the tokens"
    return Result(
        "identifiability",
        "Where hidden states come from",
        [
            Curves("What a token contributes to its own state", "layer", "share", own, bands=bands, note=note),
            Curves("Tokens that are not their own main contributor", "layer", "share of tokens", other),
        ],
    )


def _by_layer(found: list[Found]) -> list[list[Found]]:
    layers = sorted({one["layer"] for one in found}, key=lambda name: int(name.split(".")[1]))
    return [[one for one in found if one["layer"] == layer] for layer in layers]


def _mean(found: list[Found], key: str) -> float:
    return fmean(one[key] for one in found)


def _tenths(values: list[float]) -> tuple[float, float]:
    """The ends of the middle 80 %."""
    cuts = quantiles(values, n=10, method="inclusive") if len(values) > 1 else values
    return cuts[0], cuts[-1]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
