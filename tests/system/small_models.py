"""Small random models with their tokenizers, for tests that use models and do not care what they say."""

from dataclasses import replace

import pytest
import torch

from regard import api
from regard.cli import main
from regard.core.batch import Batch
from regard.core.contracts import FitEpoch
from regard.core.search import Search
from regard.data.text import make_tokenizer
from regard.models import config_of, make_model
from regard.pipelines import make_pipeline
from regard.store import StoredModel

LINES = [
    "the cat sat on the mat",
    "a dog ran to the old house",
    "who saw the cat ?",
    "the house is old and the dog is not",
]
SIZES = {"d_model": 24, "n_layers": 2, "n_heads": 3}
IMAGE = {"size": 8, "channels": 3, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}


def stored(name, task, options, extra=None, tokenizer=None):
    torch.manual_seed(0)
    config = config_of(name, options)
    model = make_model(name, config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return StoredModel(task, name, config, model, tokenizer, tokenizer, extra=extra or {})


def fit_on_lines(model, tokenizer, lines):
    """Let a model that counts read these lines as one text."""
    ids = [tokenizer.eos, *(token for row in tokenizer.encode_batch(lines) for token in [*row, tokenizer.eos])]
    fit_on_ids(model, ids)


def fit_on_ids(model, ids):
    text = torch.tensor([ids])
    model.fit([Batch({"input_ids": text[:, :-1], "labels": text[:, 1:]}, (0,))], FitEpoch())


@pytest.fixture(scope="module")
def bert_tokenizer():
    return make_tokenizer("wordpiece", LINES * 3, vocab_size=80, marks="bert")


@pytest.fixture(scope="module")
def bert(bert_tokenizer):
    """`bert(head, task)`: a loaded random BERT."""

    def make(head, task, **extra):
        options = {
            **SIZES,
            "vocab_size": bert_tokenizer.vocab_size,
            "d_ff": 40,
            "max_len": 48,
            "head": head,
            "n_labels": 3,
        }
        return make_pipeline(stored("bert", task, options, extra, bert_tokenizer))

    return make


@pytest.fixture(scope="module")
def gpt2():
    tokenizer = make_tokenizer("char", LINES)
    options = {**SIZES, "vocab_size": tokenizer.vocab_size, "max_len": 40}
    made = stored("gpt2", "language_model", options, {}, tokenizer)
    return make_pipeline(replace(made, search=Search(beam=1)))


@pytest.fixture(scope="module")
def vit():
    options = {**SIZES, "image_size": 8, "patch_size": 4, "d_ff": 40, "n_labels": 3}
    return make_pipeline(stored("vit", "image_classification", options, {"image": IMAGE, "labels": ["a", "b", "c"]}))


def hf(loaded, folder):
    api.convert(loaded, folder, to="hf")
    return folder


def run(capsys, *words):
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err


def fails(capsys, *words):
    """The one line that a wrong call prints."""
    code, _, err = run(capsys, *words)
    assert code in (1, 2)
    assert err.startswith("regard: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err
