"""`regard story STEP --full`: models of recipes are found and measured; what is missing is said in one line."""

import random

import pytest
from tests.system.commands import one_line, run

from regard import api, story
from regard.core.errors import DataError
from regard.story.steps import _bottleneck_full, _maps_full, _pretrained_full, _recurrent_full
from regard.story.text import sentences

FULL = ("recurrent", "bottleneck", "pretrained", "maps")
LINES = sentences(150, seed=1)
BLOCKS = {"d_model": 16, "n_heads": 2, "n_layers": 2, "d_ff": 16, "dropout": 0.0, "attention_dropout": 0.0}


@pytest.fixture
def stage(tmp_path):
    return story.Stage(tmp_path / "models")


def train(stage, name, task, model, options, data):
    tokenizer = {"kind": "wordpiece" if model == "bert" else "space", "vocab_size": 900}
    training = {"max_steps": 2, "tokens_per_batch": 256, "warmup": 0}
    recipe = {"task": task, "data": {"tokenizer": tokenizer, **data}, "model": {"name": model, "options": options}}
    stage.train(name, {**recipe, "training": training})


def test_steps_say_what_full_adds():
    able = [name for name, step in story.all_steps().items() if hasattr(step, "full")]
    assert set(able) >= set(FULL)
    assert all(story.find_step(name).FULL.endswith(".") for name in able)


@pytest.mark.parametrize("name", FULL)
def test_a_missing_model_is_named_with_its_command(name, tmp_path):
    with pytest.raises(DataError, match=r"regard train recipes/\w+\.yaml"):
        api.tell(name, tmp_path, models=tmp_path)


def test_a_missing_model_is_one_line(tmp_path):
    line = one_line(run("story", "recurrent", "--full", "--models", tmp_path), 1)
    assert str(tmp_path / "ptb_lstm") in line


def test_a_step_without_a_full_version_says_so(tmp_path):
    done = run("story", "features", "--full")
    assert done.returncode == 0
    assert "no --full version" in done.stdout
    done = run("story", "features", "--full", "--models", tmp_path)
    assert "no --full version, so --models is not used" in " ".join(done.stdout.split())


def test_models_without_full_are_refused(tmp_path):
    said = one_line(run("story", "features", "--models", tmp_path, "--out", tmp_path / "out"), 2)
    assert said.startswith("regard: --models is for --full")
    assert not (tmp_path / "out").exists()


def test_gradients_of_a_recipe(stage, tmp_path, monkeypatch):
    text = stage.write_lines("ptb.txt", LINES)
    monkeypatch.setattr(_recurrent_full, "_TEXT", text)
    options = {"d_embedding": 8, "d_hidden": 8, "n_layers": 1}
    train(stage, "ptb_lstm", "language_model", "rnn", options, {"train": text, "context": 20})
    told = api.tell("recurrent", tmp_path, models=stage.folder, pages=tmp_path / "pages")
    assert len(told.result.data["factors"]) == 3
    page = (tmp_path / "pages" / "03_recurrent_full.md").read_text()
    assert "regard story recurrent --full" in page
    index = (tmp_path / "pages" / "index.md").read_text()
    assert "`regard story recurrent --full`" in index
    assert "1." not in index.split("##")[0].split("\n\n", 2)[2], "the thread lists steps, not their full versions"


def test_a_word_in_two_sentences_of_a_recipe(stage, tmp_path):
    text = stage.write_lines("text", LINES)
    data = {"train": text, "documents": "lines", "next_sentence": False, "max_len": 64}
    train(stage, _pretrained_full.MODEL, "masked_lm", "bert", {**BLOCKS, "max_len": 64}, data)
    told = api.tell("pretrained", tmp_path, models=stage.folder)
    assert [len(values) for values in told.result.data["cosines"].values()] == [3, 3]
    assert told.result.data["change by the last word"] >= 0


def test_maps_of_a_recipe(stage, tmp_path, monkeypatch):
    text = stage.write_lines("text", [" ".join(LINES[at : at + 30]) for at in range(0, 150, 30)])
    monkeypatch.setattr(_maps_full, "_TEXT", text)
    monkeypatch.setattr(_maps_full, "_TOKENS", 30)
    options = {**BLOCKS, "embedding_dropout": 0.0, "max_len": 128}
    train(stage, _maps_full.MODEL, "language_model", "gpt2", options, {"train": text, "context": 64})
    told = api.tell("maps", tmp_path, models=stage.folder)
    assert told.result.panels[2].columns[0] == "passage"
    assert len(told.result.data["heads"]["layer 2, A"]) == 3


def test_translations_of_recipes_by_length(stage, tmp_path, monkeypatch):
    dice = random.Random(1)
    lines = [" ".join(dice.choices("abcdefgh", k=dice.randint(3, 20))) for _ in range(60)]
    file = stage.write_lines("lines.de", lines)
    stage.write_lines("lines.en", lines)
    monkeypatch.setattr(_bottleneck_full, "_TEST", file.replace(".de", ".{}"))
    data = {"train": {"source": file, "target": file}}
    sizes = {"cell": "gru", "d_embedding": 8, "d_hidden": 8}
    train(stage, "multi30k_none", "translation", "seq2seq", {**sizes, "attention": "none"}, data)
    train(stage, "multi30k_de_en_bahdanau", "translation", "seq2seq", sizes, data)
    shape = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
    train(stage, "multi30k_en_de", "translation", "transformer", shape, data)
    told = api.tell("bottleneck", tmp_path, models=stage.folder)
    counts = [row[2] for row in told.result.panels[1].rows]
    assert sum(counts) == 3 * len(lines)
