"""Every task through `regard.train`: small models that must learn something, go on from each other, and say what is
wrong with a recipe."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard import store
from regard.cli import main
from regard.core import config as configs
from regard.core import weights
from regard.core.errors import ConfigError, DataError, UsageError, WeightsError
from regard.runs.job import Job
from regard.runs.parsing import parse_recipe, read_recipe
from regard.runs.run import Run

STILL = {"dropout": 0.0, "attention_dropout": 0.0}
SMALL = {"d_model": 32, "n_layers": 1, "n_heads": 2, **STILL}
QUICK = {"lr": 5e-3, "warmup": 10, "log_every": 20, "clip": 1.0}


def logged(out: Path, name: str) -> list[float]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if name in line]


def language_model(folder: Path, **training) -> dict:
    path = folder / "text.txt"
    path.write_text("".join(f"{number} and {number + 1} make {2 * number + 1}.\n" for number in range(400)))
    return {
        "task": "language_model",
        "data": {"train": str(path), "validation_share": 0.1, "tokenizer": {"kind": "char"}, "context": 32},
        "model": {"options": {**SMALL, "embedding_dropout": 0.0}},
        "training": {**QUICK, "max_steps": 80, "tokens_per_batch": 512, "validate_every": 40, **training},
    }


def masked_lm(folder: Path, **training) -> dict:
    """Documents that count on from number to number, each in its own words."""
    for name, documents in (("train", 40), ("validation", 6)):
        texts = [
            [f"w{(d * 3 + n) % 30} w{(d * 3 + n + 1) % 30} x{d % 7}." for n in range(12)] for d in range(documents)
        ]
        (folder / name).write_text("\n\n".join("\n".join(text) for text in texts))
    return {
        "task": "masked_lm",
        "data": {"train": str(folder / "train"), "validation": str(folder / "validation"), "max_len": 32,
                 "tokenizer": {"kind": "wordpiece", "vocab_size": 120}},
        "model": {"options": {**SMALL, "d_ff": 64}},
        "training": {**QUICK, "max_steps": 120, "tokens_per_batch": 512, "validate_every": 60, **training},
    }  # fmt: skip


def image_classification(folder: Path, classes: dict[str, tuple[int, int, int]] | None = None, **training) -> dict:
    draw = np.random.default_rng(0)
    for name, colour in (classes or {"blue": (40, 40, 200), "red": (200, 40, 40)}).items():
        for number in range(20):
            pixels = np.clip(draw.normal(colour, 40, (9, 7, 3)), 0, 255).astype(np.uint8)
            path = folder / "images" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    return {
        "task": "image_classification",
        "data": {"train": {"folder": str(folder / "images")}, "validation_share": 0.2, "size": 8, "shift": 1},
        "model": {"options": {**SMALL, "d_ff": 64, "patch_size": 4}},
        "training": {**QUICK, "max_steps": 40, "rows_per_batch": 8, "validate_every": 20, "metric": "accuracy",
                     **training},
    }  # fmt: skip


MADE = {"language_model": language_model, "masked_lm": masked_lm, "image_classification": image_classification}


@pytest.mark.parametrize(
    ("task", "name", "bound"),
    [
        ("language_model", "loss", 1.7),
        ("masked_lm", "mlm_loss", 3.0),
        ("image_classification", "accuracy", 0.9),
    ],
)
def test_a_small_model_learns_and_is_stored(task, name, bound, tmp_path):
    regard.train(MADE[task](tmp_path), tmp_path / "out", quiet=True)
    values = logged(tmp_path / "out", f"validation_{name}")
    assert values[-1] > bound if name == "accuracy" else values[-1] < bound
    stored = store.load_model(tmp_path / "out")
    assert stored.task == task
    assert not stored.model.training


@pytest.mark.parametrize("task", MADE)
def test_evaluate_says_what_validation_said_and_takes_other_data(task, tmp_path, capsys):
    regard.train(MADE[task](tmp_path, max_steps=20, validate_every=20), tmp_path / "out", quiet=True)
    assert main(["evaluate", str(tmp_path / "out"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["loss"] == pytest.approx(logged(tmp_path / "out", "validation_loss")[-1], rel=1e-5)
    if task == "image_classification":
        other = ["--data.validation_share", "0", "--data.validation.folder", str(tmp_path / "images")]
    else:
        text = next(tmp_path / name for name in ("train", "text.txt") if (tmp_path / name).exists())
        (tmp_path / "other.txt").write_text(text.read_text()[:1500])
        share = ["--data.validation_share", "0"] if task == "language_model" else []
        other = [*share, "--data.validation", str(tmp_path / "other.txt")]
    assert main(["evaluate", str(tmp_path / "out"), "--json", *other]) == 0
    assert json.loads(capsys.readouterr().out)["loss"] != said["loss"]


@pytest.mark.parametrize("task", MADE)
def test_a_run_in_two_parts_gives_the_same_bits(task, tmp_path):
    recipe = MADE[task](tmp_path, checkpoint_every=1)
    for out, steps in (("whole", [9]), ("parts", [1, 5, 9])):
        for last in steps:
            regard.train(recipe, tmp_path / out, changes={"training.max_steps": str(last)}, quiet=True)
    one, other = (weights.read_tensors(tmp_path / out / "checkpoints" / "step-00000009") for out in ("whole", "parts"))
    assert one.keys() == other.keys()
    assert not [name for name in one if not torch.equal(one[name], other[name])]


@pytest.mark.parametrize("task", MADE)
def test_validation_does_not_depend_on_the_batch(task, tmp_path):
    regard.train(MADE[task](tmp_path, max_steps=3, validate_every=3), tmp_path / "out", quiet=True)
    model, found = store.load_model(tmp_path / "out").model, []
    for size in (1, 3, 100):
        recipe = parse_recipe(MADE[task](tmp_path, rows_per_batch=size))
        found.append(Job(recipe, None).prepare(tmp_path / "out" / "data", print).validate(model))
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert found[2] == pytest.approx(found[0], rel=1e-5)


def test_going_on_from_a_language_model(tmp_path, capsys):
    recipe = language_model(tmp_path)
    regard.train(recipe, tmp_path / "first", quiet=True)
    other = tmp_path / "other.txt"
    other.write_text("".join(f"{number} and {number} make {2 * number}.\n" for number in range(400)))
    data = {**recipe["data"], "train": str(other)}
    further = {**recipe, "data": data, "model": {"start": str(tmp_path / "first")}}
    further["training"] = {**recipe["training"], "max_steps": 2, "warmup": 2, "lr": 1e-5}
    regard.train(further, tmp_path / "second")
    said = capsys.readouterr().out
    assert "starting from gpt2" in said
    assert "data.tokenizer is not used" in said
    first, second = (store.load_model(tmp_path / name) for name in ("first", "second"))
    assert second.config == first.config
    for name, tensor in first.model.state_dict().items():
        torch.testing.assert_close(second.model.state_dict()[name], tensor, atol=1e-4, rtol=0)
    assert regard.train(further, tmp_path / "second", quiet=True), "and again, where there is nothing left to do"
    regard.train(recipe, tmp_path / "first", changes={"training.max_steps": "120"}, quiet=True)
    with pytest.raises(DataError, match="the training files have changed"):
        regard.train(further, tmp_path / "second", quiet=True)


def test_a_head_of_another_kind_starts_fresh(tmp_path, capsys):
    regard.train(image_classification(tmp_path / "two"), tmp_path / "first", quiet=True)
    colours = {"blue": (40, 40, 200), "green": (40, 200, 40), "red": (200, 40, 40)}
    recipe = image_classification(tmp_path / "three", colours, max_steps=20)
    recipe["model"], recipe["data"]["size"] = {"start": str(tmp_path / "first")}, None
    regard.train(recipe, tmp_path / "second")
    said = capsys.readouterr().out
    assert "new: classifier.weight, classifier.bias" in said
    assert "not used: classifier.weight, classifier.bias" in said
    stored = store.load_model(tmp_path / "second")
    assert stored.extra["labels"] == ["blue", "green", "red"]
    assert stored.extra["image"] == store.load_model(tmp_path / "first").extra["image"]
    regard.train(masked_lm(tmp_path, max_steps=1), tmp_path / "bert", quiet=True)
    recipe = masked_lm(tmp_path, max_steps=1)
    recipe["model"], recipe["data"]["next_sentence"] = {"start": str(tmp_path / "bert")}, False
    regard.train(recipe, tmp_path / "words")
    assert "not used: pooler.weight" in capsys.readouterr().out


def test_what_cannot_be_gone_on_from(tmp_path):
    recipe = language_model(tmp_path, max_steps=1)
    regard.train(recipe, tmp_path / "first", quiet=True)
    for model, error, text in (
        ({"size": "tiny"}, ConfigError, "already sets the name and the size"),
        ({"name": "llama"}, ConfigError, "already sets the name and the size"),
        ({"options": {"d_model": 64}}, WeightsError, r"another shape: got .*embedding\.weight"),
        ({"options": {"n_layer": 2}}, ConfigError, "n_layer is unknown: did you mean 'n_layers'"),
    ):
        changed = {**recipe, "model": {"start": str(tmp_path / "first"), **model}}
        with pytest.raises(error, match=text):
            regard.train(changed, tmp_path / "second", quiet=True)
    with pytest.raises(DataError, match="absent"):
        regard.train({**recipe, "model": {"start": str(tmp_path / "absent")}}, tmp_path / "third", quiet=True)
    longer = {**recipe, "data": {**recipe["data"], "context": 64}, "model": {"start": str(tmp_path / "first")}}
    with pytest.raises(ConfigError, match=r"data\.context 64.*max_len 32"):
        regard.train(longer, tmp_path / "fourth", quiet=True)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"task": "language_modle"}, r"unknown task in R: got 'language_modle'.*masked_lm.*mean 'language_model'"),
        ({"task": ["x"]}, r"unknown task in R"),
        ({"data.contxt": "3"}, r"R: data\.contxt is unknown: did you mean 'context'"),
        ({"data.tokenizer.knd": "bpe"}, r"R: data\.tokenizer\.knd is unknown: did you mean 'kind'"),
        ({"data.train": "null"}, r"R: data\.train should be a valid string"),
        ({"data.validation": "x"}, r"R: data: give either validation or validation_share"),
        ({"model.nme": "gpt2"}, r"model\.nme is unknown"),
        ({"model": "gpt2"}, r"model should be"),
    ],
)  # fmt: skip
def test_wrong_recipes(change, text, tmp_path):
    recipe = {**language_model(tmp_path)}
    for name, value in change.items():
        recipe = configs.override(recipe, {name: value}) if isinstance(value, str) else {**recipe, name: value}
    path = tmp_path / "R.json"
    path.write_text(json.dumps(recipe))
    with pytest.raises(UsageError, match=text.replace("R:", r"\S+R\.json:").replace(" R", r" \S+R\.json")):
        read_recipe(path)


def test_wrong_images(tmp_path):
    recipe = image_classification(tmp_path)
    for files in ({}, {"images": "a"}, {"folder": "a", "labels": "b"}, {"sprite": "a", "images": "b", "labels": "c"}):
        with pytest.raises(ConfigError, match=r"data\.train: give images as folder"):
            parse_recipe({**recipe, "data": {**recipe["data"], "train": files}})
    with pytest.raises(ConfigError, match=r"data\.size is missing"):
        regard.train({**recipe, "data": {**recipe["data"], "size": None}}, tmp_path / "out", quiet=True)
    (tmp_path / "images" / "red" / "notes.txt").write_text("no image")
    with pytest.raises(DataError, match=r"notes\.txt is not an image"):
        regard.train(recipe, tmp_path / "out", quiet=True)


def test_every_recipe_parses(monkeypatch):
    monkeypatch.setenv("REGARD_DATA", "/data")
    recipes = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))
    assert len(recipes) > 8
    for path in recipes:
        Run(read_recipe(path), Path("unused"))


def test_old_run_folders_go_on(recipe, tmp_path):
    """A run that was begun before recipes had `model.start` and `training.rows_per_batch`."""
    short = {**recipe, "training": {**recipe["training"], "max_steps": 2, "validate_every": 1}}
    regard.train(short, tmp_path, quiet=True)
    known = json.loads((tmp_path / "recipe.json").read_text())
    del known["model"]["start"], known["training"]["rows_per_batch"]
    (tmp_path / "recipe.json").write_text(json.dumps(known))
    regard.train(short, tmp_path, changes={"training.max_steps": "3"}, quiet=True)
    assert len(logged(tmp_path, "validation_loss")) == 3
