"""Class numbers follow the names of the model to start from: its logits have their own order."""

import itertools
import json

import numpy as np
import pytest
from PIL import Image

import regard
from regard import store
from regard.api import validate
from regard.cli import main
from regard.core.errors import DataError

TRAINING = {"max_epochs": 30, "lr": 0.05, "warmup": 0, "schedule": "constant"}
WORDS = {"neg": "bad poor dull", "neu": "plain usual fair", "pos": "good great fine"}
LEAVES = {"DT": "the", "NN": "cat", "VB": "sits"}
COLOURS = {"blue": (40, 40, 200), "green": (40, 200, 40), "red": (200, 40, 40)}


def texts(folder, classes, words=WORDS):
    path = folder / f"{'_'.join(classes)}.tsv"
    rows = [f"{word} film\t{name}\n" for name in classes for word in words[name].split()]
    path.write_text("text\tlabel\n" + "".join(rows * 3))
    file = {"file": str(path), "text": "text", "label": "label"}
    tokens = {"tokenizer": {"kind": "space", "vocab_size": 100}}
    return {"task": "classification", "data": {"train": file, "validation": file, **tokens}}, {"name": "bow"}


def tags(folder, classes):
    path = folder / f"{'_'.join(classes)}.txt"
    leaves = [f"({tag} {LEAVES.get(tag, 'odd')})" for tag in classes]
    orders = [order for count in range(1, len(leaves) + 1) for order in itertools.permutations(leaves, count)]
    path.write_text("".join(f"(S {' '.join(order)})\n" for order in orders) * 2)
    data = {"train": str(path), "validation": str(path), "tokenizer": {"kind": "space", "min_count": 1}}
    options = {"d_embedding": 8, "d_hidden": 8, "n_layers": 1, "dropout": 0.0}
    return {"task": "token_classification", "data": data}, {"name": "rnn", "options": options}


def images(folder, classes):
    draw, place = np.random.default_rng(0), folder / "_".join(classes)
    for name in classes:
        (place / name).mkdir(parents=True, exist_ok=True)
        for number in range(6):
            pixels = np.clip(draw.normal(COLOURS.get(name, (0, 0, 0)), 20, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / name / f"{number}.png")
    files = {"folder": str(place)}
    options = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16, "patch_size": 4, "dropout": 0.0}
    return {"task": "image_classification", "data": {"train": files, "validation": files, "size": 8}}, {
        "options": options
    }


TASKS = [(texts, ("neg", "neu", "pos")), (tags, ("DT", "NN", "VB")), (images, ("blue", "green", "red"))]


def written(folder, recipe):
    place = folder / "other.json"
    place.write_text(json.dumps({**recipe, "training": TRAINING}))
    return place


@pytest.fixture(params=TASKS, ids=["texts", "tags", "images"])
def learnt(request, tmp_path):
    """How data is made, its classes, and the folder of a model that has learnt them."""
    made, classes = request.param
    recipe, model = made(tmp_path, classes)
    regard.train({**recipe, "model": model, "training": TRAINING}, tmp_path / "out", quiet=True)
    return made, classes, tmp_path / "out"


def test_fewer_classes_are_evaluated_in_the_order_of_the_model(learnt, tmp_path):
    made, classes, out = learnt
    assert validate(out)["accuracy"] == 1.0
    for fewer in (classes[1:], classes[2:]):
        recipe, _ = made(tmp_path, fewer)
        assert validate(out, recipe=written(tmp_path, recipe))["accuracy"] == 1.0


def test_an_evaluation_refuses_other_classes(learnt, tmp_path, capsys):
    made, classes, out = learnt
    odd = {"words": {**WORDS, "odd": "strange"}} if made is texts else {}
    recipe, _ = made(tmp_path, (*classes[1:], "odd"), **odd)
    with pytest.raises(DataError, match=f"does not have some of the classes in the data: got odd, expected only "
                       f"{classes[0]}"):  # fmt: skip
        validate(out, recipe=written(tmp_path, recipe))
    assert main(["evaluate", str(out), "--recipe", str(tmp_path / "other.json")]) != 0
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_training_goes_on_with_the_classes_of_the_model(learnt, tmp_path):
    """The head is kept, and its names with it, even if the data has fewer classes."""
    made, classes, out = learnt
    recipe, _ = made(tmp_path, classes[1:])
    short = {**TRAINING, "max_epochs": 1, "lr": 1e-6}
    regard.train({**recipe, "model": {"start": str(out)}, "training": short}, tmp_path / "more", quiet=True)
    assert store.load_model(tmp_path / "more").extra["labels"] == list(classes)
    assert validate(tmp_path / "more")["accuracy"] == 1.0


def test_training_goes_on_with_other_classes(learnt, tmp_path):
    made, classes, out = learnt
    odd = {"words": {**WORDS, "odd": "strange"}} if made is texts else {}
    recipe, _ = made(tmp_path, (*classes[1:], "odd"), **odd)
    regard.train({**recipe, "model": {"start": str(out)}, "training": TRAINING}, tmp_path / "more", quiet=True)
    assert store.load_model(tmp_path / "more").extra["labels"] == sorted((*classes[1:], "odd"))
    assert validate(tmp_path / "more")["accuracy"] == 1.0


def test_classes_without_names_are_those_of_the_data(tmp_path):
    """Files from elsewhere may number their classes alone."""
    recipe, model = texts(tmp_path, tuple(WORDS))
    regard.train({**recipe, "model": model, "training": TRAINING}, tmp_path / "out", quiet=True)
    stored = store.load_model(tmp_path / "out")
    stored.extra["labels"] = ["LABEL_0", "LABEL_1", "LABEL_2"]
    store.save_model(tmp_path / "unnamed", stored)
    assert validate(tmp_path / "unnamed", recipe=written(tmp_path, recipe))["accuracy"] == 1.0
