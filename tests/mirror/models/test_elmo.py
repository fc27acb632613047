"""ELMo beside the published architecture, and its two directions computed apart."""

import numpy as np
import pytest
import torch
from tests.conformance.explained import MAKERS, SPELLING, made

import regard
from regard.core.batch import Batch
from regard.core.errors import ConfigError
from regard.data.text.spelling import spelled
from regard.layers.characters import CharacterWords
from regard.models import config_of, make_model
from regard.tasks.bidirectional_lm import BidirectionalLm


def characters(*words):
    return torch.from_numpy(np.stack([spelled(word) for word in words]))[None]


def test_the_published_parameter_count():
    """93.6 M: all but the softmax. Counted on the meta device, part by part, from the published options."""
    model = make_model("elmo", config_of("elmo", {"vocab_size": 793_471}, size="original"), empty=True)
    assert all(parameter.is_meta for parameter in model.parameters())
    counts = {}
    for name, parameter in model.named_parameters():
        part = ".".join(name.split(".")[: 2 if name.startswith("words") else 1])
        counts[part] = counts.get(part, 0) + parameter.numel()
    one_layer = 4 * 4096 * (512 + 512 + 1) + 4096 * 512
    assert counts["words.embedding"] == 262 * 16
    assert counts["words.highway"] == 2 * (2 * 2048 * 2048 + 2 * 2048)
    assert counts["forwards"] == counts["backwards"] == 2 * one_layer
    assert round((sum(counts.values()) - counts["output"]) / 1e6, 1) == 93.6


def test_the_probability_of_a_text_is_that_of_its_two_directions():
    loaded, text, _ = made("elmo")
    model, ids = loaded.model, loaded.inputs([text])["input_ids"][0]
    wanted = ids.masked_fill(ids >= loaded.config.vocab_size, loaded.tokenizer.unk)
    words = model.words(characters(*text.split()))
    log_probs = []
    with torch.no_grad():
        for layers, x, labels in ((model.forwards, words, wanted), (model.backwards, words.flip(1), wanted.flip(0))):
            for number, layer in enumerate(layers):
                x = layer(x) + (x if number else 0)
            each = model.output(x)[0, :-1].log_softmax(-1).gather(1, labels[1:, None])
            log_probs.append(float(each.sum()))
    longer = f"{text} {text}"
    both = loaded.log_probs([longer, text])
    assert both[1].forward == pytest.approx(log_probs[0], abs=1e-4)
    assert both[1].backward == pytest.approx(log_probs[1], abs=1e-4)
    batch = Batch({"input_ids": wanted[None], "characters": characters(*text.split())})
    task = BidirectionalLm()
    summary = task.summary(task.measure(model, batch))
    n = len(wanted) - 1
    assert summary["forward_loss"] == pytest.approx(-log_probs[0] / n, abs=1e-5)
    assert summary["backward_loss"] == pytest.approx(-log_probs[1] / n, abs=1e-5)
    assert summary["loss"] == pytest.approx(-sum(log_probs) / (2 * n), abs=1e-5)
    assert task.loss(model, batch).item() == pytest.approx(-sum(log_probs), abs=1e-3)


def test_probabilities_sum_to_one():
    loaded, text, _ = made("elmo")
    with torch.no_grad():
        sums = loaded.model(**loaded.inputs([text])).logits.double().softmax(-1).sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_cutting_filler_changes_nothing():
    """The words alone, each with all of its 50 characters, by the plain convolution over all of them."""
    torch.manual_seed(0)
    layer = CharacterWords(262, 4, 6, filters=((1, 5), (3, 6), (7, 4)), n_highway=2)
    some = characters("a", "longer", "a", "words" * 9, "é")
    with torch.no_grad():
        x = layer.embedding(some[0].long()).transpose(1, 2)
        y = torch.relu(torch.cat([each(x).amax(-1) for each in layer.filters], 1))
        for highway in layer.highway:
            new, weight = highway(y).chunk(2, 1)
            gate = torch.sigmoid(weight)
            y = gate * torch.relu(new) + (1 - gate) * y
        expected = layer.projection(y)
        torch.testing.assert_close(layer(some)[0], expected)
        torch.testing.assert_close(layer(some[:, :3])[0], expected[:3])


