"""Recurrent models by recipes: carried states, resuming, generating, classes."""

import json
import math
import random

import pytest
import torch

import regard
from regard import api
from regard.core.errors import ConfigError
from regard.training import engine as engines
from regard.training.interrupt import Interrupted

SMALL = {"d_embedding": 16, "d_hidden": 24, "n_layers": 2}


def recipe(folder, *, cell="lstm", streams=4, options=None, **training):
    """`cell` is one of the rnn's, or "tape" for the LSTMN, whose tape is shorter than two batches."""
    tape = {"name": "lstmn", "options": {"span": 15, "n_layers": 1}}
    kind = tape if cell == "tape" else {"name": "rnn", "options": {"cell": cell}}
    text = " ".join(f"a{n % 7} b{(n // 7) % 5} c{n % 3}" for n in range(1500))
    (folder / "text.txt").write_text(text + "\n")
    return {
        "task": "language_model",
        "data": {"train": str(folder / "text.txt"), "validation_share": 0.1, "context": 12, "streams": streams,
                 "tokenizer": {"kind": "space", "vocab_size": 60}},
        "model": {**kind, "options": {**SMALL, **kind["options"], **(options or {})}},
        "training": {"max_steps": 24, "lr": 0.01, "warmup": 0, "schedule": "constant", "validate_every": 8,
                     "checkpoint_every": 5, "log_every": 1, **training},
    }  # fmt: skip


def tensors(model):
    return model.model.state_dict()


@pytest.mark.parametrize("cell", ["elman", "gru", "lstm", "tape"])
def test_a_carried_state_survives_a_resume_to_the_bit(cell, tmp_path, monkeypatch):
    options = {"dropout": 0.2}
    whole = regard.train(recipe(tmp_path, cell=cell, options=options), tmp_path / "whole", quiet=True)
    update = engines.Engine._update

    def stopping(self, batches):
        update(self, batches)
        if self.progress.step == 11:
            self._signals.append(2)

    monkeypatch.setattr(engines.Engine, "_update", stopping)
    with pytest.raises(Interrupted):
        regard.train(recipe(tmp_path, cell=cell, options=options), tmp_path / "part", quiet=True)
    monkeypatch.setattr(engines.Engine, "_update", update)
    resumed = regard.train(recipe(tmp_path, cell=cell, options=options), tmp_path / "part", quiet=True)
    assert all(torch.equal(tensor, tensors(resumed)[name]) for name, tensor in tensors(whole).items())
    rows = [
        [json.loads(line) for line in (tmp_path / run / "log.jsonl").read_text().splitlines()]
        for run in ("whole", "part")
    ]
    losses = [[row["validation_loss"] for row in part if "validation_loss" in row] for part in rows]
    assert losses[0][-1] == losses[1][-1]


def test_the_state_makes_a_difference_and_validation_reads_the_whole_text(tmp_path):
    """Perplexity of the held-out text in pieces, each from the state of the one before, is that of the text at once."""
    trained = recipe(tmp_path, max_steps=60)
    model = regard.train(trained, tmp_path / "run", quiet=True)
    numbers = api.validate(tmp_path / "run")
    text = (tmp_path / "text.txt").read_text()
    (ids,) = model.tokenizer.encode_batch([text[int(len(text) * 0.9) :]])
    with torch.no_grad():
        logits = model(torch.tensor([ids[:-1]])).logits
    loss = torch.nn.functional.cross_entropy(logits[0], torch.tensor(ids[1:])).item()
    assert numbers["loss"] == pytest.approx(loss, abs=1e-5)
    assert numbers["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    alone = api.validate(tmp_path / "run", changes={"data.streams": "null", "data.context": "2"})
    assert alone["loss"] > numbers["loss"] + 0.05


@pytest.mark.parametrize("cell", ["lstm", "tape"])
def test_probabilities_sum_to_one_and_text_is_generated(cell, tmp_path):
    model = regard.train(recipe(tmp_path, cell=cell), tmp_path / "run", quiet=True)
    with torch.no_grad():
        sums = model(torch.tensor([[5, 6, 7, 8]])).logits.double().softmax(-1).sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))
    first = model.generate(["a0 b0", "a1"], max_tokens=5)
    alone = model.generate(["a1"], max_tokens=5)
    assert first[1].text == alone[0].text
    assert len(first[0].tokens) == 5


def test_a_model_without_a_state_cannot_read_streams(tmp_path):
    wrong = recipe(tmp_path)
    wrong["model"] = {"name": "gpt2", "options": {"d_model": 16, "n_layers": 1, "n_heads": 1}}
    with pytest.raises(ConfigError, match="needs a model that carries its state"):
        regard.train(wrong, tmp_path / "run", quiet=True)


@pytest.mark.parametrize("options", [{"bidirectional": True}, {"tie": True}])
def test_what_does_not_fit_is_said(options, tmp_path):
    with pytest.raises(ConfigError, match="bidirectional|d_hidden must be d_embedding"):
        regard.train(recipe(tmp_path, options=options), tmp_path / "run", quiet=True)


@pytest.mark.parametrize("cell", ["elman", "gru", "lstm", "tape"])
def test_a_class_from_the_order_of_words(cell, tmp_path):
    """The class is whether x stands before y: a bag of words cannot know."""
    lines = ["x a b y\tfirst", "y a b x\tlast", "x b y\tfirst", "y b x\tlast", "a x y b\tfirst", "b y x a\tlast"]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines * (20 if name == "train" else 1)) + "\n")
    train, dev = ({"file": str(tmp_path / f"{name}.tsv")} for name in ("train", "dev"))
    trained = {
        "task": "classification",
        "data": {"train": train, "validation": dev, "max_len": 8,
                 "tokenizer": {"kind": "space", "vocab_size": 20}},
        "model": {"name": "rnn", "options": {**SMALL, "cell": cell, "bidirectional": cell == "gru"}}
        if cell != "tape" else {"name": "lstmn", "options": SMALL},
        "training": {"max_steps": 80, "lr": 0.02, "warmup": 0, "tokens_per_batch": 200, "validate_every": 40},
    }  # fmt: skip
    model = regard.train(trained, tmp_path / "run", quiet=True)
    assert [answer.label for answer in model.classify(["x a y", "y a x"])] == ["first", "last"]


