"""Bags of words: the lectures' worked examples, and features against a plain computation."""

import math
import os
from collections import Counter
from pathlib import Path

import pytest
import torch

from regard.core.batch import Batch
from regard.core.errors import DataError
from regard.data.text import make_tokenizer
from regard.data.text.rows import named, plain_rows
from regard.models import config_of, make_model
from regard.models._lexicon import read_lexicon
from regard.models.bow import Bow

DATA = Path(os.environ.get("REGARD_DATA", "../shared/data"))
# Jurafsky & Martin, Speech and Language Processing, figure 5.2: the review that lecture 000 takes its values from.
REVIEW = (
    "It's hokey. There are virtually no surprises, and the writing is second-rate. So why was it so enjoyable? "
    "For one thing, the cast is great. Another nice touch is the music. I was overcome with the urge to get off the "
    "couch and start dancing. It sucked me in, and it'll do the same to you."
)
TEXTS = ["john likes to watch movies mary likes movies too", "mary also likes to watch football games"]


def inputs(tokenizer, texts):
    return named(tokenizer, plain_rows(tokenizer, texts, None, 1000))


def lexicon_model(folder, texts):
    options = {"features": "lexicon", "lexicon": str(folder)}
    tokenizer = make_tokenizer("wordform", [*texts, *Bow.needed_words(options)], lowercase=True)
    model = make_model("bow", config_of("bow", {"vocab_size": tokenizer.vocab_size, **options}))
    model.prime([], tokenizer.pieces())
    return model, tokenizer


def write_lexicon(folder, positive="great nice enjoyable", negative="hokey second-rate"):
    folder.mkdir()
    (folder / "positive.txt").write_text("\n".join(positive.split()) + "\n")
    (folder / "negative.txt").write_text("\n".join(negative.split()) + "\n")
    return folder


def test_the_lexicon_features_of_the_lecture(tmp_path):
    """3, 2, 1, 3, 0, ln 66 = 4.19, with the words that the book counts."""
    model, tokenizer = lexicon_model(write_lexicon(tmp_path / "lexicon"), [REVIEW])
    values = model.feature_values(**inputs(tokenizer, [REVIEW]))[0].tolist()
    assert values[:5] == pytest.approx([3, 2, 1, 3, 0])
    assert values[5] == pytest.approx(math.log(66))
    assert round(values[5], 2) == 4.19


@pytest.mark.skipif(not (DATA / "lexicon").is_dir(), reason="REGARD_DATA has no lexicon")
def test_the_lexicon_features_with_the_real_lexicon():
    """The same values: VADER's words lack two of the book's negative ones and have "sucked" and "no"."""
    model, tokenizer = lexicon_model(DATA / "lexicon", [REVIEW])
    values = model.feature_values(**inputs(tokenizer, [REVIEW]))[0].tolist()
    assert values == pytest.approx([3, 2, 1, 3, 0, math.log(66)])


def test_being_there_is_counted_once(tmp_path):
    model, tokenizer = lexicon_model(write_lexicon(tmp_path / "lexicon"), ["no no ! ! ! great great you"])
    values = model.feature_values(**inputs(tokenizer, ["no no ! ! ! great great you"]))[0].tolist()
    assert values == pytest.approx([2, 0, 1, 1, 1, math.log(8)])


def test_a_lexicon_that_is_missing_is_said(tmp_path):
    with pytest.raises(DataError, match=r"no such folder.*positive\.txt and negative\.txt.*model\.options\.lexicon"):
        read_lexicon(str(tmp_path / "nowhere"))
    folder = write_lexicon(tmp_path / "half")
    (folder / "negative.txt").unlink()
    with pytest.raises(DataError, match=r"got no negative\.txt"):
        read_lexicon(str(folder))


