"""A step as a page: a Markdown file, its figure as SVG, and each panel's numbers as CSV beside it."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from types import ModuleType

from regard.story import Claim, Told
from regard.views.result import Curves, Matrix, Panel, Table, plain

CLAIMS = "claims.json"


def write_step(name: str, step: ModuleType, told: Told, folder: Path, *, full: bool = False) -> Path:
    """Write a step's page, figure and numbers into the folder; return the page. `full` is for the recipes' models."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{step.NUMBER:02d}_{name}{'_full' * full}"
    told.result.save(folder / f"{stem}.svg")
    tables = []
    for panel in told.result.panels:
        if (text := csv_of(panel)) is not None:
            file = f"{stem}_{_slug(panel.name)}.csv"
            (folder / file).write_text(text, encoding="utf-8")
            tables.append((panel.name, file))
    command = f"regard story {name}{' --full' * full}"
    (folder / f"{stem}.md").write_text(_page(command, step, told, stem, tables), encoding="utf-8")
    _note_claims(folder / CLAIMS, f"{name}{' --full' * full}", step, told, f"{stem}.md")
    return folder / f"{stem}.md"


def csv_of(panel: Panel) -> str | None:
    """The numbers of a panel; None for a picture without numbers."""
    rows: list[list[object]]
    if isinstance(panel, Table):
        rows = [[*panel.columns]]
        rows += [[*row] for row in panel.rows]
    elif isinstance(panel, Curves):
        rows = [["line", panel.x, panel.y]]
        rows += [[label, x, y] for label, points in panel.series.items() for x, y in points]
    elif isinstance(panel, Matrix):
        rows = [["", *panel.columns], *([label, *row] for label, row in zip(panel.rows, panel.values, strict=True))]
    else:
        return None
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([plain(cell) for cell in row] for row in rows)
    return buffer.getvalue()


def index_page(folder: Path) -> str:
    """The list of steps and the table of claims, from the entries that the steps wrote into the folder."""
    noted = json.loads((folder / CLAIMS).read_text(encoding="utf-8")) if (folder / CLAIMS).exists() else {}
    ordered = sorted(noted.values(), key=lambda entry: (entry["number"], entry["name"]))
    thread = "\n".join(
        f"{entry['number']}. [{entry['title']}]({entry['page']})" for entry in ordered if " " not in entry["name"]
    )
    rows = "\n".join(
        f"| {claim['says']} | `regard story {entry['name']}` | [page]({entry['page']}) | **{claim['verdict']}** "
        f"| {claim['because']} |"
        for entry in ordered
        for claim in entry["claims"]
    )
    return (
        "# The lectures, measured\n\nEach step of the thread runs by one command, `regard story STEP`, offline with "
        "small models. Its page has the lecture's statement, the picture that came out here and what follows. "
        "With `--full` some steps measure the models of the recipes.\n\n"
        f"{thread}\n\n## What the lectures say, and what was measured\n\n"
        f"| the lectures say | command | figure | verdict | measured |\n|---|---|---|---|---|\n{rows}\n"
    )


def _page(command: str, step: ModuleType, told: Told, stem: str, tables: list[tuple[str, str]]) -> str:
    commands = "".join(f"    {command}\n" for command in step.COMMANDS)
    numbers = ", ".join(f"[{title}]({file})" for title, file in tables)
    statements = "".join(f"- {statement}\n" for statement in told.result.statements)
    claims = "".join(_claim(claim) for claim in told.claims)
    trials = getattr(step, "TRIALS", "").strip()
    before = f"## Tried before\n\n{trials}\n\n" if trials and not command.endswith("--full") else ""
    return (
        f"# {step.NUMBER}. {step.TITLE}\n\n{step.LECTURE.strip()}\n\n## Run it\n\n    {command}\n\n"
        f"![{told.result.title}. {' '.join(told.result.statements)}]({stem}.svg)\n\nThe numbers: {numbers}.\n\n"
        f"{statements}\n## Does it hold?\n\n{claims}\n{before}## What follows\n\n{told.follows.strip()}\n\n"
        f"With real data:\n\n{commands}"
    )


def _claim(claim: Claim) -> str:
    return f"> {claim.says}\n\n**{claim.verdict.capitalize()}.** {claim.because}\n\n"


def _note_claims(path: Path, name: str, step: ModuleType, told: Told, page: str) -> None:
    noted = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    noted[name] = {
        "name": name,
        "number": step.NUMBER,
        "title": step.TITLE,
        "page": page,
        "claims": [vars(claim) for claim in told.claims],
    }
    path.write_text(json.dumps(noted, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower().replace("′", " prime")).strip("_")[:40]
