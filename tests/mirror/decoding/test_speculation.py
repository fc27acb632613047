"""Guessing tokens ahead changes no token, whoever guesses, in any company and with any search."""

import random

import pytest
import torch
from tests.conformance.test_company import alone, in_company, make, make_requests

from regard.core.errors import UsageError
from regard.decoding import Decoder, Request, Search, SpecialTokens
from regard.decoding.speculation import Draft, Lookup, Speculative, _common
from regard.pipelines._drafts import speculative


class Oracle:
    """Guesses what it was told will come, with some of it wrong."""

    def __init__(self, texts, wrong_every=0):
        self.texts, self.wrong_every, self.asked = texts, wrong_every, 0

    def guess(self, histories, paths, count):
        self.asked += 1
        guesses = []
        for history in histories:
            (text,) = [text for text in self.texts if text[: len(history)] == list(history)] or [list(history)]
            guesses.append(text[len(history) : len(history) + count])
            if self.wrong_every and self.asked % self.wrong_every == 0 and guesses[-1]:
                guesses[-1][-1] += 1
        return guesses


def guessers(name):
    other = make(name, {}, torch.float64)
    with torch.no_grad():
        for number, parameter in enumerate(other.parameters()):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)))
    return {"lookup": Lookup(), "itself": Draft(make(name, {}, torch.float64)), "another": Draft(other)}


@pytest.mark.parametrize("who", ["lookup", "itself", "another"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_tokens_are_those_of_the_model_alone(name, who):
    """Random arrivals, cancellations, greedy and beam search, sampling, constraints: float64, so exactly."""
    model, dice = make(name, {}, torch.float64), random.Random(f"{name} {who}")
    requests = make_requests(name, model.vocab_size, 30, dice)
    faster = Speculative(model, guessers(name)[who], count=4)
    results, _, _ = in_company(faster, requests, dice)
    assert len(results) > 20
    for number, hypotheses in results.items():
        expected = alone(model, requests[number])
        assert [h.tokens for h in hypotheses] == [h.tokens for h in expected]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], abs=1e-9)


def run(model, prompt, length):
    decoder = Decoder(model, SpecialTokens.of(bos=prompt[0], eos=-1, pad=-1), paths=1)
    search = Search(beam=1, max_length=length)
    decoder.admit([Request(search, prompt[0], prompt[1:])])
    while not decoder.idle:
        for event in decoder.step():
            if event.results is not None:
                return event.results[0].tokens
    raise AssertionError


@pytest.mark.parametrize(("wrong_every", "runs"), [(0, 4), (1, 5)])
def test_right_guesses_save_runs_of_the_model(wrong_every, runs):
    """24 tokens, five guesses each time: a run gives the logits of six tokens; of five if the last guess is wrong."""
    model = make("gpt2", {"max_len": 64}, torch.float64)
    text = [3, *run(model, [3], 24)]
    faster = Speculative(model, Oracle([text], wrong_every), count=5)
    assert [3, *run(faster, [3], 24)] == text
    assert faster.runs == runs
    assert faster.tokens == 24


def test_lookup_takes_the_longest_match_and_then_the_latest():
    guess = Lookup(longest=2).guess
    assert guess([[1, 2, 9, 5, 2, 8, 1, 2]], [0], 3) == [[9, 5, 2]]  # "1 2" before "2" alone, though that came later
    assert guess([[2, 7, 2, 8, 2]], [0], 2) == [[8, 2]]
    assert guess([[1, 2, 3]], [0], 2) == [[]]
    assert guess([[4]], [0], 2) == [[]]


def test_guesses_stop_at_the_last_position_of_the_model():
    model = make("gpt2", {}, torch.float64)
    room = model.longest
    text = [3, *run(model, [3], room - 1)]
    faster = Speculative(model, Oracle([text]), count=5)
    assert [3, *run(faster, [3], room - 1)] == text


def test_a_draft_that_has_fewer_positions_falls_silent():
    model, small = make("gpt2", {}, torch.float64), make("gpt2", {"max_len": 8}, torch.float64)
    length = model.longest - 1
    assert run(Speculative(model, Draft(small)), [3], length) == run(model, [3], length)


def test_a_model_with_another_memory_is_refused():
    class Pipeline:
        model = make("rnn", {}, torch.float32)
        stored = type("Stored", (), {"name": "rnn"})

    with pytest.raises(UsageError, match="cannot check several tokens"):
        speculative(Pipeline(), "lookup", 5, 100)
    with pytest.raises(UsageError, match="at least one token"):
        speculative(Pipeline(), "lookup", 0, 100)


def test_a_draft_reads_again_only_what_has_changed():
    for left, right, alike in (([], [1], 0), ([1, 2, 3], [1, 2, 3, 4], 3), ([1, 2, 9], [1, 2, 3], 2), ([5], [6], 0)):
        assert _common(left, right) == alike
