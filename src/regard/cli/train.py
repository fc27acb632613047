"""Train a model from a recipe, or resume where an earlier run of it stopped.

Any value of the recipe can be changed: regard train recipes/multi30k_en_de.yaml --training.lr 1e-3 --model.size small
"""

from __future__ import annotations

import argparse

from regard.cli._changes import changes
from regard.core.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a YAML file")
    parser.add_argument("--out", help="folder for the run and the model (default: out/NAME)")
    parser.add_argument("--quiet", action="store_true", help="print nothing while training")


def run(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from regard import api

    if arguments.rest and not arguments.recipe.endswith((".yaml", ".yml", ".json")):
        raise UsageError("the recipe comes first", remedy="regard train RECIPE.yaml --training.lr 1e-3")
    out = Path(arguments.out or Path("out") / Path(arguments.recipe).stem)
    api.train(arguments.recipe, out, changes=changes(arguments.rest), quiet=arguments.quiet)
    print(f"The model is in {out}. Try: {api.usage(out)}")
    return 0
