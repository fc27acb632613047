"""Length generalisation: one small language model for each position scheme, read to eight times its trained length.

    python benchmarks/lengths.py [--out out/lengths] [--updates 1000] [--factor 8] [--only rotary alibi ...]

GPT-2's shape by characters on Tiny Shakespeare (REGARD_DATA), trained on 64 characters at once; only the position
scheme changes. `rotary_ntk`, `rotary_llama3` and `rotary_yarn` are not trained: they are ways to read on with a model
that was trained with plain rotary positions, so they read with the weights of `rotary`, stretched by the factor. The
losses are of the last tenth of the text, which no model has read, by position; see `regard.explain.methods.lengths`.
A run that was stopped goes on where it was. Writes docs/length_generalisation.md and its figure.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from _lengths_page import IMAGE, draw, processor, write

import regard
from regard.attention import positions
from regard.core import lookup
from regard.explain.methods.lengths import compare
from regard.pipelines import make_pipeline
from regard.views.result import Result

CONTEXT, HELD_OUT = 64, 0.1
SCHEMES = lookup.names(positions.__name__)
STRETCHED = {name for name in SCHEMES if name.startswith("rotary_")}  # not trained: ways to read on
NOTES = """One seed and a small budget: differences of one or two hundredths mean little. Columns are positions: the
second is the further half of what was trained, those after it were never seen in training. An empty cell is a length
that the model cannot read. Compare a row with its own second column: how well a scheme learns in so few updates is
another question. Sinusoids are large beside GPT-2's embeddings, which start at 0.02, and learn late. The text changes
with the position, too: a small wave that all lines share is the text's."""


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
            "clip": 1.0, "validate_every": updates, "checkpoint_every": 200,
        },
    }  # fmt: skip


def held_out(text: Path, folder: Path) -> Path:
    """The end of the text, as the recipe cuts it off."""
    whole = gzip.decompress(text.read_bytes()).decode()
    path = folder / "held_out.txt"
    path.write_text(whole[int(len(whole) * (1 - HELD_OUT)) :])
    return path


def train(out: Path, text: Path, name: str, updates: int) -> Any:
    """The model of this scheme, trained or read again; the seconds of all sittings are summed up in its folder."""
    spent, started = out / name / "seconds.json", time.monotonic()
    try:
        return regard.train(recipe(text, name, updates), out / name)
    finally:
        before = json.loads(spent.read_text()) if spent.is_file() else 0.0
        if spent.parent.is_dir():
            spent.write_text(json.dumps(before + time.monotonic() - started))


def stretched(rotary: Any, name: str, factor: int) -> Any:
    """The model that was trained with plain rotary positions, read with those of `name`; no weight differs."""
    model = copy.deepcopy(rotary.model)
    plain = model.position
    position = lookup.build(
        positions.__name__, name, d_head=plain.d_head, factor=float(factor), trained_len=CONTEXT, base=plain.base
    )
    for module in model.modules():
        if getattr(module, "position", None) is plain:
            module.position = position
    return make_pipeline(replace(rotary.stored, model=model))


def measure(out: Path, text: Path, names: list[str], updates: int, factor: int, windows: int) -> Result:
    models = {}
    for name in names:
        if name not in STRETCHED:
            models[name] = train(out, text, name, updates)
            print(f"{name}: {json.loads((out / name / 'seconds.json').read_text()):.0f} s in all", flush=True)
    if stretching := [name for name in names if name in STRETCHED]:
        rotary = models.get("rotary") or train(out, text, "rotary", updates)
        models |= {name: stretched(rotary, name, factor) for name in stretching}
    with tempfile.TemporaryDirectory() as folder:
        held = held_out(text, Path(folder))
        return compare(models, text=str(held), longest=factor * CONTEXT, trained=CONTEXT, windows=windows)


def budget(out: Path, result: Result, updates: int) -> str:
    windows = min(facts["windows"] for facts in result.data["models"].values())
    spent = [json.loads((out / name / "seconds.json").read_text()) for name in SCHEMES if (out / name).is_dir()]
    return (
        f"{updates:,} updates of 2,048 characters; nats a character over {windows} windows of {result.data['longest']} "
        f"characters. {len(spent)} trainings in {sum(spent) / 60:.0f} minutes on one thread of {processor()}."
    )


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
    draw(result, CONTEXT, arguments.docs / IMAGE)
    about = __doc__.strip().partition("\n\n")[2]
    written = arguments.docs / "length_generalisation.md"
    write(written, result, about, NOTES, budget(arguments.out, result, arguments.updates))
    print(*result.statements, sep="\n")


if __name__ == "__main__":
    main()
