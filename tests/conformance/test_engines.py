"""Every engine gives what the plain model gives: the same tokens in float32, nearly the same in int8."""

import copy
import random

import pytest
import torch
from tests.conformance.test_checkpoint_models import SMALL as READERS
from tests.conformance.test_company import BOS, EOS, IDS, PAD, WRITERS, alone, in_company, make, make_requests, marked

from regard.core import taps
from regard.decoding import Decoder, Request, Search, SpecialTokens
from regard.models import config_of, make_model
from regard.runtime import choose
from regard.runtime.native import Missing, kernels

MORE = [
    ("transformer", {"order": "pre", "activation": "swiglu", "norm": "rms"}),
    ("transformer", {"position": "rotary", "share": "none", "output_bias": True}),
]
CASES = [*WRITERS, *MORE]
NAMES = [*IDS, "transformer-gated", "transformer-untied"]
PLAIN = {"alibi", "relative_t5", "relative_shaw"}

needs_kernels = pytest.mark.skipif(isinstance(kernels(), Missing), reason="no C compiler to build the kernels with")


@needs_kernels
@pytest.mark.parametrize(("name", "options"), marked(CASES, NAMES))
def test_float32_gives_the_tokens_of_plain(name, options):
    model, dice = make(name, options, torch.float32), random.Random(f"{name} {options} engine")
    choice = choose(model, "float32")
    recurrent = ("seq2seq", "rnn", "lstmn", "lstmn_seq2seq", "show_tell", "show_attend_tell")
    plain = name in (*recurrent, "ngram", "window_lm", "dan") or options.get("position") in PLAIN
    assert choice.engine == ("plain" if plain else "float32"), choice.reason
    requests = make_requests(name, model.vocab_size, 40, dice)
    results, _, _ = in_company(choice.model, requests, dice)
    unlike = 0
    for number, hypotheses in results.items():
        expected = alone(model, requests[number])
        unlike += [h.tokens for h in hypotheses] != [h.tokens for h in expected]
        if not requests[number].search.sample:
            assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], abs=1e-4)
    assert unlike <= 0.005 * len(results)


