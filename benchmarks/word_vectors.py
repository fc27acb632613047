"""word2vec beside gensim: the same text, settings and number of threads; words per second and scores, in one run.

    OMP_NUM_THREADS=2 python benchmarks/word_vectors.py [--seeds 3] [--architectures skip_gram cbow]

Prints a table for docs/results.md. gensim must be installed; it is no dependency of regard. Seconds are those of
training alone, without reading the text and making the vocabulary. Both are scored by `regard evaluate --suite words`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch

import regard
from regard import api
from regard.core.lines import read_lines
from regard.core.paths import expand_path

RECIPE = Path(__file__).parents[1] / "recipes" / "text8_word2vec.yaml"
TEXT = "$REGARD_DATA/text8_like/text8_like_20M.xz"
EPOCHS, WIDTH, PIECE = 5, 100, 10_000


def ours(out: Path, architecture: str, seed: int) -> tuple[Path, float]:
    """The model's folder and the seconds of its epochs."""
    changes = {"model.options.architecture": architecture, "training.seed": str(seed)}
    if architecture == "cbow":
        changes["training.lr"] = "0.05"
    regard.train(RECIPE, out, changes=changes, quiet=True)
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return out, sum(line["seconds"] for line in lines)


def gensims(out: Path, architecture: str, seed: int, sentences: list[list[str]]) -> tuple[Path, float]:
    """The same by gensim."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        vector_size=WIDTH,
        window=5,
        negative=5,
        sample=1e-3,
        min_count=5,
        alpha=0.05 if architecture == "cbow" else 0.025,
        sg=int(architecture == "skip_gram"),
        workers=torch.get_num_threads(),
        seed=seed,
    )
    model.build_vocab(sentences)
    started = time.monotonic()
    model.train(sentences, total_examples=model.corpus_count, epochs=EPOCHS)
    seconds = time.monotonic() - started
    model.wv.save_word2vec_format(str(out))
    return out, seconds


def scored(path: Path) -> dict[str, float]:
    rows = {row.test: row.scores for row in api.words(regard.load(path))}
    return {"spearman": rows["WordSim-353"]["spearman"], **rows["all analogies"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--architectures", nargs="+", default=["skip_gram", "cbow"])
    arguments = parser.parse_args()
    words = " ".join(read_lines(expand_path(TEXT))).split()
    sentences = [words[start : start + PIECE] for start in range(0, len(words), PIECE)]
    print(f"{len(words):,} words, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f} at the start")
    print(
        "| architecture | seed | library | words per second | WordSim-353 | 3CosAdd | 3CosMul |\n"
        "|---|---|---|---|---|---|---|"
    )
    for architecture in arguments.architectures:
        for seed in range(1, arguments.seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                runs = {
                    "regard": ours(Path(folder) / "run", architecture, seed),
                    "gensim": gensims(Path(folder) / "vectors.txt", architecture, seed, sentences),
                }
                for library, (path, seconds) in runs.items():
                    scores = " | ".join(f"{100 * score:.1f}" for score in scored(path).values())
                    speed = EPOCHS * len(words) / seconds
                    print(f"| {architecture} | {seed} | {library} | {speed:,.0f} | {scores} |", flush=True)


if __name__ == "__main__":
    main()
