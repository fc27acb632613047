"""Train, translate, evaluate, align: through the commands and from Python, with good input and bad."""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

import regard
from regard.core.errors import ConfigError, DataError, UsageError, WeightsError

COMMAND = Path(sys.executable).parent / "regard"


def run(*words: object, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run([COMMAND, *map(str, words)], input=text, capture_output=True, text=True, timeout=300)


def one_line(done: subprocess.CompletedProcess, code: int) -> str:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("regard: ")
    return line


def test_the_model_has_learnt_to_reverse(trained):
    model = regard.load(trained)
    assert model.translate(["cat dog", "one two three red"]) == ["dog cat", "red three two one"]


def test_the_folder_is_complete(trained):
    names = {path.name for path in trained.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "README.md",
            "manifest.json", "log.jsonl", "recipe.json"} <= names  # fmt: skip


def test_one_line_out_for_each_line_in(trained):
    done = run("translate", trained, text="cat dog\n\n   \none two three\r\nblue cat")
    assert done.returncode == 0
    assert done.stdout == "dog cat\n\n\nthree two one\ncat blue\n"


def test_batching_changes_nothing(trained):
    model = regard.load(trained)
    lines = ["cat", "one two three red blue", "", "dog bird", "green green tree one"] * 3
    together = model.translate_nbest(lines, beam=4, nbest=3)
    for line, found in zip(lines, together, strict=True):
        alone = model.translate_nbest([line], beam=4, nbest=3)[0]
        assert [t.text for t in found] == [t.text for t in alone]
        assert [t.score for t in found] == pytest.approx([t.score for t in alone], abs=1e-5)


def test_lines_are_answered_as_they_come(trained):
    with subprocess.Popen([COMMAND, "translate", trained], stdin=-1, stdout=-1, text=True, bufsize=1) as process:
        for words, answer in [("cat dog", "dog cat"), ("one two", "two one")]:
            process.stdin.write(words + "\n")
            process.stdin.flush()
            started = time.monotonic()
            assert process.stdout.readline().strip() == answer
            assert time.monotonic() - started < 60
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_nbest_json_and_alignments(trained, tmp_path):
    done = run("translate", trained, "--beam", 3, "--nbest", 2, text="cat dog\nred one\n")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    assert float(rows[0][1]) >= float(rows[1][1])
    done = run("translate", trained, "--json", "--alignments", tmp_path / "a.jsonl", text="cat dog\n\n")
    assert json.loads(done.stdout.splitlines()[0])["text"] == "dog cat"
    first, second = (json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines())
    assert first["target"] == ["dog", "cat", "</s>"]
    assert second is None


def test_an_unwritable_file_is_one_line(trained):
    assert "No such file" in one_line(run("translate", trained, "--alignments", "/no/such/folder/x", text="cat\n"), 1)


def test_alignment_is_the_learnt_reversal(trained, tmp_path):
    model = regard.load(trained)
    found = model.align("one two three red")
    assert found.source == ["one", "two", "three", "red", "</s>"]
    assert found.target == ["red", "three", "two", "one", "</s>"]
    (weights,) = found.sites["align"]
    assert len(weights) == 5
    for row in weights:
        assert sum(row) == pytest.approx(1.0, abs=1e-5)
    assert found.matrix("align", 0) == pytest.approx(torch.tensor(weights).numpy())
    forced = model.align("cat dog", "dog dog")
    assert forced.translation == "dog dog"
    shown = run("align", trained, "cat dog")
    assert shown.returncode == 0
    assert "dog cat" in shown.stdout
    for name, start in (("x.svg", b"<?xml"), ("x.png", b"\x89PNG"), ("x.json", b"{")):
        assert run("align", trained, "cat dog", "--out", tmp_path / name).returncode == 0
        assert (tmp_path / name).read_bytes().startswith(start)


def test_evaluate(trained, tmp_path):
    with gzip.open(tmp_path / "s.gz", "wt") as file:
        file.write("cat dog\none two three four\nred blue\n")
    (tmp_path / "r").write_text("dog cat\nfour three two one\nblue red\n")
    done = run("evaluate", trained, "--source", tmp_path / "s.gz", "--reference", tmp_path / "r", "--json")
    scores = json.loads(done.stdout)
    assert scores["lines"] == 3
    assert "nrefs:1" in scores["bleu_signature"]
    assert 0 < scores["chrf"] <= 100
    assert "BLEU" in run("evaluate", trained, "--source", tmp_path / "s.gz", "--reference", tmp_path / "r").stdout
    (tmp_path / "short").write_text("dog cat\n")
    text = one_line(run("evaluate", trained, "--source", tmp_path / "s.gz", "--reference", tmp_path / "short"), 1)
    assert "3 and 1 lines" in text


def test_saved_again_it_is_the_same(trained, tmp_path):
    model = regard.load(trained)
    model.save(tmp_path / "copy")
    again = regard.load(tmp_path / "copy")
    assert (tmp_path / "copy" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert again.translate_nbest(["one two red"]) == model.translate_nbest(["one two red"])
    model.save_pretrained(tmp_path / "other")
    assert regard.load(tmp_path / "other").translate(["cat dog"]) == ["dog cat"]


def test_sampling_and_constraints(trained):
    model = regard.load(trained)
    one, other = (model.translate(["one two three"], sample=True, temperature=3.0, seed=seed) for seed in (1, 2))
    assert one == model.translate(["one two three"], sample=True, temperature=3.0, seed=1)
    assert one != other
    assert model.translate(["one two three"], max_length=2)[0].count(" ") <= 1
    assert model.translate(["one two"], prefixes=["tree"], max_length=6)[0].startswith("tree")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", "generation_config.json"])
def test_a_flipped_byte_is_found_by_name(trained, tmp_path, name):
    regard.load(trained).save(tmp_path / "m")
    damaged = bytearray((tmp_path / "m" / name).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "m" / name).write_bytes(damaged)
    with pytest.raises(WeightsError, match=f"{name} is damaged"):
        regard.load(tmp_path / "m")
    assert f"{name} is damaged" in one_line(run("translate", tmp_path / "m", text="cat\n"), 1)


def test_folders_that_are_none(trained, tmp_path):
    assert "no such folder" in one_line(run("translate", tmp_path / "nowhere"), 1)
    assert "no config.json" in one_line(run("translate", tmp_path), 1)
    with pytest.raises(DataError, match="no config.json"):
        regard.load(tmp_path)


def test_python_usage_errors(trained):
    model = regard.load(trained)
    with pytest.raises(UsageError, match="list of lines"):
        model.translate("cat dog")
    with pytest.raises(ConfigError, match="beem"):
        model.translate(["cat"], beem=3)
    with pytest.raises(UsageError, match="nothing to align"):
        model.align("")


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