@needs_kernels
@pytest.mark.parametrize("name", ["transformer", "gpt2", "llama"])
@pytest.mark.parametrize("engine", ["bfloat16", "int8"])
def test_rounding_depends_on_no_neighbour_and_stays_near(name, engine):
    """A row's numbers are rounded by that row alone, so company changes no bit of a step's logits."""
    if engine == "bfloat16" and not kernels().has_low_products:
        pytest.skip("this CPU has no products of bfloat16 numbers")
    model = make(name, {}, torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.div_(1.5)  # weights as they start: larger ones sharpen what is rounded away
    prepared = choose(model, engine).model
    requests = make_requests(name, model.vocab_size, 7, random.Random(name))
    logits = {}
    for label, runner in (("plain", model), (engine, prepared)):
        state = runner.new_state(sources=7, paths=7, capacity=4)
        state.begin(torch.arange(7), torch.arange(7))
        if requests[0].inputs:
            source = torch.full((7, 6), EOS)
            runner.read({"source": source, "source_mask": torch.ones(7, 6, dtype=torch.bool)}, state, torch.arange(7))
        tokens = torch.arange(3, 10)[:, None]
        for _ in range(2):
            together = runner.step(tokens, torch.ones(7, dtype=torch.long), torch.arange(7), state)
        logits[label] = together
        if label == engine:
            state.free(torch.tensor([4]))
            state.begin(torch.tensor([4]), torch.tensor([4]))
            for _ in range(2):
                single = runner.step(tokens[4:5], torch.ones(1, dtype=torch.long), torch.tensor([4]), state)
            assert torch.equal(single[0], together[4])
    error = (logits[engine] - logits["plain"]).norm() / logits["plain"].norm()
    assert 0 < error < 0.05


@needs_kernels
def test_a_watched_step_runs_on_plain_with_the_same_state():
    model = make("transformer", {}, torch.float32)
    prepared = choose(model, "float32").model
    source = torch.tensor([[5, 6, 7, EOS]])
    seen = {}
    for label, runner in (("plain", model), ("prepared", prepared)):
        state = runner.new_state(sources=1, paths=1, capacity=4)
        state.begin(torch.tensor([0]), torch.tensor([0]))
        runner.read({"source": source, "source_mask": torch.ones(1, 4, dtype=torch.bool)}, state, torch.tensor([0]))
        counts, paths = torch.tensor([1]), torch.tensor([0])
        for token in (BOS, 5, 6):
            runner.step(torch.tensor([[token]]), counts, paths, state)
        with taps.watch() as record:
            runner.step(torch.tensor([[7]]), counts, paths, state)
        seen[label] = {site: record[site].weights for site in record.sites}
    assert seen["plain"].keys() == seen["prepared"].keys()
    for site, weights in seen["plain"].items():
        torch.testing.assert_close(seen["prepared"][site], weights, atol=1e-5, rtol=0)


@needs_kernels
def test_a_coverage_penalty_watches_and_so_runs_on_plain():
    model = make("transformer", {}, torch.float32)
    request = Request(
        Search(beam=3, coverage_penalty=0.5, max_length=8),
        BOS,
        inputs={"source": torch.tensor([4, 5, EOS]), "source_mask": torch.ones(3, dtype=torch.bool)},
    )
    plain, fast = alone(model, request), alone(choose(model, "float32").model, request)
    assert [h.tokens for h in fast] == [h.tokens for h in plain]


def test_what_cannot_be_prepared_runs_as_plain_and_says_why():
    double = make("gpt2", {}, torch.float64)
    assert choose(double, "float32").model is double
    assert "float64" in choose(double, "float32").reason
    assert "Transformer blocks" in choose(make("seq2seq", {}, torch.float32), "int8").reason
    assert choose(double, "plain").reason is None


@needs_kernels
def test_a_dead_source_row_gives_zeros_as_plain_does():
    """A source without a real token: attention to it is zeros, not NaN."""
    model = make("transformer", {}, torch.float32)
    inputs = {"source": torch.tensor([[5, 6], [7, PAD]]), "source_mask": torch.tensor([[False, False], [True, False]])}
    logits = []
    for runner in (model, choose(model, "float32").model):
        state = runner.new_state(sources=2, paths=2, capacity=4)
        state.begin(torch.arange(2), torch.arange(2))
        runner.read(inputs, state, torch.arange(2))
        counts, paths = torch.ones(2, dtype=torch.long), torch.arange(2)
        logits.append(runner.step(torch.tensor([[BOS], [BOS]]), counts, paths, state))
    torch.testing.assert_close(*logits, atol=1e-5, rtol=0)


@needs_kernels
def test_a_decoder_of_one_engine_serves_requests_as_another_does():
    model = make("gpt2", {}, torch.float32)
    special = SpecialTokens((EOS,), frozenset())
    texts = []
    for runner in (model, choose(model, "float32").model):
        decoder = Decoder(runner, special, paths=3)
        decoder.admit([Request(Search(beam=1, max_length=12), BOS, [4] * n) for n in (1, 5, 2)])
        results = {}
        while not decoder.idle:
            results |= {event.ticket: event.results for event in decoder.step() if event.results}
        texts.append([results[ticket][0].tokens for ticket in range(3)])
    assert texts[0] == texts[1]
    assert copy.deepcopy(model) is not model


ENCODERS = [("bert", {"head": head}) for head in ("none", "masked_lm", "classes", "token_classes", "span", "sentence")]
ENCODERS += [("encoder", {}), ("encoder", {"pooling": "mean"})]
ENCODERS += [("vit", {}), ("vit", {"n_labels": 0})]


@needs_kernels
@pytest.mark.parametrize(("name", "options"), ENCODERS, ids=lambda value: str(value))
def test_encoders_give_what_plain_gives(name, options):
    """With padding, which a prepared encoder does not compute; int8 stays near."""
    torch.manual_seed(0)
    model = make_model(name, config_of(name, {**READERS[name], **options})).eval()
    if name == "vit":
        inputs = {
            "pixel_values": torch.randn(3, model.config.channels, model.config.image_size, model.config.image_size)
        }
        real = torch.tensor(True)
    else:
        lengths = torch.tensor([9, 1, 4, 6])
        real = torch.arange(9) < lengths[:, None]
        inputs = {"input_ids": torch.randint(0, model.config.vocab_size, (4, 9)), "attention_mask": real}
    with torch.inference_mode():
        expected = model(**inputs)
        quick, rough = choose(model, "float32"), choose(model, "int8")
        assert (quick.engine, rough.engine) == ("float32", "int8")
        output, coarse = quick.model(**inputs), rough.model(**inputs)
    for part in ("hidden", "logits", "pooled", "pair_logits"):
        values = [getattr(result, part) for result in (expected, output, coarse)]
        assert len({value is None for value in values}) == 1
        if values[0] is None:
            continue
        if name != "vit" and values[0].dim() == 3:  # of each token: what padding gives is nobody's
            values = [value[real] for value in values]
        torch.testing.assert_close(values[1], values[0], atol=1e-5, rtol=1e-5)
        assert (values[2] - values[0]).norm() <= 0.1 * values[0].norm()


@needs_kernels
def test_a_watched_or_trained_encoder_runs_on_plain():
    model = make_model("bert", config_of("bert", READERS["bert"]))
    quick, ids = choose(model, "float32").model, torch.tensor([[1, 2, 3]])
    assert quick(ids).hidden.requires_grad
    model.eval()
    with torch.inference_mode(), taps.watch() as record:
        quick(ids)
    assert record.sites
