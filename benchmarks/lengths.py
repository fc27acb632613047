"""Length generalisation: one small language model for each position scheme, read to eight times its trained length.

    python benchmarks/lengths.py [--out out/lengths] [--updates 1000] [--factor 8] [--only rotary alibi ...]

GPT-2's shape by characters on Tiny Shakespeare (REGARD_DATA), trained on 64 characters at once; only the position
scheme changes. The losses are of the last tenth of the text, which no model has read, by position; see
`regard.explain.methods.lengths`.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import regard
from regard.attention import positions
from regard.core import lookup
from regard.explain.methods.lengths import compare
from regard.views.result import Result, Table

CONTEXT, HELD_OUT = 64, 0.1
SCHEMES = lookup.names(positions.__name__)
NOTES = """One seed and a small budget: differences of one or two hundredths mean little. Columns are positions: the
second is the further half of what was trained, those after it were never seen in training. An empty cell is a length
that the model cannot read. Compare a row with its own second column: how well a scheme learns in so few updates is
another question. Sinusoids are large beside GPT-2's embeddings, which start at 0.02, and learn late."""


def recipe(text: Path, position: str, updates: int) -> dict[str, Any]:
    still = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
    return {
        "task": "language_model",
        "data": {
            "train": str(text),
            "validation_share": HELD_OUT,
            "tokenizer": {"kind": "char"},
            "context": CONTEXT,
        },
        "model": {
            "name": "gpt2",
            "options": {"d_model": 96, "n_layers": 3, "n_heads": 4, "position": position, **still},
        },
        "training": {
            "max_steps": updates, "tokens_per_batch": 2048, "lr": 4e-3, "schedule": "cosine",
            "warmup": min(100, max(1, updates // 10)), "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.1,
            "clip": 1.0, "validate_every": updates,
        },
    }  # fmt: skip


def held_out(text: Path, folder: Path) -> Path:
    """The end of the text, as the recipe cuts it off."""
    whole = gzip.decompress(text.read_bytes()).decode()
    path = folder / "held_out.txt"
    path.write_text(whole[int(len(whole) * (1 - HELD_OUT)) :])
    return path


def measure(out: Path, text: Path, names: list[str], updates: int, factor: int, windows: int) -> Result:
    models = {}
    for name in names:
        started = time.monotonic()
        models[name] = regard.train(recipe(text, name, updates), out / name)
        print(f"{name}: trained in {time.monotonic() - started:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        held = held_out(text, Path(folder))
        return compare(models, text=str(held), longest=factor * CONTEXT, trained=CONTEXT, windows=windows)


def page(result: Result, updates: int, windows: int) -> str:
    (table,) = [panel for panel in result.panels if isinstance(panel, Table)]
    lines = [f"| {' | '.join(table.columns)} |", "|---" * len(table.columns) + "|"]
    for name, *cells in table.rows:
        shown = ["" if cell is None else f"{cell:.3f}" for cell in cells]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    said = "\n".join(f"- {sentence}" for sentence in result.statements)
    budget = f"{updates} updates of 2,048 characters; nats a character over {windows} windows."
    figure = "![Loss by position](images/length_generalisation.svg)"
    parts = ["# Length generalisation", __doc__.strip(), NOTES, budget, "\n".join(lines), figure, said]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("out/lengths"), help="where the models go")
    parser.add_argument("--docs", type=Path, default=Path(__file__).parents[1] / "docs", help="where the page goes")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--factor", type=int, default=8, help="times the trained length")
    parser.add_argument("--windows", type=int, default=128)
    parser.add_argument("--only", nargs="*", choices=SCHEMES, help="these schemes")
    arguments = parser.parse_args()
    if "REGARD_DATA" not in os.environ:
        sys.exit("Set REGARD_DATA to the folder that holds tinyshakespeare.")
    torch.set_num_threads(1)
    text = Path(os.environ["REGARD_DATA"]) / "tinyshakespeare" / "input.txt.gz"
    names = arguments.only or list(SCHEMES)
    result = measure(arguments.out, text, names, arguments.updates, arguments.factor, arguments.windows)
    windows = min(found["windows"] for found in result.data["models"].values())
    (arguments.docs / "images").mkdir(parents=True, exist_ok=True)
    result.save(arguments.docs / "images" / "length_generalisation.svg")
    (arguments.docs / "length_generalisation.md").write_text(page(result, arguments.updates, windows))


if __name__ == "__main__":
    main()
