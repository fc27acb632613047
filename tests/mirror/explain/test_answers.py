"""Explanations are of the answer that the model gives: multi-label classes, numbers, gaps, texts beside others."""

import math

import pytest
import torch
from tests.system import small_models

import regard
from regard.data.text import make_tokenizer
from regard.pipelines import make_pipeline

TOKENIZER = make_tokenizer("wordpiece", small_models.LINES * 3, vocab_size=80, marks="bert")
TEXTS = ["the cat", "the house is old and the dog is not"]


def bert(head, task, n_labels=3, **extra):
    options = {**small_models.SIZES, "vocab_size": TOKENIZER.vocab_size, "d_ff": 40, "max_len": 48}
    options = {**options, "head": head, "n_labels": n_labels}
    return make_pipeline(small_models.stored("bert", task, options, extra, TOKENIZER))


def test_labels_of_which_several_can_be_right_are_explained_as_they_are_classified():
    model = bert("classes", "classification", multi_label=True, labels=["x", "y", "z"])
    scores = model.classify(TEXTS)[0].scores
    best = max(scores, key=scores.__getitem__)
    trace = regard.trace(model, TEXTS)
    assert trace.output["classes"][0] == [best, pytest.approx(scores[best], abs=1e-6)]
    lens = regard.explain.lens(trace).data
    assert dict(zip(lens["classes"], lens["probabilities"][-1], strict=True)) == pytest.approx(scores, abs=1e-6)
    assert trace.live().scores()[0].item() == pytest.approx(math.log(scores[best]), abs=1e-5)


def test_each_layer_of_a_regression_gives_a_number():
    model = bert("classes", "classification", n_labels=1, regression=True, labels=["score"])
    result = regard.explain.lens(regard.trace(model, TEXTS[:1]))
    assert result.data["numbers"][-1] == pytest.approx(model.classify(TEXTS)[0].score, abs=1e-5)
    assert len(set(result.data["numbers"])) == len(result.data["layers"]) == 2
    assert "agree" not in " ".join(result.statements)


def test_a_text_without_a_gap_is_explained_alike_beside_one_with_a_gap():
    model = bert("masked_lm", "masked_lm")
    alone, beside = regard.trace(model, TEXTS[0]), regard.trace(model, ["the dog is [MASK]", TEXTS[0]])
    assert beside.output["tokens"][1] == alone.output["tokens"][0]
    torch.testing.assert_close(beside.live().scores()[1], alone.live().scores()[0], atol=1e-4, rtol=1e-4)
    assert len(beside.output["tokens"][0]) == 1


def test_padding_does_not_count_when_heads_are_off():
    model = bert("none", "sentence_similarity")
    effects = [regard.explain.ablate(regard.trace(model, texts)).data["effects"] for texts in (TEXTS[:1], TEXTS)]
    for site, values in effects[0].items():
        assert effects[1][site] == pytest.approx(values, abs=1e-5)


def test_packed_weights_are_packed_again_when_the_model_changes_its_type():
    model = bert("classes", "classification", labels=["x", "y", "z"])
    if model.use_engine("float32") is not None:
        pytest.skip("the float32 engine does not run here")
    before = model.classify(TEXTS)[0].scores
    model.double()
    assert model.classify(TEXTS)[0].scores == pytest.approx(before, abs=1e-4)
