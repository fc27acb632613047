"""What every model of word vectors must keep, by folder listing: trained twice, resumed, saved, loaded, exported."""

import json

import numpy as np
import pytest
import torch

import regard
from regard import models
from regard.core import lookup, native
from regard.core.config import read_config
from regard.core.errors import ConfigError
from regard.models import _word_loops as loops
from regard.models import glove
from regard.training import fitting

SMALL = {
    "word2vec": {"d_model": 12, "window": 3, "negative": 3, "sample": 0.01},
    "glove": {"d_model": 12, "window": 3, "limit": 10.0},
}
VARIANTS = [("word2vec", {}), ("word2vec", {"architecture": "cbow"}), ("glove", {})]
IDS = ["skip_gram", "cbow", "glove"]
EPOCHS = 4


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def text(count: int = 6000) -> str:
    """Sentences about three kinds of things, each with verbs of its own."""
    draw = np.random.default_rng(0)
    kinds = [(["cat", "dog", "cow"], ["eats", "sleeps"]), (["car", "bus", "van"], ["drives", "stops"]),
             (["sun", "moon", "star"], ["shines", "rises"])]  # fmt: skip
    words = []
    for _ in range(count // 4):
        things, verbs = kinds[draw.integers(3)]
        words += ["the", draw.choice(things), draw.choice(verbs), draw.choice(verbs)]
    return " ".join(words)


def recipe(folder, name, options, *, words=6000, **training):
    (folder / "text.txt").write_text(text(words) + "\n")
    return {
        "task": "word_vectors",
        "data": {"train": str(folder / "text.txt")},
        "model": {"name": name, "options": {**SMALL[name], **options}},
        "training": {"max_epochs": EPOCHS, "lr": 0.05, **training},
    }


def weights_of(model):
    return {name: tensor.clone() for name, tensor in model.model.state_dict().items()}


def test_every_model_is_covered():
    kinds = {name: lookup.find(models.__name__, name) for name in lookup.names(models.__name__)}
    config = {"vocab_size": 9}
    fitted = {n for n, kind in kinds.items() if n in SMALL or _task(kind, config) == "word_vectors"}
    assert fitted == set(SMALL)


def _task(kind, config):
    try:
        return kind.task_of(kind.Config.parse(config))
    except Exception:
        return None


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_words_of_a_kind_become_neighbours(name, options, tmp_path):
    model = regard.train(recipe(tmp_path, name, options, max_epochs=12), tmp_path / "run", quiet=True)
    cosine = {
        other: model.space.cosine(model.space.number("cat"), model.space.number(other)) for other in ("dog", "van")
    }
    assert cosine["dog"] > cosine["van"] + 0.2
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert len(losses) == 12
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_the_same_seed_gives_the_same_bits_and_a_stopped_run_resumes_to_them(name, options, tmp_path, monkeypatch):
    whole = weights_of(regard.train(recipe(tmp_path, name, options), tmp_path / "whole", quiet=True))
    other = weights_of(regard.train(recipe(tmp_path, name, options, seed=2), tmp_path / "other", quiet=True))
    assert any(not torch.equal(whole[key], other[key]) for key in whole)
    epochs, fit = [], lookup.find(models.__name__, name).fit

    def stopping(self, batches, epoch):
        epochs.append(epoch.number)
        if epoch.number == 2 and epochs.count(2) == 1:
            next(iter(batches))
            raise fitting.FitInterrupted(2, epoch.number)
        return fit(self, batches, epoch)

    monkeypatch.setattr(lookup.find(models.__name__, name), "fit", stopping)
    with pytest.raises(fitting.FitInterrupted, match="stopped in epoch 3; the first 2 epochs are kept"):
        regard.train(recipe(tmp_path, name, options), tmp_path / "part", quiet=True)
    resumed = weights_of(regard.train(recipe(tmp_path, name, options), tmp_path / "part", quiet=True))
    assert epochs == [0, 1, 2, 2, 3]
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
@pytest.mark.skipif(isinstance(loops.compiled(), native.Missing), reason="no C compiler to compare with")
def test_numpy_gives_what_c_gives(name, options, tmp_path, monkeypatch):
    quick = recipe(tmp_path, name, options, words=1500, max_epochs=2)
    in_c = weights_of(regard.train(quick, tmp_path / "c", quiet=True))
    monkeypatch.setattr(loops, "compiled", lambda: native.Missing("not wanted"))
    in_numpy = weights_of(regard.train(quick, tmp_path / "numpy", quiet=True))
    for key, tensor in in_c.items():
        torch.testing.assert_close(in_numpy[key], tensor, atol=2e-4, rtol=1e-3, msg=key)
    logs = [json.loads((tmp_path / run / "log.jsonl").read_text().splitlines()[-1])["loss"] for run in ("c", "numpy")]
    assert logs[0] == pytest.approx(logs[1], rel=1e-4)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
@pytest.mark.parametrize("form", ["word2vec", "word2vec_binary", "glove"])
def test_vectors_go_out_and_in_bit_for_bit(name, options, form, tmp_path):
    model = regard.train(recipe(tmp_path, name, options, max_epochs=1), tmp_path / "run", quiet=True)
    from regard import api

    api.convert(model, tmp_path / "vectors", to=form)
    back = regard.load(tmp_path / "vectors")
    assert back.space.words == model.space.words
    assert torch.equal(back.space.vectors, model.space.vectors)
    back.save(tmp_path / "folder")
    again = regard.load(tmp_path / "folder")
    assert torch.equal(again.space.vectors, model.space.vectors)
    api.convert(again, tmp_path / "again", to=form)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "vectors").read_bytes()