def test_a_tagger_learns_what_depends_on_the_word_before(tmp_path):
    """ "fish" is a noun after "the" and a verb after "they"."""
    trees = [
        "(S (DT the) (NN fish))",
        "(S (PRP they) (VB fish))",
        "(S (PRP they) (VB see) (DT the) (NN fish) (PERIOD .))",
    ]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.trees").write_text("\n".join(trees * (30 if name == "train" else 1)) + "\n")
    trained = {
        "task": "token_classification",
        "data": {"train": str(tmp_path / "train.trees"), "validation": str(tmp_path / "dev.trees")},
        "model": {"name": "rnn", "options": {**SMALL, "bidirectional": True}},
        "training": {"max_steps": 60, "lr": 0.02, "warmup": 0, "tokens_per_batch": 120, "validate_every": 30},
    }
    model = regard.train(trained, tmp_path / "run", quiet=True)
    assert api.validate(tmp_path / "run")["accuracy"] == 1.0
    (tags,) = model.classify(["they fish the fish"])
    assert [(word, answer.label) for word, answer in tags] == [
        ("they", "PRP"), ("fish", "VB"), ("the", "DT"), ("fish", "NN"),
    ]  # fmt: skip


def test_more_streams_than_the_text_has_windows_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"data.streams is too large for a text of .*Use at most \d+ streams"):
        regard.train(recipe(tmp_path, streams=400), tmp_path / "run", quiet=True)


def test_a_run_says_its_loss_and_that_it_is_finished(tmp_path, capsys):
    """Without validation the loss of training is all there is to see."""
    given = recipe(tmp_path)
    given["data"].pop("validation_share")
    regard.train(given, tmp_path / "run")
    *lines, end = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in lines] == ["loss"] * 3
    assert end.startswith("training: ")
    assert "FLOPs" in end
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    regard.train(given, tmp_path / "run")
    assert "this run is finished already, after" in capsys.readouterr().err
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_a_tagger_reads_the_spelling_of_words_it_has_never_seen(tmp_path):
    """The tag is in the ending; words of the held-out sentences are new."""

    def trees(numbers):
        kinds = {"NN": "ness", "VB": "ize", "JJ": "ful"}
        draw = random.Random(0)
        words = [[(tag, f"w{n}{kinds[tag]}") for tag in draw.choices(list(kinds), k=4)] for n in numbers]
        return "".join(f"(S {' '.join(f'({tag} {word})' for tag, word in row)})\n" for row in words)

    (tmp_path / "train.trees").write_text(trees(range(60)))
    (tmp_path / "dev.trees").write_text(trees(range(100, 120)))
    recipe = {
        "task": "token_classification",
        "data": {"train": str(tmp_path / "train.trees"), "validation": str(tmp_path / "dev.trees"),
                 "tokenizer": {"kind": "space", "min_count": 1}},
        "model": {"name": "rnn", "options": {"d_embedding": 6, "d_hidden": 8, "n_layers": 1, "characters": 12}},
        "training": {"max_epochs": 12, "lr": 0.02, "warmup": 0, "schedule": "constant", "metric": "accuracy"},
    }  # fmt: skip
    model = regard.train(recipe, tmp_path / "run", quiet=True)
    assert api.validate(tmp_path / "run")["accuracy"] > 0.95
    tagged = regard.load(tmp_path / "run").classify(["somethingize newness"])[0]
    assert [(word, best.label) for word, best in tagged] == [("somethingize", "VB"), ("newness", "NN")]
    assert all(
        torch.equal(tensor, tensors(regard.load(tmp_path / "run"))[name]) for name, tensor in tensors(model).items()
    )


@pytest.mark.parametrize("kind", ["rnn", "rnn-tied", "lstmn"])
def test_a_classifier_starts_from_a_language_model_and_back(kind, tmp_path, capsys):
    """Both call their last layer `output`; it begins anew, and the loader says so."""
    tied = {"tie": True, "d_embedding": 24} if kind == "rnn-tied" else {}
    regard.train(
        recipe(tmp_path, cell="tape" if kind == "lstmn" else "lstm", options=tied), tmp_path / "lm", quiet=True
    )
    (tmp_path / "table.tsv").write_text("a1 b1\tyes\na2 b2\tno\n" * 8)
    given = {
        "task": "classification",
        "data": {"train": {"file": str(tmp_path / "table.tsv")}},
        "model": {"start": str(tmp_path / "lm")},
        "training": {"max_steps": 1, "lr": 1e-9, "warmup": 0},
    }
    classifier = regard.train(given, tmp_path / "classifier")
    said = capsys.readouterr().out
    assert "new: output.weight, output.bias" in said
    assert ("not used: output.weight, output.bias" in said) == (kind != "rnn-tied")
    first = regard.load(tmp_path / "lm").model.embedding.weight
    torch.testing.assert_close(classifier.model.embedding.weight, first, atol=1e-6, rtol=0)
    assert classifier.classify(["a1 b1"])[0].label in ("yes", "no")
    back = recipe(tmp_path)
    back["model"] = {"start": str(tmp_path / "classifier")}
    again = regard.train(back, tmp_path / "back", quiet=True)
    assert again.perplexity("a1 b1 c1 a2") > 1