def test_the_mix_and_its_scale():
    loaded, text, _ = MAKERS["elmo-classes"]()
    model, inputs = loaded.model, loaded.inputs([text])
    seen = {}
    model.task.register_forward_pre_hook(lambda _, arguments: seen.update(mixed=arguments[0]))
    with torch.no_grad():
        model.mix.copy_(torch.tensor([0.0, 1.0, -1.0]))
        model.scale.fill_(1.7)
        model(**inputs)
        layers = model.layers(inputs["characters"])
    shares = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    expected = 1.7 * sum(float(share) * layer for share, layer in zip(shares, layers, strict=True))
    torch.testing.assert_close(seen["mixed"], expected)
    assert torch.equal(layers[0][..., :6], layers[0][..., 6:])


def test_the_task_may_read_word_vectors_of_its_own_beside_elmo_or_alone():
    torch.manual_seed(0)
    options = {"vocab_size": 9, "head": "classes", "frozen": True, "d_task": 5, "d_embedding": 4, **SPELLING}
    both = make_model("elmo", config_of("elmo", options)).eval()
    alone = make_model("elmo", config_of("elmo", {**options, "features": False})).eval()
    words, other, ids = characters("a", "word"), characters("a", "sword"), torch.tensor([[3, 9]])
    seen = {}
    for name, model in (("both", both), ("alone", alone)):
        model.task.register_forward_pre_hook(lambda _, arguments, name=name: seen.update({name: arguments[0]}))
        model(ids, characters=words)
    with torch.no_grad():
        vectors = both.embedding.weight[[3, 9]]
        elmo = both.scale * torch.stack(both.layers(words)).mean(0)
    torch.testing.assert_close(seen["both"], torch.cat([elmo, vectors[None]], -1))
    assert torch.equal(seen["alone"][0], alone.embedding.weight[[3, 9]])
    assert torch.equal(alone(ids, characters=words).logits, alone(ids, characters=other).logits), (
        "words without spelling"
    )
    far = torch.tensor([[3, 40]])
    assert torch.equal(both(far, characters=words).logits, both(ids, characters=words).logits), (
        "one row for the unknown"
    )
    both.train()(ids, characters=words).logits.sum().backward()
    learning = {name.split(".")[0] for name, parameter in both.named_parameters() if parameter.grad is not None}
    assert learning == {"mix", "scale", "embedding", "task", "classes"}


def test_frozen_language_models_do_not_learn():
    options = {"vocab_size": 9, "head": "classes", "frozen": True, "d_task": 5, **SPELLING}
    model = make_model("elmo", config_of("elmo", options))
    model(characters=characters("a", "word")).logits.sum().backward()
    learning = {name.split(".")[0] for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert learning == {"mix", "scale", "task", "classes"}


@pytest.mark.parametrize(
    "options",
    [
        {"frozen": True},
        {"d_projection": 9},
        {"filters": ((51, 2),)},
        {"filters": ()},
        {"d_embedding": 5},
        {"head": "classes", "features": False},
    ],
)
def test_options_that_cannot_be(options):
    with pytest.raises(ConfigError):
        config_of("elmo", {"vocab_size": 9, **SPELLING, **options})


def test_the_mix_of_layers_is_told(tmp_path):
    loaded, text, _ = MAKERS["elmo-classes"]()
    with torch.no_grad():
        loaded.model.mix.copy_(torch.tensor([0.0, 1.0, -1.0]))
    shares = torch.tensor([0.0, 1.0, -1.0]).softmax(0)
    trace = regard.trace(loaded, text)
    assert trace.output["layers"] == [[("characters", *shares[:1].tolist()), ("layer 1", *shares[1:2].tolist()),
                                       ("layer 2", *shares[2:].tolist())]]  # fmt: skip
    said = regard.explain.words(trace).statements
    assert any(line == "The layers are mixed: characters 24%, layer 1 67%, layer 2 9%." for line in said)
    trace.save(tmp_path / "x.trace")
    assert regard.api.load_trace(tmp_path / "x.trace").output["layers"][0][1][0] == "layer 1"
