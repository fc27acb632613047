"""Train, translate, evaluate, align: through the commands and from Python, with good input and bad."""

import gzip
import json
import os
import subprocess
import time

import pytest
import sacrebleu
import torch
from tests.system.commands import COMMAND, one_line, run

import regard
from regard.core.errors import ConfigError, DataError, UsageError, WeightsError


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


@pytest.mark.slow
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


def test_evaluate_states_each_signature_and_takes_moses_words(trained, tmp_path):
    (tmp_path / "s").write_text("cat dog\none two three red\n")
    (tmp_path / "r").write_text("Dog cat\nred three two one\n")
    files = ("--source", tmp_path / "s", "--reference", tmp_path / "r")
    lines = run("evaluate", trained, *files, "--moses", "en").stdout.splitlines()
    version = f"smooth:exp|version:{sacrebleu.__version__}"
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF", "BLEU", "BLEU", "exact"]
    assert lines[0].split()[2] == f"nrefs:1|case:mixed|eff:no|tok:13a|{version}"
    assert f"nrefs:1|case:mixed|eff:no|tok:none|{version}, words as the files separate them" in lines[2]
    assert f"nrefs:1|case:lc|eff:no|tok:none|{version}, words of Moses' tokenizer (en, sacremoses " in lines[3]
    scores = json.loads(run("evaluate", trained, *files, "--moses", "en", "--json").stdout)
    assert scores["bleu_moses"] == 100.0  # but for the case every line is right
    assert scores["bleu"] < 100.0
    assert "unknown language" in one_line(run("evaluate", trained, *files, "--moses", "xx"), 2)
    assert "--moses scores translations" in one_line(run("evaluate", trained, "--moses", "en"), 2)


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


def test_samples_do_not_depend_on_how_the_input_is_cut(trained):
    lines, options = ["one two three"] * 6, {"sample": True, "temperature": 3.0, "seed": 1}
    model = regard.load(trained)
    whole = model.translate_nbest(lines, **options)
    parts = [*model.translate_nbest(lines[:4], **options), *model.translate_nbest(lines[4:], first=4, **options)]
    assert [found[0].text for found in whole] == [found[0].text for found in parts]
    assert len({found[0].text for found in whole}) > 1


def test_nbest_stored_with_the_model_is_numbered(trained, tmp_path):
    model = regard.load(trained)
    model.stored.search = model.stored.search.model_copy(update={"nbest": 2})
    model.save(tmp_path / "m")
    assert run("translate", tmp_path / "m", text="cat dog\n").stdout.startswith("1\t")


def test_an_open_or_closed_standard_input_is_no_crash(trained):
    done = subprocess.run(
        f"(echo cat; sleep 3) | {COMMAND} translate {trained} --beam 0", shell=True, capture_output=True
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count(b"\n") == 1
    done = subprocess.run(f"{COMMAND} translate {trained} <&-", shell=True, capture_output=True, text=True, timeout=60)
    assert "standard input cannot be read" in one_line(done, 1)


def test_output_is_utf8_whatever_the_terminal(trained):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = subprocess.run([COMMAND, "align", trained, "cat dog"], capture_output=True, env=environment)
    assert done.returncode == 0
    assert "█" in done.stdout.decode("utf-8")


def test_a_model_without_attention_says_so(recipe, tmp_path):
    options = {**recipe["model"]["options"], "attention": "none"}
    short = {**recipe["training"], "max_steps": 2, "validate_every": 2}
    regard.train(
        {**recipe, "model": {"name": "seq2seq", "options": options}, "training": short}, tmp_path / "n", quiet=True
    )
    assert "no attention to look at" in one_line(run("align", tmp_path / "n", "cat dog"), 2)


@pytest.mark.slow
def test_several_models_are_an_ensemble(trained, recipe, tmp_path):
    text = "red cat\none two three\n"
    alone, together = run("translate", trained, text=text), run("translate", trained, trained, text=text)
    assert together.returncode == 0, together.stderr
    assert together.stdout == alone.stdout
    other = {**recipe, "data": {**recipe["data"], "tokenizer": {"kind": "char"}}}
    other["training"] = {**recipe["training"], "max_steps": 2, "validate_every": 2, "metric": "loss"}
    regard.train(other, tmp_path / "other", quiet=True)
    assert "same vocabularies" in one_line(run("translate", trained, tmp_path / "other", text=text), 2)
    assert "--source and --reference" in one_line(run("evaluate", trained, "--with", trained), 2)


@pytest.mark.slow
def test_an_ensemble_is_scored(trained, recipe):
    files = recipe["data"]["validation"]
    given = ("--source", files["source"], "--reference", files["target"], "--json")
    both = [json.loads(run("evaluate", trained, *given, *more).stdout)["bleu"] for more in ((), ("--with", trained))]
    assert both[0] == both[1]
