"""The page and the figure of `lengths.py`: docs/length_generalisation.md and docs/images/length_generalisation.svg.

What the page says under `SHOWN` is written by hand and kept when the rest is written again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from regard.views.result import Result, Table

SHOWN = "## What the figure shows"
IMAGE = "images/length_generalisation.svg"
# As in views.picture: text stays text, and the same numbers give the same bytes.
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "regard", "svg.fonttype": "none", "font.family": ["DejaVu Sans"], "font.size": 9
}  # fmt: skip
COLOURS = ("#0060a8", "#c45a00", "#00785a", "#a0407e", "#5a5a5a", "#8a6d00", "#3f9bd6", "#7a3000", "#4b2a85", "#000000")
MARKERS = "osD^vPX<>*"
DASHES = ("-", "--", "-.", ":")


def draw(result: Result, trained: int, path: Path) -> None:
    """Loss by position: every line has a marker of its own, and its place in the legend is its place at the end."""
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        axes = figure.add_subplot()
        lines = []
        for place, (name, facts) in enumerate(result.data["models"].items()):
            middles = [(first + last) / 2 for first, last in facts["buckets"]]
            (line,) = axes.plot(
                middles, facts["loss"], label=name, color=COLOURS[place % 10], marker=MARKERS[place % 10],
                linestyle=DASHES[place % 4], linewidth=1.3, markersize=5, markerfacecolor="white",
                markevery=(0, 2),
            )  # fmt: skip
            stops_early = facts["buckets"][-1][1] < result.data["longest"]
            lines.append((stops_early, -facts["loss"][-1], line))
        axes.axvline(trained, color="#555555", linestyle=(0, (1, 2)), linewidth=1.2)
        beside = {"xycoords": ("data", "axes fraction"), "xytext": (4, 0), "textcoords": "offset points"}
        axes.annotate(f"trained on {trained}", (trained, 1.0), va="top", fontsize=8, **beside)
        axes.set(xlabel="characters read before", ylabel="loss, nats a character", xlim=(0, result.data["longest"]))
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        ordered = [line for *_, line in sorted(lines, key=lambda entry: entry[:2])]
        axes.legend(
            handles=ordered, frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=4,
            title="highest loss at the end first",
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})


def table(result: Result) -> str:
    (panel,) = [panel for panel in result.panels if isinstance(panel, Table)]
    lines = [f"| {' | '.join(panel.columns)} |", "|---" * len(panel.columns) + "|"]
    for name, *cells in panel.rows:
        shown = ["" if cell is None else f"{cell:.3f}" for cell in cells]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def write(path: Path, result: Result, about: str, notes: str, budget: str) -> None:
    by_hand = path.read_text(encoding="utf-8").partition(SHOWN)[2].strip() if path.is_file() else ""
    statements = "\n".join(f"- {sentence}" for sentence in result.statements)
    parts = [
        "# Length generalisation", about, f"![Loss by position, one line for each position scheme]({IMAGE})", SHOWN,
        by_hand.partition("\n## ")[0].strip(), "## Numbers", notes, budget, table(result), statements,
    ]  # fmt: skip
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")


def processor() -> str:
    """The CPU's name as Linux has it."""
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else "a CPU of unknown name"