def test_a_run_does_not_go_on_with_another_number_of_epochs(tmp_path):
    regard.train(recipe(tmp_path, "word2vec", {}, max_epochs=1), tmp_path / "run", quiet=True)
    with pytest.raises(ConfigError, match="max_epochs"):
        regard.train(recipe(tmp_path, "word2vec", {}, max_epochs=2), tmp_path / "run", quiet=True)
    assert read_config(tmp_path / "run" / "recipe.json")["training"]["max_epochs"] == 1


def test_word2vec_counts_the_new_text_when_it_starts_from_another_model(tmp_path, monkeypatch):
    """The learning rate, the noise and the subsampling follow from the counts."""
    small = regard.train(recipe(tmp_path, "word2vec", {}, words=400, max_epochs=1), tmp_path / "small", quiet=True)
    assert int(small.model.counts.sum()) == 400
    further = {**recipe(tmp_path, "word2vec", {}, max_epochs=3), "model": {"start": str(tmp_path / "small")}}
    train, totals = loops.Word2vecLoop.train, []
    monkeypatch.setattr(loops.Word2vecLoop, "train", lambda self, part: totals.append(self.total) or train(self, part))
    model = regard.train(further, tmp_path / "further", quiet=True)
    assert totals == [3 * 6000] * 3
    words = text().split()
    assert {word: int(model.model.counts[model.tokenizer.encode_batch([word])[0][0]]) for word in set(words)} == {
        word: words.count(word) for word in set(words)
    }


@pytest.mark.parametrize("name", sorted(SMALL))
def test_vectors_without_a_model_are_refused_as_a_start(name, tmp_path):
    (tmp_path / "vectors.txt").write_text("the 0.1 0.2\ncat 0.3 0.4\ndog 0.5 0.1\n")
    wanted = recipe(tmp_path, name, {})
    with pytest.raises(ConfigError, match=r"only vectors cannot be trained.*vectors\.txt.*model\.embeddings"):
        regard.train({**wanted, "model": {"start": str(tmp_path / "vectors.txt")}}, tmp_path / "run", quiet=True)
    with pytest.raises(ConfigError, match=r"only vectors cannot be trained.*trained False"):
        regard.train(recipe(tmp_path, name, {"trained": False}), tmp_path / "run", quiet=True)
    given = {"name": name, "options": {**SMALL[name], "d_model": 2}, "embeddings": str(tmp_path / "vectors.txt")}
    regard.train({**wanted, "model": given}, tmp_path / "run", quiet=True)


def test_glove_notices_a_signal_within_an_epoch(tmp_path, monkeypatch):
    """It reads no batch after its first epoch, so it looks for signals itself."""
    monkeypatch.setattr(glove, "_TOGETHER", 16)
    train, parts, runs = loops.GloveLoop.train, [], []
    start = fitting._Fitting.__init__
    monkeypatch.setattr(fitting._Fitting, "__init__", lambda self, *given: runs.append(self) or start(self, *given))

    def signalled(self, rows, columns, counts, order):
        parts.append(len(order))
        if len(parts) == 3:
            runs[-1]._signals.append(15)
        return train(self, rows, columns, counts, order)

    monkeypatch.setattr(loops.GloveLoop, "train", signalled)
    with pytest.raises(fitting.FitInterrupted, match="stopped in epoch 1; nothing is kept yet"):
        regard.train(recipe(tmp_path, "glove", {}), tmp_path / "run", quiet=True)
    assert parts == [16, 16, 16]
    again = weights_of(regard.train(recipe(tmp_path, "glove", {}), tmp_path / "run", quiet=True))
    monkeypatch.setattr(glove, "_TOGETHER", 1 << 20)
    whole = weights_of(regard.train(recipe(tmp_path, "glove", {}), tmp_path / "whole", quiet=True))
    assert all(torch.equal(whole[key], again[key]) for key in whole), "the parts give what the whole gives"
