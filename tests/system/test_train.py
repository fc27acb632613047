"""Recipes as users write them: good ones, misspelt ones, files that changed or are missing."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from tests.system.commands import one_line, run

import regard
from regard.core.errors import ConfigError, DataError
from regard.store import load_model
from regard.training.checkpoint import read_checkpoint


def written(tmp_path: Path, recipe: dict) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def test_a_misspelt_key_is_suggested(recipe, tmp_path):
    path = written(tmp_path, {**recipe, "training": {**recipe["training"], "max_step": 3}})
    text = one_line(run("train", path, "--out", tmp_path / "out"), 2)
    assert "training.max_step is unknown" in text
    assert "'max_steps'" in text
    text = one_line(run("train", written(tmp_path, recipe), "--out", tmp_path / "out", "--training.lrr", "1"), 2)
    assert "did you mean 'lr'" in text


def test_unequal_files_are_refused_with_both_counts(recipe, tmp_path):
    longer = tmp_path / "longer"
    longer.write_text(Path(recipe["data"]["train"]["source"]).read_text() + "one more\n")
    changed = {**recipe, "data": {**recipe["data"], "train": {**recipe["data"]["train"], "source": str(longer)}}}
    text = one_line(run("train", written(tmp_path, changed), "--out", tmp_path / "out"), 1)
    assert "2001" in text
    assert "2000" in text


def test_an_unset_variable_and_a_missing_file(recipe, tmp_path):
    for path, word in (("$NO_SUCH_VARIABLE/x", "not set"), (str(tmp_path / "absent"), "absent")):
        files = {**recipe["data"]["train"], "source": path}
        changed = {**recipe, "data": {**recipe["data"], "train": files}}
        assert word in one_line(run("train", written(tmp_path, changed), "--out", tmp_path / "out"), 1)


def test_a_folder_keeps_to_its_recipe(recipe, trained):
    with pytest.raises(ConfigError, match=r"another recipe.*training.lr 0.01 → 0.5.*--out"):
        regard.train({**recipe, "training": {**recipe["training"], "lr": 0.5}}, trained, quiet=True)
    longer = {**recipe, "training": {**recipe["training"], "log_every": 10}}
    assert regard.train(longer, trained, quiet=True).translate(["cat dog"]) == ["dog cat"]


def test_overrides_reach_the_run(recipe, tmp_path):
    words = ["--training.max_steps=2", "--model.options.d_hidden", "8", "--training.validate_every", "2"]
    assert run("train", written(tmp_path, recipe), "--out", tmp_path / "o", *words).returncode == 0
    assert json.loads((tmp_path / "o" / "config.json").read_text())["config"]["d_hidden"] == 8
    assert "cannot read 'stray'" in one_line(run("train", written(tmp_path, recipe), "stray"), 2)


def test_learned_positions_limit_what_is_written(recipe, tmp_path):
    shape = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
    options = {**shape, "position": "learned", "max_len": 12}
    training = {**recipe["training"], "max_steps": 2, "validate_every": 2}
    changed = {**recipe, "model": {"options": options}, "training": training}
    with pytest.raises(ConfigError, match="max_tokens 256.*max_len 12"):
        regard.train(changed, tmp_path / "a", quiet=True)
    changed["data"] = {**recipe["data"], "max_tokens": 10}
    regard.train(changed, tmp_path / "b", quiet=True)


def test_apart_vocabularies_are_not_tied(recipe, tmp_path):
    data = {**recipe["data"], "tokenizer": {"kind": "word", "vocab_size": 12, "joint": False}}
    shape = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
    training = {**recipe["training"], "max_steps": 1, "validate_every": 1}
    changed = {**recipe, "data": data, "model": {"options": shape}, "training": training}
    model = regard.train(changed, tmp_path / "a", quiet=True).model
    assert model.source_embedding is not model.target_embedding
    changed["model"] = {"options": {**shape, "share": "all"}}
    with pytest.raises(ConfigError, match="one vocabulary"):
        regard.train(changed, tmp_path / "b", quiet=True)


def test_changed_files_are_prepared_again_or_refused(recipe, tmp_path):
    source = tmp_path / "train.source"
    source.write_text(Path(recipe["data"]["train"]["source"]).read_text())
    files = {**recipe["data"]["train"], "source": str(source)}
    training = {**recipe["training"], "max_steps": 1, "validate_every": 1}
    changed = {**recipe, "data": {**recipe["data"], "train": files}, "training": training}
    regard.train(changed, tmp_path / "a", quiet=True)
    source.write_text(source.read_text().replace("cat", "cow"))
    with pytest.raises(DataError, match="the training files have changed"):
        regard.train(changed, tmp_path / "a", quiet=True)
    shutil.rmtree(tmp_path / "a" / "checkpoints")
    model = regard.train(changed, tmp_path / "a", quiet=True)
    assert "cow" in model.source_tokenizer.tokens(model.source_tokenizer.encode_batch(["cow"])[0])


def test_changes_apply_to_a_mapping_too(recipe, tmp_path):
    with pytest.raises(ConfigError, match="nonsense"):
        regard.train(recipe, tmp_path, changes={"nonsense": "3"}, quiet=True)
    assert "the recipe comes first" in one_line(run("train", "--training.lr", "1e-3", "x.yaml"), 2)


def unvalidated(recipe: dict, **training) -> dict:
    data = {name: value for name, value in recipe["data"].items() if name != "validation"}
    kept = {name: recipe["training"][name] for name in ("tokens_per_batch", "lr", "warmup", "label_smoothing")}
    return {**recipe, "data": data, "training": {**kept, "max_steps": 9, "checkpoint_every": 3, **training}}


def test_a_moving_average_is_stored_without_validation(recipe, tmp_path):
    regard.train(unvalidated(recipe, ema=0.9), tmp_path / "out", quiet=True)
    stored = load_model(tmp_path / "out").model.state_dict()
    last = read_checkpoint(tmp_path / "out" / "checkpoints" / "step-00000009")
    for name, tensor in stored.items():
        assert torch.equal(tensor, last.training[f"average/{name}"])
    assert any(not torch.equal(tensor, last.model[name]) for name, tensor in stored.items())


def test_the_average_of_the_last_checkpoints_is_stored_without_validation(recipe, tmp_path):
    regard.train(unvalidated(recipe, average=2), tmp_path / "out", quiet=True)
    stored = load_model(tmp_path / "out").model.state_dict()
    parts = [read_checkpoint(tmp_path / "out" / "checkpoints" / f"step-{step:08d}").model for step in (6, 9)]
    for name, tensor in stored.items():
        torch.testing.assert_close(tensor, (parts[0][name] + parts[1][name]) / 2)
    assert any(not torch.equal(tensor, parts[1][name]) for name, tensor in stored.items())


def test_weights_that_are_no_numbers_are_told_in_one_line(recipe, tmp_path):
    path = written(tmp_path, unvalidated(recipe, lr=1e300, warmup=0, max_steps=1))
    text = one_line(run("train", path, "--out", tmp_path / "out"), 1)
    assert "the weights are not finite after update 1" in text
    assert not (tmp_path / "out" / "model.safetensors").exists()
