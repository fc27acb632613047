"""ELMo by recipes: pretraining in two directions, resuming, and frozen features for a classifier and a tagger."""

import pytest
import torch

import regard
from regard import api
from regard.core.errors import ConfigError
from regard.training import engine as engines
from regard.training.interrupt import Interrupted

SMALL = {"d_character": 4, "filters": [[1, 8], [3, 8]], "n_highway": 1, "d_projection": 12, "d_hidden": 24}


def pretraining(folder, **training):
    text = " ".join(f"a{n % 7} b{(n // 7) % 5} c{n % 3}" for n in range(600))
    (folder / "text.txt").write_text(text + "\n")
    return {
        "task": "bidirectional_lm",
        "data": {"train": str(folder / "text.txt"), "validation_share": 0.1, "context": 12,
                 "tokenizer": {"kind": "space", "vocab_size": 60}},
        "model": {"name": "elmo", "options": SMALL},
        "training": {"max_steps": 12, "lr": 0.01, "warmup": 0, "schedule": "constant", "tokens_per_batch": 96,
                     "validate_every": 6, "checkpoint_every": 5, "log_every": 1, **training},
    }  # fmt: skip


def tensors(model):
    return model.model.state_dict()


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elmo")
    return regard.train(pretraining(folder, max_steps=40), folder / "run", quiet=True), folder / "run"


def test_a_run_resumes_to_the_bit(tmp_path, monkeypatch):
    whole = regard.train(pretraining(tmp_path), tmp_path / "whole", quiet=True)
    again = regard.train(pretraining(tmp_path), tmp_path / "again", quiet=True)
    update = engines.Engine._update

    def stopping(self, batches):
        update(self, batches)
        if self.progress.step == 7:
            self._signals.append(2)

    monkeypatch.setattr(engines.Engine, "_update", stopping)
    with pytest.raises(Interrupted):
        regard.train(pretraining(tmp_path), tmp_path / "part", quiet=True)
    monkeypatch.setattr(engines.Engine, "_update", update)
    resumed = regard.train(pretraining(tmp_path), tmp_path / "part", quiet=True)
    for other in (again, resumed, regard.load(tmp_path / "whole")):
        assert all(torch.equal(tensor, tensors(other)[name]) for name, tensor in tensors(whole).items())


def test_both_directions_learn_and_are_reported(pretrained):
    model, folder = pretrained
    numbers = api.validate(folder)
    assert numbers["forward_perplexity"] < 12
    assert numbers["backward_perplexity"] < 12
    assert numbers["loss"] == pytest.approx((numbers["forward_loss"] + numbers["backward_loss"]) / 2)
    (layers,) = model.features(["a1 b2 zebra"])
    assert layers.shape == (3, 3, 24)
    one, other = model.features(["a1 zebra", "a1 aardvark"])
    assert not torch.equal(one[0, 1], other[0, 1])


def table(folder):
    lines = [f"a{n % 7} x{n % 5}\t{'yes' if n % 2 else 'no'}" for n in range(60)]
    (folder / "table.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    return {"file": str(folder / "table.tsv"), "text": "text", "label": "label"}


def test_frozen_features_for_a_classifier(pretrained, tmp_path):
    before = {name: tensor.clone() for name, tensor in tensors(pretrained[0]).items()}
    file = table(tmp_path)
    wanted = {
        "task": "classification",
        "data": {"train": file, "validation": file, "train_rows": 20},
        "model": {"start": str(pretrained[1]), "options": {"frozen": True, "d_task": 6}},
        "training": {"max_steps": 6, "lr": 0.01, "warmup": 0, "tokens_per_batch": 64},
    }
    model = regard.train(wanted, tmp_path / "run", quiet=True)
    after = tensors(model)
    same = [name for name in before if not name.startswith("output")]
    assert same
    assert all(torch.equal(before[name], after[name]) for name in same)
    # Words that no vocabulary holds are still told apart by their characters.
    first, second = model.classify(["a1 zebra", "a1 mat"])
    assert first != second
    model.save(tmp_path / "copy")
    assert regard.load(tmp_path / "copy").classify(["a1 zebra"]) == [first]
    wanted["data"]["train_rows"] = 61
    with pytest.raises(ConfigError, match="train_rows is too large"):
        regard.train(wanted, tmp_path / "other", quiet=True)


def test_frozen_features_for_a_tagger(pretrained, tmp_path):
    trees = [f"(S (A a{n % 7}) (X zebra{n}) (B b{n % 5}))" for n in range(12)]
    (tmp_path / "trees.txt").write_text("\n".join(trees) + "\n")
    wanted = {
        "task": "token_classification",
        "data": {"train": str(tmp_path / "trees.txt"), "validation": str(tmp_path / "trees.txt")},
        "model": {"start": str(pretrained[1]), "options": {"frozen": True, "d_task": 8, "task_dropout": 0.0}},
        "training": {"max_steps": 60, "lr": 0.02, "warmup": 0, "schedule": "constant", "tokens_per_batch": 64},
    }
    model = regard.train(wanted, tmp_path / "run", quiet=True)
    assert api.validate(tmp_path / "run")["accuracy"] == 1.0
    (tagged,) = model.classify(["a1 zebra99 b1"])
    assert [token for token, _ in tagged] == ["a1", "zebra99", "b1"]


def test_word_vectors_are_never_written_over_the_table_of_characters(pretrained, tmp_path, capsys):
    _, folder = pretrained
    (tmp_path / "rows.tsv").write_text("a1 b1\tx\nb2 c1\ty\n" * 8)
    (tmp_path / "vectors.txt").write_text("a1 1 2 3 4\nb1 5 6 7 8\n")
    made = {
        "task": "classification",
        "data": {"train": {"file": str(tmp_path / "rows.tsv")}},
        "model": {"start": str(folder), "embeddings": str(tmp_path / "vectors.txt"),
                  "options": {"frozen": True, "d_task": 4}},
        "training": {"max_steps": 1, "lr": 1e-9, "warmup": 0},
    }  # fmt: skip
    with pytest.raises(ConfigError, match="no table of word embeddings"):
        regard.train(made, tmp_path / "none")
    made["model"]["options"]["d_embedding"] = 4
    model = regard.train(made, tmp_path / "own")
    assert "embedding: 2 of" in capsys.readouterr().out
    (row,) = model.tokenizer.encode_batch(["a1"])
    assert model.model.embedding.weight[row[0]].tolist() == pytest.approx([1, 2, 3, 4], abs=1e-5)
    characters = regard.load(folder).model.words.embedding.weight
    assert torch.equal(model.model.words.embedding.weight, characters)


def test_only_models_that_read_characters(tmp_path):
    wanted = pretraining(tmp_path)
    wanted["model"] = {"name": "rnn"}
    with pytest.raises(ConfigError, match="reads characters"):
        regard.train(wanted, tmp_path / "run", quiet=True)
