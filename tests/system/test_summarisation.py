"""Summarisation through the commands: titles are learnt, long documents are cut with a note, bad input is named."""

import json
import random

import pytest
from tests.system.commands import run

import regard

NAMES, DEEDS, DAYS = ["storm", "team", "court", "bank"], ["wins", "falls", "returns"], ["monday", "friday", "sunday"]


def row(dice):
    name, deed, day = dice.choice(NAMES), dice.choice(DEEDS), dice.choice(DAYS)
    filler = " ".join(dice.choices(["it", "was", "said", "here", "again"], k=dice.randrange(2, 6)))
    return {"body": f"On {day} the\n{name} , {filler} , {deed} .", "title": f"{name} {deed}"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder, dice = tmp_path_factory.mktemp("news"), random.Random(3)
    rows = [row(dice) for _ in range(340)]
    (folder / "news.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    shape = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_encoder_layers": 2, "n_decoder_layers": 1, "dropout": 0.0}
    table = {"file": str(folder / "news.jsonl"), "text": "body", "summary": "title"}
    recipe = {
        "task": "summarisation",
        "data": {
            "train": {**table, "take": 300},
            "validation": {**table, "skip": 300},
            "tokenizer": {"kind": "word", "vocab_size": 60},
            "max_document": 20,
        },
        "model": {"name": "transformer", "options": shape},
        "training": {
            "max_steps": 250,
            "tokens_per_batch": 300,
            "lr": 5e-3,
            "warmup": 30,
            "clip": 1.0,
            "metric": "rouge_l",
            "validate_every": 250,
        },
        "evaluation": [{"name": "rouge", "lead": 2}],
    }
    regard.train(recipe, folder / "out", quiet=True)
    return folder / "out"


def test_titles_are_learnt_and_the_first_words_are_no_title(model):
    done = run("evaluate", model)
    numbers = {name: float(value) for name, value in (line.split()[:2] for line in done.stdout.splitlines())}
    assert numbers["rouge_l"] > 90, done.stdout
    assert numbers["lead_rouge_l"] < 10


def test_one_summary_a_line(model):
    done = run("summarise", model, text="On friday the bank , it was , falls .\n\n")
    assert done.stdout == "bank falls\n\n"
    assert done.stderr == ""


def test_long_documents_are_cut_with_a_note(model):
    text = "On friday the bank , it was , falls . " + "again " * 2000
    done = run("summarise", model, "--json", text=f"{text}\n")
    assert done.returncode == 0
    assert "1 text was longer than the 20 tokens that this model reads, and cut" in done.stderr
    assert json.loads(done.stdout).keys() == {"text", "summary"}


def test_attention_can_be_looked_at(model):
    seen = regard.load(model).explain("On friday the bank , it was , falls .", method="maps")
    assert seen.panels


def test_other_models_and_bad_tables_are_named(model, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("a,b\n")
    data = {"train": {"file": str(empty), "text": 0, "summary": 1, "skip": 5}}
    with pytest.raises(regard.core.errors.DataError, match="has no rows after row 5"):
        regard.train({"task": "summarisation", "data": data, "training": {}}, tmp_path / "out", quiet=True)
    with pytest.raises(regard.core.errors.UsageError, match="takes a list"):
        regard.load(model).summarise("one string")