@pytest.mark.parametrize("sublinear", [False, True])
@pytest.mark.parametrize("features", ["counts", "binary", "tf_idf"])
def test_features_are_those_of_the_definition(features, sublinear):
    """The lecture's two sentences, counted (its table is wrong for "too", and for "to" and "watch" in the second)."""
    tokenizer = make_tokenizer("space", TEXTS)
    options = {"vocab_size": tokenizer.vocab_size, "features": features, "sublinear": sublinear}
    model = make_model("bow", config_of("bow", options))
    some = inputs(tokenizer, TEXTS)
    model.prime([Batch(some)], tokenizer.pieces())
    torch.nn.init.eye_(model.embedding.weight.data)  # the first features of the vocabulary, as the model sees them
    wide = torch.eye(tokenizer.vocab_size)
    model.embedding.weight = torch.nn.Parameter(wide)
    model.bias = torch.nn.Parameter(torch.zeros(tokenizer.vocab_size))
    x = model(**some).pooled
    within = [set(text.split()) for text in TEXTS]
    for row, text in enumerate(TEXTS):
        counts = Counter(text.split())
        idf = {word: math.log(3 / (1 + sum(word in known for known in within))) + 1 for word in counts}
        value = {
            "counts": counts.__getitem__,
            "binary": lambda _: 1.0,
            "tf_idf": lambda w, c=counts, i=idf: (1 + math.log(c[w]) if sublinear else c[w]) * i[w],
        }[features]
        norm = math.sqrt(sum(value(word) ** 2 for word in counts)) if features == "tf_idf" else 1.0
        for number, word in enumerate(tokenizer.pieces()):
            assert x[row, number].item() == pytest.approx(value(word) / norm if word in counts else 0.0, abs=1e-6)


def test_no_number_depends_on_padding_or_order():
    tokenizer = make_tokenizer("space", TEXTS)
    model = make_model(
        "bow", config_of("bow", {"vocab_size": tokenizer.vocab_size, "features": "tf_idf", "hidden": (5,)})
    )
    both = model(**inputs(tokenizer, TEXTS)).logits
    turned = model(**inputs(tokenizer, [" ".join(reversed(text.split())) for text in TEXTS])).logits
    torch.testing.assert_close(both, turned)


def test_word_dropout_leaves_evaluation_alone():
    tokenizer = make_tokenizer("space", TEXTS)
    for name, options in (
        ("bow", {"word_dropout": 0.5, "hidden": (4,)}),
        ("dan", {"head": "classes", "word_dropout": 0.9}),
    ):
        torch.manual_seed(0)
        model = make_model(name, config_of(name, {"vocab_size": tokenizer.vocab_size, **options}))
        some = inputs(tokenizer, TEXTS)
        trained = [model(**some).logits for _ in range(4)]
        assert any(not torch.equal(trained[0], other) for other in trained[1:])
        assert all(logits.isfinite().all() for logits in trained), "a text whose words were all dropped keeps them"
        model.eval()
        assert torch.equal(model(**some).logits, model(**some).logits)


def test_an_average_is_an_average():
    """The lecture's keys A A B A: the plain average gives (3/4, 1/4)."""
    model = make_model("dan", config_of("dan", {"vocab_size": 6, "d_embedding": 2, "hidden": (), "head": "classes"}))
    model.embedding.weight.data[4:] = torch.eye(2)
    assert model.eval()(torch.tensor([[4, 4, 5, 4]])).pooled.tolist() == [[0.75, 0.25]]
    writer = make_model("dan", config_of("dan", {"vocab_size": 6, "d_embedding": 2, "hidden": ()}))
    writer.embedding.weight.data[4:] = torch.eye(2)
    assert writer.eval()(torch.tensor([[4, 5, 5, 4]])).hidden[0].tolist() == [[1, 0], [0.5, 0.5],
        [pytest.approx(1 / 3), pytest.approx(2 / 3)], [0.5, 0.5]]  # fmt: skip


def test_a_window_sees_its_words_and_no_other():
    model = make_model("window_lm", config_of("window_lm", {"vocab_size": 9, "window": 2, "d_embedding": 3})).eval()
    before = model(torch.tensor([[4, 5, 6, 7]])).logits[0]
    other = model(torch.tensor([[8, 8, 6, 7]])).logits[0]
    torch.testing.assert_close(before[3], other[3])
    assert not torch.allclose(before[2], other[2])
    torch.testing.assert_close(model(torch.tensor([[2, 4]])).logits[0, 1], before[0], msg="before the text stands <s>")
    torch.testing.assert_close(before.softmax(-1).sum(-1), torch.ones(4))


def test_the_first_weights_follow_the_latest_word():
    """x = (C[w_{t-1}], …): the paper's order."""
    model = make_model(
        "window_lm", config_of("window_lm", {"vocab_size": 9, "window": 2, "d_embedding": 1, "hidden": ()})
    )
    model.embedding.weight.data[:] = torch.arange(9.0)[:, None]
    assert model.eval()(torch.tensor([[4, 5]])).hidden[0].tolist() == [[4, 2], [5, 4]]
