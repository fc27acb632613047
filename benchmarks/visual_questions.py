"""Plain and differential attention on easy-VQA: answers, and how much of the attention is on the shape.

    python benchmarks/visual_questions.py                           # three seeds each; writes docs/visual_questions.md
    python benchmarks/visual_questions.py --forms plain --seeds 1   # only these
    python benchmarks/visual_questions.py --models out/easy_vqa     # measures models that exist, and prints the table

Every picture has one shape on a nearly uniform ground, so the shape's box is found from the pixels: all that differ
from the picture's median colour. The weight of a cell is spread evenly over its pixels; *mass* is what lies in the box,
*area* the box's share of the picture, which is the mass of attention that looks everywhere alike.

Runs resume where they stopped (out/visual_questions). The test questions are read once, when a run is finished.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from _lengths_page import processor
from numpy.typing import NDArray
from PIL import Image

import regard
from regard.core.config import read_config
from regard.core.paths import expand_path
from regard.data.archives import Archive
from regard.data.pictures import Pictures
from regard.data.visual_questions import Asked, read_questions

ROOT = Path(__file__).parents[1]
PLACE = "$REGARD_DATA/easy_vqa/easy_vqa_data.zip"
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("easy_vqa", {}),
    "DAN": ("easy_vqa_differential", {}),
    "DCN": ("easy_vqa_differential", {"differential": "dcn"}),
}
_SHAPE = re.compile(r"what shape|what is the \w+ shape|circle|rectangle|triangle")
_ROWS, _FAR = 64, 20


def about_shape(question: str) -> bool:
    """Whether the answer depends on the shape: "what shape is present?", "is there a circle?"; not on its colour."""
    return bool(_SHAPE.search(question)) and "color" not in question


def box(picture: Image.Image) -> tuple[int, int, int, int]:
    """Top, left, bottom and right of what differs from the picture's median colour."""
    pixels = np.asarray(picture.convert("RGB")).astype(np.int64)
    differs = np.abs(pixels - np.median(pixels, axis=(0, 1))).max(-1) > _FAR
    rows, columns = (np.flatnonzero(differs.any(axis)) for axis in (1, 0))
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


def mass(weights: NDArray[np.float64], where: tuple[int, int, int, int], size: tuple[int, int]) -> float:
    """The part of a map's weight [rows, columns] that lies in a box of a picture of this height and width."""
    shares = []
    for axis, (first, last) in enumerate(((where[0], where[2]), (where[1], where[3]))):
        edges = np.linspace(0, size[axis], weights.shape[axis] + 1)
        inside = [max(0.0, min(last, end) - max(first, start)) for start, end in pairwise(edges)]
        shares.append(np.array(inside) / (edges[1] - edges[0]))
    return float(shares[0] @ weights @ shares[1])


@dataclass
class Measured:
    accuracy: float
    masses: list[float]
    """Of each look, the mean over questions about the shape."""
    area: float


def measure(model: Any, asked: list[Asked], pictures: Pictures, most: int | None = None) -> Measured:
    """Answer all questions, and measure the attention of those about the shape; `most`: of so many of these only."""
    asked = [*asked] if most is None else [entry for entry in asked if about_shape(entry.question)][:most]
    right, masses, areas = 0, list[list[float]](), list[float]()
    for start in range(0, len(asked), _ROWS):
        some = asked[start : start + _ROWS]
        images = [pictures.open(entry.image) for entry in some]
        trace = regard.trace(model, images, [entry.question for entry in some], hidden=False, sites="look")
        looks = trace["look"].weights
        assert looks is not None
        grid = trace.grids["image"]
        for row, (entry, image) in enumerate(zip(some, images, strict=True)):
            right += trace.output["classes"][row][0] == entry.answer
            if about_shape(entry.question):
                where, size = box(image), (image.height, image.width)
                maps = looks[row, 0].double().numpy().reshape(-1, *grid)
                masses.append([mass(each, where, size) for each in maps])
                areas.append((where[2] - where[0]) * (where[3] - where[1]) / (size[0] * size[1]))
    return Measured(right / len(asked), [mean(look) for look in zip(*masses, strict=True)], mean(areas))


def train(form: str, seed: int, out: Path) -> tuple[Any, float]:
    """The trained model, and the processor's seconds of this start."""
    name, options = FORMS[form]
    recipe = read_config(ROOT / "recipes" / f"{name}.yaml")
    recipe["model"]["options"] |= options
    recipe["training"]["seed"] = seed
    started = time.process_time()
    return regard.train(recipe, out / f"{form}-{seed}"), time.process_time() - started


def held_out(form: str, seed: int, out: Path) -> float:
    """The best accuracy on the tenth of the training images that was held out."""
    lines = [json.loads(line) for line in (out / f"{form}-{seed}" / "log.jsonl").read_text().splitlines()]
    return max(line["validation_accuracy"] for line in lines if "validation_accuracy" in line)


def row(name: str, measured: list[Measured], *more: str) -> str:
    """A row of the table: means, with the standard deviation over seeds."""

    def shown(values: list[float], form: str) -> str:
        return format(mean(values), form) + (f" ± {stdev(values):{form}}" if len(values) > 1 else "")

    last = [each.masses[-1] for each in measured]
    cells = [
        shown([each.accuracy for each in measured], ".2%"),
        *(shown([each.masses[look] for each in measured], ".3f") for look in range(len(measured[0].masses))),
        f"{measured[0].area:.3f}",
        shown([own / each.area for own, each in zip(last, measured, strict=True)], ".1f"),
        *more,
    ]
    return f"| {name} | {' | '.join(cells)} |"


HEAD = (
    "| attention | test accuracy | mass, look 1 | mass, look 2 | area | last mass / area |",
    "|---|---|---|---|---|---|",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forms", nargs="+", choices=list(FORMS), default=list(FORMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--models", nargs="+", help="measure these folders, and train nothing")
    parser.add_argument("--split", choices=["train", "test"], default="test")
    parser.add_argument("--most", type=int, help="only so many questions about the shape")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "visual_questions")
    given = parser.parse_args()
    pictures = Pictures(expand_path(PLACE))
    asked = read_questions(
        Archive(expand_path(PLACE)), f"{given.split}/questions.json", f"{given.split}/images/{{}}.png"
    )
    if given.models:
        print("\n".join([*HEAD, *(row(Path(place).name, [measure(regard.load(place), asked, pictures, given.most)])
                                  for place in given.models)]))  # fmt: skip
        return
    lines = [HEAD[0] + " held-out accuracy | processor minutes |", HEAD[1] + "---|---|"]
    for form in given.forms:
        trained = [train(form, seed, given.out) for seed in given.seeds]
        measured = [measure(model, asked, pictures, given.most) for model, _ in trained]
        chosen = mean(held_out(form, seed, given.out) for seed in given.seeds)
        lines.append(row(form, measured, f"{chosen:.2%}", f"{mean(seconds for _, seconds in trained) / 60:.1f}"))
    page = ROOT / "docs" / "visual_questions.md"
    text = __doc__.split("\n\n", 2)[2].rsplit("\n\n", 1)[0]
    options = f"--forms {' '.join(given.forms)} --seeds {' '.join(map(str, given.seeds))}"
    command = f"`python benchmarks/visual_questions.py {options}`, one thread of {processor()}"
    page.write_text("\n\n".join(["# Where questions look", command, text, "\n".join(lines)]) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
