"""Translations beside their references, at each validation of a run that is not quiet."""

import dataclasses
import json
from pathlib import Path

import pytest
from tests.system.commands import run

import regard
from regard.core.measured import Measured
from regard.evaluation.evaluators import make_evaluator
from regard.evaluation.held_out import HeldOut


def short(recipe, folder, **training):
    path = folder / "recipe.json"
    settings = {**recipe["training"], "max_steps": 4, "validate_every": 2, "average": 1, **training}
    path.write_text(json.dumps({**recipe, "training": settings}))
    return path


@pytest.mark.parametrize("metric", ["bleu", pytest.param("loss", marks=pytest.mark.slow)])
def test_each_validation_shows_the_same_lines(recipe, tmp_path, metric):
    done = run("train", short(recipe, tmp_path, metric=metric), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    shown = [[line.split(maxsplit=1)[1] for line in lines if line.startswith(f"  {what}  ")]
             for what in ("source", "reference")]  # fmt: skip
    assert len(shown[0]) == 6, "three lines, two validations"
    assert shown[0][:3] == shown[0][3:]
    sides = [Path(recipe["data"]["validation"][side]).read_text().splitlines() for side in ("source", "target")]
    places = [sides[0].index(source) for source in shown[0][:3]]
    assert [sides[1][place] for place in places] == shown[1][:3]
    assert sum(line.startswith("  written  ") for line in lines) == 6
    order = [line[:6] for line in lines if line.startswith(("step ", "  source"))]
    assert order == [*["  sour"] * 3, "step 2", *["  sour"] * 3, "step 4"]
    quiet = run("train", short(recipe, tmp_path), "--out", tmp_path / "quiet", "--quiet")
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_samples_change_nothing(recipe, tmp_path, capsys):
    weights = []
    for quiet in (True, False):
        out = tmp_path / f"quiet-{quiet}"
        regard.train(json.loads(short(recipe, tmp_path, metric="loss").read_text()), out, quiet=quiet)
        weights.append((out / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_what_an_evaluator_decoded_is_not_decoded_again(trained):
    stored = regard.load(trained).stored
    inputs = ["cat dog", "", "one two", "red blue", "tree cat", "two one"]
    seen = HeldOut(Measured(), {"inputs": inputs, "references": [[f"r{n}"] for n in range(6)]}, lambda: stored)
    alone = seen.samples()
    assert [sample.input for sample in alone] == ["cat dog", "red blue", "two one"]
    assert [sample.reference for sample in alone] == ["r0", "r3", "r5"]
    assert [sample.written for sample in alone] == ["dog cat", "blue red", "one two"]
    seen.texts(beam=1)
    calls = []
    stored.model.register_forward_pre_hook(lambda *_: calls.append(1))
    read = stored.model.read
    stored.model.read = lambda *given: calls.append(1) or read(*given)
    assert seen.samples() == alone
    assert not calls
    few = HeldOut(Measured(), {"inputs": ["cat dog", " "], "references": [["r"], [""]]}, lambda: stored)
    assert [sample.input for sample in few.samples()] == ["cat dog"]
    assert HeldOut(Measured(), {"inputs": [3, 4], "references": [["r"], ["s"]]}, lambda: stored).samples() == []
    long = HeldOut(Measured(), {"inputs": ["cat " * 2000], "references": [["r"]]}, lambda: stored)
    assert long.samples() == []


def test_evaluators_search_by_beams_whatever_the_recipe_searches_by(trained):
    """A recipe may sample, or list several outputs; "1 is greedy" holds for the scores at validation."""
    stored = regard.load(trained).stored
    material = {"inputs": ["cat dog", "one two", "red blue"], "references": [["dog cat"], ["two one"], ["blue red"]]}
    names = ("bleu", "chrf", "rouge", "exact_text", "caption_bleu")
    scores = []
    for change in ({}, {"sample": True, "temperature": 50.0}, {"nbest": 3, "beam": 4}):
        changed = dataclasses.replace(stored, search=stored.search.model_copy(update=change))
        seen = HeldOut(Measured(), material, lambda changed=changed: changed)
        assert [sample.written for sample in seen.samples()] == ["dog cat", "two one", "blue red"]
        scores.append([make_evaluator(name)(seen) for name in names])
        assert make_evaluator({"name": "exact_text", "beam": 2})(seen) == {"exact_text": 1.0}
    assert scores[0] == scores[1] == scores[2]
