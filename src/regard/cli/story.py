"""Run the lectures: each step trains small models, measures what a lecture says, and shows whether it holds.

regard story                   all steps, in order (offline, under 25 minutes)
regard story recurrent         one step, by name or number
regard story --steps           list them
regard story --pages FOLDER    also write each step as a page with its figure and its numbers
"""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("step", nargs="?", help="a step's name or number; without it, all of them")
    parser.add_argument("--steps", action="store_true", help="list the steps")
    parser.add_argument("--pages", metavar="FOLDER", help="also write pages, figures and numbers there")
    parser.add_argument("--out", default="out/story", help="folder for the small models (default: out/story)")


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from regard import api

    console = Console(highlight=False)
    every = api.story_steps()
    if arguments.steps:
        for name, step in every.items():
            console.print(f"{step.NUMBER:>2}  {name:14}  {step.TITLE}", markup=False)
        return 0
    chosen = every if arguments.step is None else [api.story_step(arguments.step)]
    for name in chosen:
        step = every[name]
        console.rule(f"{step.NUMBER}. {step.TITLE}")
        console.print(_paragraphs(step.LECTURE) + "\n", markup=False)
        with console.status("training and measuring") as status:
            told = api.tell(
                name,
                Path(arguments.out),
                pages=Path(arguments.pages) if arguments.pages else None,
                say=lambda text: status.update(f"training and measuring: {text}"),
            )
        for part in api.panels_for_terminal(told.result, console.width):
            console.print(part)
        for claim in told.claims:
            console.print(f"\n  “{claim.says}”\n  {claim.verdict.upper()}: {claim.because}", markup=False)
        console.print(f"\n{_paragraphs(told.follows)}\n", markup=False)
        console.print("With real data:", *(f"   {command}" for command in step.COMMANDS), sep="\n", markup=False)
    return 0


def _paragraphs(text: str) -> str:
    """Text for the terminal, which breaks the lines itself."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))
