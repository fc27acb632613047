"""Run the lectures: each step trains small models, measures what a lecture says, and shows whether it holds.

regard story                   all steps, in order (offline, under 25 minutes)
regard story recurrent         one step, by name or number
regard story recurrent --full  the same with a model that a recipe has trained, in out/ or in --models FOLDER
regard story --steps           list them
regard story --pages FOLDER    also write each step as a page with its figure and its numbers
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("step", nargs="?", help="a step's name or number; without it, all of them")
    parser.add_argument("--steps", action="store_true", help="list the steps")
    parser.add_argument("--pages", metavar="FOLDER", help="also write pages, figures and numbers there")
    parser.add_argument("--out", default="out/story", help="folder for the small models (default: out/story)")
    parser.add_argument("--full", action="store_true", help="measure the models of recipes, where a step can")
    parser.add_argument("--models", metavar="FOLDER", help="with --full: where those are (default: out)")


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from regard import api

    if arguments.models is not None and not arguments.full:
        remedy = "Add --full, or leave --models out."
        raise UsageError("--models is for --full: without it a step trains its own small models", remedy=remedy)
    console = Console(highlight=False)
    every = api.story_steps()
    if arguments.steps:
        for name, step in every.items():
            console.print(f"{step.NUMBER:>2}  {name:14}  {step.TITLE}", markup=False)
        return 0
    chosen = every if arguments.step is None else [api.story_step(arguments.step)]
    for name in chosen:
        if arguments.full and not hasattr(every[name], "full"):
            unused = ", so --models is not used" if arguments.models is not None else ""
            console.print(f"{name}: this step has no --full version{unused}; its small models are the measurement.")
            continue
        _tell(name, every[name], arguments, console)
    return 0


def _tell(name: str, step: Any, arguments: argparse.Namespace, console: Console) -> None:
    from regard import api

    console.rule(f"{step.NUMBER}. {step.TITLE}")
    console.print(_paragraphs(step.LECTURE) + "\n", markup=False)
    with console.status("training and measuring") as status:
        told = api.tell(
            name,
            Path(arguments.out),
            pages=Path(arguments.pages) if arguments.pages else None,
            models=(arguments.models or "out") if arguments.full else None,
            say=lambda text: status.update(f"training and measuring: {text}"),
        )
    for part in api.panels_for_terminal(told.result, console.width):
        console.print(part)
    for claim in told.claims:
        console.print(f"\n  “{claim.says}”\n  {claim.verdict.upper()}: {claim.because}", markup=False)
    if hasattr(step, "TRIALS") and not arguments.full:
        console.print(f"\nTried before: {_paragraphs(step.TRIALS)}", markup=False)
    console.print(f"\n{_paragraphs(told.follows)}\n", markup=False)
    if not arguments.full:
        adds = getattr(step, "FULL", "nothing more; this step has no such version.")
        console.print(f"With --full: {adds}", markup=False)
    console.print("With real data:", *(f"   {command}" for command in step.COMMANDS), sep="\n", markup=False)


def _paragraphs(text: str) -> str:
    """Text for the terminal, which breaks the lines itself."""
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))
