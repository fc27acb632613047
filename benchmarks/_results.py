"""Sections of RESULTS.md: a benchmark replaces its own section and leaves the others as they are."""

from __future__ import annotations

import argparse
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="the page with the table")


def put(path: Path, title: str, text: str) -> None:
    """Write the section `title` in its place, or at the end of a page that has none."""
    first, *sections = path.read_text(encoding="utf-8").split("\n## ") if path.is_file() else ["# Results\n"]
    texts = {section.split("\n", 1)[0]: section.split("\n", 1)[1].strip("\n") for section in sections}
    texts[title] = text.strip("\n")
    parts = [first.rstrip("\n"), *(f"## {name}\n\n{body}" for name, body in texts.items())]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
