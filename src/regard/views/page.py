"""A result as one HTML file that needs no network and no installation.

Python writes what can be read without scripts (title, statements, tables, texts) and the data; `static/*.js` draws the
rest from the data. Labels and tokens are untrusted text: they are written escaped, as JSON in a block that no browser
executes, and the scripts insert them as text, never as markup. The page's content security policy allows only its own
script and style, by hash, and no connections, so a token could not run even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from regard.views import colours
from regard.views.labels import format_number, visible, visible_line
from regard.views.packed import EXACT, pack, thumbnails
from regard.views.photos import Photo, photo_elements
from regard.views.points import points_svg
from regard.views.result import Curves, Document, Heads, Matrix, Panel, Points, Result, Table, Words, plain

SCRIPTS = ("drawing.js", "matrix.js", "words.js", "document.js", "curves.js", "weights.js", "explorer.js", "page.js")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def write_page(result: Result, path: str | Path) -> None:
    """Write the page to a file."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(_parts(result))


def page(result: Result) -> str:
    """The page as text."""
    return "".join(_parts(result))


def frame(result: Result, *, height: int | None = None) -> str:
    """The page in an iframe, for notebooks: its styles and scripts affect nothing outside."""
    height = height or (860 if result.heads else 560)
    inside = html.escape(page(result), quote=True)
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts allow-downloads" title="{html.escape(result.title)}" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )


def as_json(value: Any) -> str:
    """JSON for a script element: no character of it can end the element."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: _ESCAPES[match.group()], text)


def _parts(result: Result) -> Iterator[str]:
    """The page in parts; the weights come last, so that a browser shows the page before it has read them."""
    script = "".join(["(() => {\n'use strict';\n", *(_static(name) for name in SCRIPTS), "})();\n"])
    style = _static("page.css")
    shown, blocks = _heads(result.heads) if result.heads else (None, [])
    scales = {"sequential": colours.SEQUENTIAL, "light": colours.DIVERGING, "dark": colours.DIVERGING_DARK}
    model = {
        "method": result.method,
        "title": visible_line(result.title),
        "panels": [_panel_data(panel) for panel in result.panels],
        "heads": shown,
        "scales": scales,
    }
    values = {
        "policy": (
            f"default-src 'none'; script-src 'sha256-{_sha256(script)}'; style-src 'sha256-{_sha256(style)}'; "
            "img-src data: blob:; base-uri 'none'; form-action 'none'"
        ),
        "title": _escaped(result.title),
        "method": _escaped(result.method),
        "style": style,
        "script": script,
        "statements": "".join(f'<li dir="auto">{_escaped(text)}</li>' for text in result.statements),
        "explorer": '<section class="card explorer" id="explorer"></section>' if result.heads else "",
        "panels": "".join(_section(number, panel) for number, panel in enumerate(result.panels)),
        "model": as_json(model),
    }
    head, tail = _static("page.html").split("{{weights}}")
    yield _fill(head, values)
    yield from blocks
    yield _fill(tail, values)


def _fill(template: str, values: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match.group(1)], template)


def _static(name: str) -> str:
    return (files("regard.views") / "static" / name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _escaped(text: str) -> str:
    return html.escape(visible_line(text))


def _panel_data(panel: Panel) -> dict[str, Any]:
    """A panel for the scripts, with visible labels."""
    if isinstance(panel, Table | Points | Photo):  # these are in the page already
        return {"kind": "table", "name": visible_line(panel.name)}
    shown = panel.as_dict() | {"name": visible_line(panel.name), "note": visible_line(panel.note)}
    if isinstance(panel, Matrix):
        return shown | {"rows": [visible(x) for x in panel.rows], "columns": [visible(x) for x in panel.columns]}
    if isinstance(panel, Words):
        return shown | {"labels": [visible(x) for x in panel.labels]}
    if isinstance(panel, Document):
        return shown | {"labels": [[visible(x) for x in sentence] for sentence in panel.labels]}
    assert isinstance(panel, Curves)
    lines = {visible(label): points for label, points in shown["series"].items()}
    bands = {visible(label): points for label, points in shown["bands"].items()}
    return shown | {"x": visible_line(panel.x), "y": visible_line(panel.y), "series": lines, "bands": bands}


def _section(number: int, panel: Panel) -> str:
    """What can be read without scripts: the name, the note, a table's cells, a text's words."""
    body = ""
    if isinstance(panel, Table):
        body = _table(panel)
    elif isinstance(panel, Points):
        body = points_svg(panel)
    elif isinstance(panel, Photo):
        body = photo_elements(panel)
    elif isinstance(panel, Words):
        body = f'<p class="words" dir="auto">{_word_elements(panel.labels)}</p>'
    elif isinstance(panel, Document):
        lines = zip(panel.margin, panel.labels, strict=True)
        body = "".join(
            f'<div class="sentence"><span class="weight">{format_number(weight, 3)}</span>'
            f'<p class="words" dir="auto">{_word_elements(labels)}</p></div>'
            for weight, labels in lines
        )
    note = f'<p class="note" dir="auto">{_escaped(panel.note)}</p>' if panel.note else ""
    return (
        f'<section class="card panel" aria-labelledby="name-{number}"><h2 id="name-{number}" dir="auto">'
        f'{_escaped(panel.name)}</h2><div class="body" id="panel-{number}">{body}</div>{note}</section>\n'
    )


def _word_elements(labels: list[str]) -> str:
    return " ".join(f"<bdi>{html.escape(visible(label))}</bdi>" for label in labels)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col" dir="auto">{_escaped(name)}</th>' for name in table.columns)
    rows = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in table.rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(value: str | float | int | None) -> str:
    if isinstance(value, bool | str):
        return f'<td dir="auto">{html.escape(visible(str(value)))}</td>'
    return f'<td class="number">{html.escape(format_number(value))}</td>'


def _heads(heads: Heads) -> tuple[dict[str, Any], Iterator[str]]:
    """The explorer's data, and the weights as script elements that the page unpacks one by one."""
    exact = sum(weights.numel() for site in heads.sites.values() for weights in site.kinds.values()) <= EXACT
    texts: list[list[str]] = []
    sites: list[dict[str, Any]] = []
    blocks: list[str] = []

    def labels(given: list[str]) -> int:
        text = [visible(label) for label in given]
        if text not in texts:
            texts.append(text)
        return texts.index(text)

    for place, (name, site) in enumerate(heads.sites.items()):
        kinds: dict[str, Any] = {}
        for kind, weights in site.kinds.items():
            weights = weights.detach().float()
            mean = weights.shape[0] > 1
            shown = [*weights, weights.mean(dim=0)] if mean else [*weights]
            packed = [pack(matrix, exact=exact) for matrix in shown]
            small = thumbnails(torch.stack(shown))
            kinds[kind] = {"heads": [matrix.facts() for matrix in packed], "mean": mean, "small": small}
            for head, matrix in enumerate(packed):
                key = f"w-{place}-{heads.kinds.index(kind)}-{head}"
                blocks.append(f'<script type="application/octet-stream;base64" id="{key}">{matrix.text}</script>\n')
        sites.append(
            {"name": visible(name), "rows": labels(site.rows), "columns": labels(site.columns), "kinds": kinds}
        )
    return {"kinds": heads.kinds, "texts": texts, "sites": sites, "exact": exact}, iter(blocks)
