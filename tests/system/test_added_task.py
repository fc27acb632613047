"""A new task is three new files and an edit to no list: one that reads images and writes text.

The files are in `tests/added_task`; here they are put where regard's own would stand. Its model is a fourth.
"""

import itertools
from pathlib import Path

import pytest
from PIL import Image

import regard
from regard import models, pipelines, tasks
from regard.api import validate
from regard.core import lookup
from regard.runs import jobs

ADDED = Path(__file__).parents[1] / "added_task"
ROOMS = {"models": models, "tasks": tasks, "jobs": jobs, "pipelines": pipelines}
COLOURS = {"red": (200, 30, 30), "green": (30, 170, 60), "blue": (30, 60, 200), "black": (10, 10, 10)}


@pytest.fixture
def added(monkeypatch):
    """The folders of regard, each with one more file."""
    for name, package in ROOMS.items():
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(ADDED / name)])
    lookup.names.cache_clear()
    lookup.find.cache_clear()
    yield
    lookup.names.cache_clear()
    lookup.find.cache_clear()


@pytest.fixture
def recipe(tmp_path):
    """Pictures whose left and right halves have colours, and a caption that names them."""
    lines = []
    for number, (left, right) in enumerate(itertools.product(COLOURS, COLOURS)):
        image = Image.new("RGB", (16, 16), COLOURS[left])
        image.paste(COLOURS[right], (8, 0, 16, 16))
        image.save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png\t{left} beside {right}\n")
    (tmp_path / "captions.tsv").write_text("".join(lines))
    data = {"images": str(tmp_path), "train": str(tmp_path / "captions.tsv")}
    return {
        "task": "naming",
        "data": {**data, "validation": data["train"]},
        "training": {"max_steps": 150, "lr": 5e-3, "warmup": 10, "tokens_per_batch": 128, "validate_every": 75,
                     "metric": "exact_text", "label_smoothing": 0.0},
        "evaluation": ["chrf", "exact_text"],
    }  # fmt: skip


def test_it_is_trained_evaluated_stored_and_used_like_any_other(added, recipe, tmp_path):
    model = regard.train(recipe, tmp_path / "out", quiet=True)
    files = [str(tmp_path / f"{number}.png") for number in (1, 7)]
    assert model.caption(files) == ["red beside green", "green beside black"]
    assert regard.load(tmp_path / "out").caption(files, beam=3) == model.caption(files)
    numbers = validate(tmp_path / "out")
    assert numbers["exact_text"] == 1.0
    assert numbers["chrf"] == pytest.approx(100)


def test_it_says_what_it_can_do(added, recipe, tmp_path):
    recipe["training"]["max_steps"] = 1
    model = regard.train(recipe, tmp_path / "out", quiet=True)
    assert model.verbs() == {"caption": "a captioning model"}
    with pytest.raises(
        regard.core.errors.UsageError, match="translate needs a translation model.*Its command is caption"
    ):
        model.translate(["a"])


def test_its_cost():
    files = [ADDED / room / "naming.py" for room in ("tasks", "jobs", "pipelines")]
    assert sum(len(path.read_text().splitlines()) for path in files) <= 120
