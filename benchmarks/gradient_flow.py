"""How far back gradients reach: an Elman network, an LSTM and a Transformer, untrained and trained on one small task.

    python benchmarks/gradient_flow.py [--updates 400] [--work FOLDER] [--docs docs]

Each is an encoder and decoder that learns to copy 20 to 40 random words, which needs every one of them. What is drawn
is ‖∂h_t/∂x_s‖ of the encoder's last states by distance, over one text of 40 words (64 probes a token, mean over pairs).
Writes docs/gradient_flow.md and docs/images/gradient_flow.svg.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import regard
from regard.explain import record
from regard.explain.methods.gradients import compare

WORDS = [f"w{number}" for number in range(30)]
RECURRENT = {"d_embedding": 48, "d_hidden": 64, "bidirectional": False, "dropout": 0.0}
MODELS = {
    "Elman": {"name": "seq2seq", "options": {**RECURRENT, "cell": "elman"}},
    "LSTM": {"name": "seq2seq", "options": {**RECURRENT, "cell": "lstm"}},
    "Transformer": {
        "name": "transformer",
        "options": {
            "d_model": 64,
            "n_heads": 4,
            "d_ff": 128,
            "n_encoder_layers": 2,
            "n_decoder_layers": 2,
            "dropout": 0.0,
        },
    },
}


def texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.randint(20, 40))) for _ in range(count)]


def recipe(work: Path, model: dict, updates: int) -> dict:
    data = {}
    for name, count, seed in (("train", 4000, 1), ("validation", 100, 2)):
        path = work / f"{name}.txt"
        path.write_text("".join(f"{text}\n" for text in texts(count, seed)), encoding="utf-8")
        data[name] = {"source": str(path), "target": str(path)}
    return {
        "data": {**data, "tokenizer": {"kind": "word", "vocab_size": 60}},
        "model": model,
        "training": {
            "max_steps": updates, "tokens_per_batch": 2048, "lr": 3e-3, "warmup": 50, "clip": 1.0, "label_smoothing": 0
        },
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--work", help="where the models go (default: a temporary folder)")
    parser.add_argument("--docs", default="docs")
    arguments = parser.parse_args()
    work = Path(arguments.work or tempfile.mkdtemp(prefix="gradient_flow_"))
    work.mkdir(parents=True, exist_ok=True)
    text = " ".join(random.Random(3).choices(WORDS, k=40))
    traces, losses = {}, {}
    for name, model in MODELS.items():
        out = work / name.lower()
        loaded = regard.train(recipe(work, model, arguments.updates), out, quiet=True)
        losses[name] = regard.api.validate(out)["loss"]
        trace = regard.trace(loaded, text, text, weights=False)
        traces[f"{name}, untrained"] = record(trace.live().untrained(0), weights=False)
        traces[f"{name}, trained"] = trace
        print(f"{name}: validation loss {losses[name]:.3f}", flush=True)
    result = compare(traces, probes=64)
    docs = Path(arguments.docs)
    (docs / "images").mkdir(parents=True, exist_ok=True)
    replace(result, panels=result.panels[:1]).save(docs / "images" / "gradient_flow.svg")
    write(docs / "gradient_flow.md", result, losses, arguments.updates)
    print(*result.statements, sep="\n")


PAGE = """# Gradient flow

How strongly a state still depends on what was read long before: ‖∂h_t/∂x_s‖ of the encoder's last states, mean over all
pairs at a distance, one text of 40 words, 64 random probes a token. `python benchmarks/gradient_flow.py`; each model
was trained for {updates} updates to copy 20 to 40 random words. A factor below one a step is a gradient that vanishes,
above one a gradient that explodes. For a model of your own: `regard explain MODEL TEXT --method gradients`.

![‖∂h_t/∂x_s‖ by distance](images/gradient_flow.svg)

| model | distance 1 | half way | farthest | factor a step | validation loss |
|---|---|---|---|---|---|
{rows}
"""


def write(path: Path, result, losses: dict, updates: int) -> None:
    rows = []
    for name, one in result.data.items():
        norms = one["norm"]
        loss = "–" if "untrained" in name else f"{losses[name.split(',')[0]]:.3f}"
        cells = [name, *(f"{norms[place]:.3g}" for place in (1, len(norms) // 2, -1)), f"{one['factor']:.3f}", loss]
        rows.append(f"| {' | '.join(cells)} |")
    path.write_text(PAGE.format(updates=updates, rows="\n".join(rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
