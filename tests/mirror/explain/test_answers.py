"""Explanations are of the answer that the model gives: multi-label classes, numbers, gaps, texts beside others."""

import math

import pytest
import torch
from tests.system import small_models

import regard
from regard.core.errors import LengthError, UsageError
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


CONTEXT = "the cat sat on the mat and the dog is on the house"


@pytest.mark.parametrize("unanswerable", [False, True])
def test_a_span_is_explained_as_it_is_answered(unanswerable):
    for seed in range(6):
        torch.manual_seed(seed)
        model = bert("span", "question_answering", unanswerable=unanswerable, max_answer=3)
        answer = model.answer(["who sat ?"], [CONTEXT])[0]
        trace = regard.trace(model, "who sat ?", CONTEXT)
        first, last = trace.output["spans"][0]
        if not answer.text:
            assert (first, last) == (0, 0)
            assert "no answer" in " ".join(regard.explain.ablate(trace).statements)
        else:
            begin = trace.labels("input").index("[SEP]") + 1
            assert begin <= first <= last < len(trace.labels("input")) - 1
            assert last - first < 3
            assert TOKENIZER.encode_batch([answer.text])[0] == trace.ids["input"][0, first : last + 1].tolist()


def test_the_score_of_a_span_does_not_depend_on_other_rows():
    model = bert("span", "question_answering")
    alone = regard.trace(model, "who sat ?", CONTEXT).live().scores()
    beside = regard.trace(model, ["who sat ?", "who is on the house ?"], [CONTEXT, CONTEXT + " and the cat"])
    torch.testing.assert_close(beside.live().scores()[:1], alone, atol=1e-4, rtol=1e-4)
    with pytest.raises(UsageError, match="lens reads words and classes"):
        regard.explain.lens(beside)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_the_lens_does_not_see_padding(pooling):
    options = {**small_models.SIZES, "vocab_size": TOKENIZER.vocab_size, "d_ff": 40, "max_len": 48, "n_labels": 3}
    made = small_models.stored(
        "encoder", "classification", {**options, "pooling": pooling}, {"labels": ["x", "y", "z"]}, TOKENIZER
    )
    model = make_pipeline(made)
    scores = model.classify(TEXTS)[0].scores
    lens = regard.explain.lens(regard.trace(model, TEXTS), row=0).data
    assert dict(zip(lens["classes"], lens["probabilities"][-1], strict=True)) == pytest.approx(scores, abs=1e-5)


def test_the_lens_of_a_regression_reads_the_last_token():
    options = {**small_models.SIZES, "vocab_size": TOKENIZER.vocab_size, "max_len": 48, "n_labels": 1}
    made = small_models.stored(
        "gpt2", "classification", {**options, "head": "classes"}, {"regression": True, "labels": ["score"]}, TOKENIZER
    )
    model = make_pipeline(made)
    value = model.classify(TEXTS)[0].score
    trace = regard.trace(model, TEXTS)
    assert regard.explain.lens(trace, row=0).data["numbers"][-1] == pytest.approx(value, abs=1e-5)
    said = " ".join([*regard.explain.words(trace).statements, *regard.explain.ablate(trace).statements])
    assert "The number is" in said
    assert "log p" not in said


@pytest.mark.parametrize(("head", "task"), [("token_classes", "token_classification"), ("masked_lm", "masked_lm")])
def test_special_tokens_are_not_part_of_the_answer(head, task):
    model = bert(head, task)
    trace = regard.trace(model, TEXTS)
    wanted = trace.live().goal["wanted"]
    for row, labels in enumerate(wanted):
        asked = [label for place, label in enumerate(trace.labels("input", row)) if labels[place] != -100]
        assert asked == trace.labels("input", row)[1:-1]
        assert len(trace.output["tokens"][row]) == len(asked)


def test_a_text_is_explained_only_as_far_as_it_is_read():
    tokenizer = make_tokenizer("space", small_models.LINES)
    options = {"vocab_size": tokenizer.vocab_size, "max_len": 4, "n_labels": 2}
    model = make_pipeline(small_models.stored("bow", "classification", options, {"labels": ["x", "y"]}, tokenizer))
    assert model.explain("the cat sat on", method="words").panels
    assert model.n_cut == 0
    text = "the cat sat on the mat and the dog"
    (answer,) = model.classify([text])
    assert f"'{answer.label}' ({answer.score:.0%})" in model.explain(text, method="words").statements[0]
    assert model.n_cut == 2, "once by each"
    limited = bert("none", "sentence_similarity", max_seq_length=6)
    with pytest.raises(LengthError, match="got 14 tokens, expected at most 6"):
        limited.explain(TEXTS[1] + " there")
