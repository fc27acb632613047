"""Hierarchical attention by recipes: learning, looking, saving, resuming; documents of every shape."""

import pytest
import torch

import regard
from regard.core.errors import RegardError
from regard.training import engine as engines
from regard.training.interrupt import Interrupted

FILLERS = ["the sea is blue .", "it rained on monday .", "we had some tea ."]


def recipe(folder, *, pooling="attention", **training):
    """The class is the adjective of one sentence among others."""
    lines = []
    for number in range(60):
        label = ("good", "bad")[number % 2]
        document = [FILLERS[(number + place) % 3] for place in range(3)]
        document.insert(number % 4, f"the film was {label} .")
        lines.append(f"{' '.join(document)}\t{label}")
    (folder / "train.tsv").write_text("\n".join(lines) + "\n")
    return {
        "task": "classification",
        "data": {"train": {"file": str(folder / "train.tsv")}, "validation": {"file": str(folder / "train.tsv")},
                 "max_len": 60, "tokenizer": {"kind": "word", "vocab_size": 60}},
        "model": {"name": "han", "options": {"d_embedding": 12, "d_hidden": 8, "pooling": pooling, "dropout": 0.1}},
        "training": {"max_steps": 40, "lr": 0.03, "warmup": 0, "schedule": "constant", "tokens_per_batch": 400,
                     "validate_every": 20, "checkpoint_every": 5, **training},
    }  # fmt: skip


def tensors(model):
    return model.model.state_dict()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("han")
    regard.train(recipe(folder), folder / "run", quiet=True)
    return regard.load(folder / "run")


def test_it_learns_what_one_sentence_says(trained):
    text = "we had some tea . the sea is blue . the film was bad . it rained on monday ."
    assert [answer.label for answer in trained.classify([text, text.replace("bad", "good")])] == ["bad", "good"]
    sentences = trained.explain(text, method="document").data["sentences"]
    assert [" ".join(sentence["words"]) for sentence in sentences] == [
        f"{part.strip()} ." for part in text.split(".")[:-1]
    ]


def test_the_twin_without_attention_learns_too(tmp_path):
    model = regard.train(recipe(tmp_path, pooling="mean"), tmp_path / "run", quiet=True)
    assert [answer.label for answer in model.classify(["the film was bad .", "the film was good ."])] == ["bad", "good"]
    with pytest.raises(RegardError, match="sentences and at the words of each"):
        model.explain("the film was bad .", method="document")


def test_documents_of_every_shape(trained):
    shapes = ["the film was good .", "good", "bad " * 2000, "the film was bad . " * 50, "<br />"]
    together = trained.classify(shapes)
    for text, answer in zip(shapes, together, strict=True):
        assert trained.classify([text])[0].score == pytest.approx(answer.score, abs=1e-5)
    for empty in ("", "  "):
        with pytest.raises(RegardError, match="text 1 is empty: expected at least one word"):
            trained.classify([empty])
    with pytest.raises(RegardError, match="text is empty"):
        trained.explain("")
    assert len(trained.explain("good", method="document").data["sentences"]) == 1
    long = trained.explain("bad " * 2000, method="document")
    assert sum(len(sentence["words"]) for sentence in long.data["sentences"]) == 60, "as far as it is read"


def test_it_resumes_to_the_bit_and_the_same_seed_gives_the_same_bits(tmp_path, monkeypatch):
    whole = regard.train(recipe(tmp_path, max_steps=15), tmp_path / "whole", quiet=True)
    update = engines.Engine._update

    def stopping(self, batches):
        update(self, batches)
        if self.progress.step == 7:
            self._signals.append(2)

    monkeypatch.setattr(engines.Engine, "_update", stopping)
    with pytest.raises(Interrupted):
        regard.train(recipe(tmp_path, max_steps=15), tmp_path / "part", quiet=True)
    monkeypatch.setattr(engines.Engine, "_update", update)
    resumed = regard.train(recipe(tmp_path, max_steps=15), tmp_path / "part", quiet=True)
    again = regard.train(recipe(tmp_path, max_steps=15), tmp_path / "again", quiet=True)
    for other in (resumed, again):
        assert all(torch.equal(tensor, tensors(other)[name]) for name, tensor in tensors(whole).items())
