"""Recurrent networks: characters of words beside their vectors, options that exclude each other, spectral radius."""

import pytest
import torch

from regard.core.errors import ConfigError, UsageError
from regard.data.text import make_tokenizer
from regard.data.text.rows import named, plain_rows
from regard.data.text.spelling import SpellingTokenizer
from regard.models import config_of, make_model, reads_characters

SIZES = {"d_embedding": 6, "d_hidden": 5, "bidirectional": True, "head": "token_classes", "n_labels": 4}


@pytest.fixture
def tokenizer():
    return SpellingTokenizer(make_tokenizer("space", ["the cat sat on the mat", "a dog ran"]))


def tagger(tokenizer, **options):
    torch.manual_seed(0)
    config = config_of("rnn", {**SIZES, "vocab_size": tokenizer.vocab_size, **options})
    return make_model("rnn", config).eval()


def inputs(tokenizer, *texts):
    return named(tokenizer, plain_rows(tokenizer, texts, None, 99))


def test_unknown_words_are_told_apart_by_their_spelling(tokenizer):
    rows = inputs(tokenizer, "the zebra sat", "the yak sat")
    spelt = tagger(tokenizer, characters=7)(**rows).logits
    assert (spelt[0, 1] - spelt[1, 1]).abs().max() > 1e-4
    plain = tagger(tokenizer)
    known = rows["input_ids"].masked_fill(rows["input_ids"] >= tokenizer.vocab_size, tokenizer.unk)
    without = plain(known, rows["attention_mask"]).logits
    torch.testing.assert_close(without[0], without[1])


def test_the_rest_of_the_batch_and_the_side_of_padding_change_nothing(tokenizer):
    model = tagger(tokenizer, characters=7)
    together = inputs(tokenizer, "the zebra", "a dog ran on the mat")
    alone = model(**inputs(tokenizer, "the zebra")).logits
    torch.testing.assert_close(model(**together).logits[:1, :2], alone)
    left = {name: tensor.roll(4, 1) for name, tensor in together.items()}  # of the first row
    torch.testing.assert_close(model(**{name: tensor[:1] for name, tensor in left.items()}).logits[:, 4:], alone)


def test_characters_are_asked_for_and_refused_where_they_do_not_fit(tokenizer):
    model = tagger(tokenizer, characters=7)
    assert reads_characters("rnn", model.config)
    assert not reads_characters("rnn", tagger(tokenizer).config)
    with pytest.raises(UsageError, match="reads the characters of words"):
        model(torch.tensor([[4, 5]]))
    with pytest.raises(ConfigError, match="characters are for a classifier or a tagger"):
        config_of("rnn", {"vocab_size": 9, "characters": 3})


def test_variational_dropout_of_two_directions_is_refused_in_training():
    """Only one direction runs step by step, so h_{t−1} would have no mask. A stored model of this kind still runs."""
    model = make_model("rnn", config_of("rnn", {**SIZES, "vocab_size": 9, "dropout": 0.3, "variational": True}))
    assert model.eval()(torch.tensor([[4, 5]])).logits.isfinite().all()
    with pytest.raises(ConfigError, match="variational dropout is for one direction"):
        model.train()(torch.tensor([[4, 5]]))


@pytest.mark.parametrize("cell", ["elman", "gru", "lstm"])
@pytest.mark.parametrize("radius", [0.9, 1.0, 1.1])
def test_the_spectral_radius_is_the_one_asked_for(cell, radius):
    config = config_of("rnn", {"vocab_size": 9, "cell": cell, "d_hidden": 12, "n_layers": 2, "radius": radius})
    matrices = [value for name, value in make_model("rnn", config).named_parameters() if "weight_hh" in name]
    assert len(matrices) == 2
    for gate in (gate for matrix in matrices for gate in matrix.chunk(len(matrix) // 12)):
        assert torch.linalg.eigvals(gate).abs().max().item() == pytest.approx(radius, rel=1e-4)
