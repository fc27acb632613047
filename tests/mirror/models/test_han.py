"""The hierarchical attention network beside its equations, written out sentence by sentence."""

import pytest
import torch

from regard.models import config_of, make_model

SEGMENTS = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 1, 1, 0, 0, 0, 0]])
REAL = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]]).bool()
IDS = torch.tensor([[5, 6, 7, 8, 9, 1, 2], [3, 4, 5, 0, 0, 0, 0]])


def make(**options):
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "d_embedding": 6, "d_hidden": 4, "n_labels": 3}
    model = make_model("han", config_of("han", {**sizes, **options})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def summary(model, attention, states):
    """Yang et al., equations 5 to 7, of states [T,D]; without attention their mean."""
    if attention is None:
        return states.mean(0)
    u = torch.tanh(states @ attention.key.weight.T + attention.key.bias)
    return torch.softmax(u @ attention.query[0], 0) @ states


def by_hand(model, ids, segments):
    vectors = []
    for number in segments.unique_consecutive():
        words = model.embedding.weight[ids[segments == number]]
        states = model.word_encoder.cells(words[None])[0][0]
        vectors.append(summary(model, model.word_attention, states))
    states = model.sentence_encoder.cells(torch.stack(vectors)[None])[0][0]
    return model.classifier(summary(model, model.sentence_attention, states))


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_as_in_the_paper(pooling):
    model = make(pooling=pooling)
    with torch.no_grad():
        logits = model(IDS, REAL, SEGMENTS).logits
        for row in range(2):
            expected = by_hand(model, IDS[row, REAL[row]], SEGMENTS[row, REAL[row]])
            torch.testing.assert_close(logits[row], expected, atol=1e-5, rtol=1e-5)


def test_the_order_of_sentences_and_of_words_matters():
    model = make()
    with torch.no_grad():
        logits = model(IDS[:1], None, SEGMENTS[:1]).logits
        merged = model(IDS[:1]).logits
        swapped = model(IDS[:1].flip(1), None, SEGMENTS[:1]).logits
    assert not torch.allclose(logits, merged, atol=1e-4)
    assert not torch.allclose(logits, swapped, atol=1e-4)


def test_a_long_sentence_is_read_in_parts():
    """Seven words of one segment, in parts of three, are sentences of 3, 3 and 1 words."""
    model = make(max_words=3)
    with torch.no_grad():
        parts = model(IDS[:1]).logits
        same = model(IDS[:1], None, torch.tensor([[0, 0, 0, 1, 1, 1, 2]])).logits
    assert torch.equal(parts, same)
    long = torch.randint(1, 12, (1, 2000))
    assert model(long).logits.isfinite().all()


def test_documents_without_a_word_and_batches_without_a_document():
    model = make()
    empty = model(IDS, torch.zeros_like(REAL), SEGMENTS)
    assert empty.logits.isfinite().all()
    assert not empty.hidden.any()
    assert model(IDS[:0], REAL[:0], SEGMENTS[:0]).logits.shape == (0, 3)


def test_labels_of_its_axes():
    sides = make(max_words=2).sides([list("abcdefg"), list("xyz")], IDS, REAL, SEGMENTS)
    assert sides["word"] == [["a", "b"], ["c", "d"], ["e"], ["f", "g"], ["x"], ["y", "z"]]
    assert sides["sentence"] == [["1: a b", "2: c d", "3: e", "4: f g"], ["1: x", "2: y z"]]
    assert sides["sentence vector"][4:] == [["sentence 1"], ["sentence 2"]]
