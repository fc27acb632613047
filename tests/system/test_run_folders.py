"""Folders of runs: two runs at once, damage in any file, what a kill leaves behind, and folders that move."""

import copy
import json
import os
import platform
import shutil
import subprocess
import sys
import time

import pytest
import yaml
from tests.system.conftest import reversed_pairs, write_pairs
from tests.system.small_models import fails

import regard
from regard.core.errors import DataError, RegardError, WeightsError

REGARD = [sys.executable, "-m", "regard"]
MODEL = {"name": "seq2seq", "options": {"d_embedding": 8, "d_hidden": 8, "dropout": 0.0, "attention": "bahdanau"}}
TRAINING = {"max_steps": 6, "tokens_per_batch": 256, "lr": 1e-3, "validate_every": 2, "metric": "loss", "average": 3}


def small_recipe(folder):
    """Paths are relative to where the recipe stands."""
    (folder / "text").mkdir(parents=True)
    for name, seed in (("train", 1), ("validation", 2)):
        write_pairs(folder / "text", name, reversed_pairs(60, seed))
    sides = {name: {side: f"text/{name}.{side}" for side in ("source", "target")} for name in ("train", "validation")}
    data = {**sides, "tokenizer": {"kind": "word", "vocab_size": 60}}
    recipe = {"data": data, "model": MODEL, "training": TRAINING}
    (folder / "small.yaml").write_text(yaml.safe_dump(recipe))
    return folder / "small.yaml"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    regard.train(small_recipe(folder / "project"), folder / "out", quiet=True)
    return folder


@pytest.fixture
def out(finished, tmp_path):
    return shutil.copytree(finished / "out", tmp_path / "out")


def test_two_runs_in_one_folder(tmp_path):
    """The second is told who is there, and harms nothing."""
    recipe = small_recipe(tmp_path / "p")
    words = [*REGARD, "train", str(recipe), "--out", str(tmp_path / "out"), "--training.max_steps", "100000"]
    first = subprocess.Popen([*words, "--quiet"], stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("out/checkpoints/step-*")) and time.monotonic() < deadline:
            time.sleep(0.1)
        second = subprocess.run(words, capture_output=True, text=True, check=False)
        assert second.returncode == 1
        who = f"process {first.pid} on {platform.node()}"
        assert f"is in use by another run: got {who}. Wait until it has ended" in second.stderr
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
        first.stderr.close()
    with pytest.raises(RegardError, match="another recipe"):  # the lock died with its holder; the recipe did not
        regard.train(recipe, tmp_path / "out", changes={"training.lr": "0.5"}, quiet=True)


def test_a_damaged_older_checkpoint_does_not_block_the_average(finished, tmp_path, capsys):
    out = shutil.copytree(finished / "out", tmp_path / "out")
    damaged = out / "checkpoints" / "step-00000002" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\xff")
    regard.train(finished / "project" / "small.yaml", out)
    said = capsys.readouterr().out
    assert "the checkpoint of update 2 is damaged, so the average leaves it out" in said
    assert "average of 2 checkpoints" in said
    for step in (4, 6):
        place = out / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
        if step == 4:
            place.write_bytes(b"")
    regard.train(finished / "project" / "small.yaml", out)
    assert "there are fewer than two checkpoints to average" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{}", "[]", "", None, '{"config.json": {}}', '{"config.json": 3}'])
def test_a_folder_without_its_sums_is_refused(out, content):
    place = out / "manifest.json"
    place.unlink()
    if content is not None:
        place.write_text(content)
    with pytest.raises(WeightsError, match="manifest.json"):
        regard.load(out)


def test_every_flip_of_the_sums_and_of_the_recipe_is_noticed(out):
    for name in ("manifest.json", "recipe.json"):
        whole = (out / name).read_bytes()
        figures = [at for at, byte in enumerate(whole) if chr(byte).isalnum()]
        for at in figures[:: max(1, len(figures) // 60)]:
            (out / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(RegardError):
                regard.load(out)
        (out / name).write_bytes(whole)
    regard.load(out)


def test_sums_of_a_folder_that_was_changed_on_purpose(out):
    config = json.loads((out / "generation_config.json").read_text())
    (out / "generation_config.json").write_text(json.dumps({**config, "beam": 2}))
    with pytest.raises(WeightsError, match="python -m regard.core.manifest FOLDER"):
        regard.load(out)
    subprocess.run([sys.executable, "-m", "regard.core.manifest", str(out)], check=True)
    assert regard.load(out).stored.search.beam == 2


def test_a_run_that_goes_on_longer_keeps_its_sums(finished, out):
    model = regard.train(finished / "project" / "small.yaml", out, changes={"training.max_steps": "7"}, quiet=True)
    assert json.loads((out / "recipe.json").read_text())["training"]["max_steps"] == 7
    assert "recipe.json" in json.loads((out / "manifest.json").read_text())
    assert regard.load(out).translate(["red cat"]) == model.translate(["red cat"])


def test_what_a_kill_leaves_is_swept(finished, out):
    parts = [out / ".config.json.abc.part", out / "checkpoints" / "step-00000006" / ".x.part", out / "data" / ".y.part"]
    for path in parts:
        path.write_bytes(b"half")
    half, writing = out / "checkpoints" / "step-00000001", out / "checkpoints" / ".writing-00000009"
    for folder in (half, writing, out / "checkpoints" / ".removing-step-00000003"):
        folder.mkdir()
        (folder / "state.json").write_text("{}")
    regard.train(finished / "project" / "small.yaml", out, quiet=True)
    assert not [path for path in out.rglob("*") if path.suffix == ".part"]
    names = {path.name for path in (out / "checkpoints").iterdir()}
    assert names <= {f"step-{step:08d}" for step in range(2, 7)}


def test_a_recipe_is_run_from_anywhere(finished, tmp_path, monkeypatch):
    """Its paths are relative to it, and so are those of a run that is validated from elsewhere."""
    monkeypatch.chdir(tmp_path)
    recipe = small_recipe(tmp_path / "elsewhere")
    model = regard.train(os.path.relpath(recipe), tmp_path / "out", quiet=True)
    again = regard.train(finished / "project" / "small.yaml", finished / "out", quiet=True)
    assert again.translate(["red cat"]) == model.translate(["red cat"])
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    numbers = regard.api.validate(tmp_path / "out")
    assert numbers == regard.api.validate(finished / "out")
    moved = shutil.move(tmp_path / "out", tmp_path / "deep" / "moved")
    assert regard.api.validate(moved) == numbers


def test_where_one_stands_goes_first(finished, tmp_path, monkeypatch):
    recipe = small_recipe(tmp_path / "a")
    shutil.copytree(tmp_path / "a" / "text", tmp_path / "b" / "text")
    (tmp_path / "b" / "text" / "train.source").write_text("only one line\n")
    monkeypatch.chdir(tmp_path / "b")
    with pytest.raises(DataError, match="line"):
        regard.train(recipe, tmp_path / "out", quiet=True)


def test_a_file_that_is_gone_is_named(finished, out, tmp_path, monkeypatch, capsys):
    gone = copy.deepcopy(json.loads((out / "recipe.json").read_text()))
    shutil.rmtree(out / "data")
    monkeypatch.chdir(tmp_path)
    said = fails(capsys, "evaluate", out)
    assert gone["data"]["train"]["source"] in said or gone["data"]["validation"]["source"] in said
    assert "No such file" in said
