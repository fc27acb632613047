"""See regard work in minutes: train a small Transformer, test it, translate with it, look inside.

It learns dates and numbers in twelve languages from a generated corpus; nothing is downloaded. If it is interrupted,
the same command resumes it; if it is run again, it uses the trained model.
"""

from __future__ import annotations

import argparse

TRY = (
    (">fr<", "Sunday, 15 November 2026"),
    (">iso<", "dimanche 15 novembre 2026"),
    (">de<", "234"),
    (">iso<", "zweihundertvierunddreißig"),
    (">es<", "deux cent trente-quatre"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="out/quickstart", help="folder for the model (default: out/quickstart)")


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from regard import api

    console = Console(highlight=False)
    console.print("\n[bold]1. Train[/] a Transformer on dates and numbers in 12 languages (about 3 minutes on 2 cores)")
    model, evaluate = api.quickstart(arguments.out)

    console.print("\n[bold]2. Test[/] it on days and numbers that it has never seen, in any language")
    exact = evaluate()
    console.print(f"   {100 * exact.all:.1f} % of {exact.count} expressions are exactly right")
    table = Table(box=None, padding=(0, 1))
    for name in (*exact.by_kind, *exact.by_language):
        table.add_column(name, justify="right")
    table.add_row(*(f"{100 * share:.0f}" for share in (*exact.by_kind.values(), *exact.by_language.values())))
    console.print(table)

    console.print("\n[bold]3. Translate[/]")
    for (tag, text), written in zip(TRY, model.translate([f"{tag} {text}" for tag, text in TRY]), strict=True):
        console.print(f"   {tag:>5} {text}  →  {written}", markup=False)

    console.print("\n[bold]4. Look inside[/]: which source words each target word attends to\n")
    seen = model.align(">fr< Sunday, 15 November 2026")
    console.print(*api.panels_for_terminal(seen.picture(), console.width), sep="\n")
    console.print(
        f"\n[bold]Next[/]\n"
        f'   echo ">it< 3 March 1999" | regard translate {arguments.out}\n'
        f'   regard align {arguments.out} ">iso< vingt-deux" --out map.svg\n'
        f'   regard explain {arguments.out} ">iso< vingt-deux" --out page.html\n'
        f"   regard train RECIPE.yaml      your own two files of text: see the README\n"
    )
    return 0
