"""A Marian folder that is trained further here: the loss is that of `transformers`, and nothing of it is lost."""

import json

import pytest
import torch
from tests.parity.conftest import MARIAN, make

import regard
from regard.core.batch import Batch
from regard.data.text import make_tokenizer
from regard.tasks.translation import Translation

LINES = ["the cat sat on the mat", "a dog ran home", "the old house is red and the dog is not"]


@pytest.fixture
def folder(written):
    """A random Marian with a bias that matters, and a tokenizer whose padding, the start of targets, comes last."""
    from regard.data.text.exported import with_last_padding

    tokenizer = with_last_padding(make_tokenizer("word", LINES, vocab_size=60)).ending()
    special = {"pad_token_id": tokenizer.pad, "decoder_start_token_id": tokenizer.pad, "eos_token_id": tokenizer.eos}
    theirs = make(
        "MarianMTModel", "MarianConfig", **{**MARIAN, **special, "vocab_size": tokenizer.vocab_size, "dropout": 0.0}
    )
    with torch.no_grad():
        theirs.final_logits_bias.normal_(std=2.0)
    place = written(theirs)
    tokenizer.save(place / "tokenizer.json")
    (place / "tokenizer_config.json").write_text(json.dumps(tokenizer.described()))
    return theirs, place


def rows(start, end, pad):
    """A batch as a run makes it: ids, real tokens, and targets that begin with `start`."""
    source = torch.tensor([[5, 6, 7, end], [8, 9, end, pad]])
    target = torch.tensor([[start, 9, 8, 7, end], [start, 6, end, pad, pad]])
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    return Batch({"source": source, "source_mask": source != pad, "target": target, "target_mask": mask}, (0, 1))


def test_the_loss_is_that_of_transformers_and_the_bias_learns(folder):
    theirs, place = folder
    model, pad, end = regard.load(place).model, theirs.config.pad_token_id, theirs.config.eos_token_id
    batch = rows(pad, end, pad)
    labels = batch["target"][:, 1:].masked_fill(~batch["target_mask"][:, 1:], -100)
    expected = theirs(
        input_ids=batch["source"], attention_mask=batch["source_mask"].long(), labels=labels
    ).loss  # which begins targets by itself
    task = Translation()
    loss = task.loss(model, batch)
    torch.testing.assert_close(loss / task.count(batch), expected, atol=1e-4, rtol=0)
    measured = task.summary(task.measure(model, batch))
    assert measured["loss"] == pytest.approx(expected.item(), abs=1e-4)
    loss.backward()
    assert model.output.bias.grad.abs().sum() > 0.1
    before = model.output.bias.detach().clone()
    with torch.no_grad():
        model.output.bias -= 0.1 * model.output.bias.grad
    assert task.loss(model, batch) < loss
    assert not torch.equal(before, model.output.bias)


def test_a_run_begins_targets_as_the_folder_does_and_stores_that(folder, tmp_path):
    theirs, place = folder
    text = tmp_path / "text"
    text.write_text("\n".join(LINES * 4) + "\n")
    recipe = {
        "data": {"train": {"source": str(text), "target": str(text)},
                 "validation": {"source": str(text), "target": str(text)}},
        "model": {"start": str(place)},
        "training": {"max_steps": 2, "tokens_per_batch": 256, "lr": 1e-2, "label_smoothing": 0.0, "log_every": 1},
        "search": {"beam": 1},
    }  # fmt: skip
    trained = regard.train(recipe, tmp_path / "out", quiet=True)
    tokens = trained.stored.extra["tokens"]
    assert tokens["decoder_start"] == tokens["pad"] == theirs.config.pad_token_id
    moved = trained.model.output.bias - regard.load(place).model.output.bias
    assert moved.abs().max() > 0, "the bias learns"
    regard.api.convert(trained, tmp_path / "hf", to="hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["forced_eos_token_id"] == theirs.config.forced_eos_token_id
    assert config["decoder_start_token_id"] == config["pad_token_id"] == theirs.config.pad_token_id
    assert regard.load(tmp_path / "hf").translate(LINES) == trained.translate(LINES)


def test_batches_of_a_run_begin_with_decoder_start(folder, tmp_path):
    from regard.runs.jobs.translation import TranslationJob
    from regard.runs.parsing import parse_recipe
    from regard.store import load_model

    theirs, place = folder
    text = tmp_path / "text"
    text.write_text("\n".join(LINES) + "\n")
    data = {"train": {"source": str(text), "target": str(text)}}
    recipe = parse_recipe({"data": data, "model": {"start": str(place)}, "training": {"max_steps": 1}}, "recipe")
    setup = TranslationJob(recipe, load_model(place))
    setup.tokenizer = setup.target_tokenizer = setup.start.source_tokenizer
    pairs, _ = setup.encode(tmp_path / "data", lambda line: None)
    for batch in setup.batches(pairs, shuffle=False).epoch(0):
        assert (batch["target"][:, 0] == theirs.config.decoder_start_token_id).all()
        assert batch["target_mask"][:, 0].all()
