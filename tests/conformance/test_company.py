"""Requests that come and go at any time, with unlike searches and prompts, give what each gives alone.

For every model that writes. In float64 tokens are exactly equal. In float32 they may differ where two choices are all
but equally good: those are counted.
"""

import random
import time
from dataclasses import replace

import pytest
import torch
from tests.conformance.test_captioners import SMALL as CAPTIONERS
from tests.conformance.test_checkpoint_models import SMALL as READERS
from tests.conformance.test_models import SMALL as TRANSLATORS
from tests.conformance.test_models import VOCAB
from tests.system.small_models import fit_on_ids

from regard.decoding import Decoder, Request, Search, SpecialTokens
from regard.models import config_of, make_model

PAD, BOS, EOS = 0, 1, 2
SEARCHES = [
    {"beam": 1},
    {"beam": 1, "no_repeat_ngram": 2, "min_length": 3},
    {"beam": 3, "nbest": 2},
    {"beam": 4, "length_penalty": 0.0, "length_form": "mean"},
    {"sample": True, "nbest": 2, "seed": 5},
    {"sample": True, "top_k": 4, "temperature": 0.7, "seed": 6},
]
WRITERS = [
    ("transformer", {}),
    ("transformer", {"position": "alibi", "order": "pre"}),
    ("transformer", {"position": "relative_t5"}),
    ("transformer", {"position": "relative_shaw"}),
    ("transformer", {"position": "learned", "max_len": 40}),
    ("seq2seq", {}),
    ("seq2seq", {"attention": "none", "cell": "lstm", "n_layers": 2}),
    ("seq2seq", {"attention": "luong", "score": "general", "reach": "local_m", "radius": 2}),
    ("seq2seq", {"attention": "luong", "score": "dot", "reach": "local_p", "radius": 2}),
    ("seq2seq", {"attention": "luong", "score": "dot", "reach": "local_p", "radius": 2, "diagonal": True}),
    ("seq2seq", {"attention": "bahdanau", "score": "location", "max_len": 20}),
    ("gpt2", {}),
    ("llama", {}),
    ("llama", {"window": 4, "n_kv_heads": 1}),
    ("ngram", {"bos": BOS, "eos": EOS}),
    ("window_lm", {"bos": BOS}),
    ("dan", {}),
    ("rnn", {}),
    ("rnn", {"cell": "gru", "n_layers": 1}),
    ("lstmn", {"span": 5}),
    ("lstmn_seq2seq", {"fusion": "deep", "n_layers": 2}),
    ("lstmn_seq2seq", {"fusion": "shallow"}),
    ("show_tell", {}),
    ("show_attend_tell", {}),
    ("show_attend_tell", {"attention": "hard", "score": "general"}),
]
IDS = [f"{name}-{'-'.join(map(str, options.values()))}" for name, options in WRITERS]
SLOW = (
    *("transformer-alibi-pre", "transformer-relative_t5", "transformer-learned-40", "seq2seq-none-lstm-2"),
    *("seq2seq-luong-general-local_m-2", "seq2seq-luong-dot-local_p-2", "llama-", "dan-", "rnn-gru-1"),
    *("lstmn_seq2seq-shallow", "show_tell-", "show_attend_tell-"),
)
"""Left to the longer proof, where another case of the same family is tested each time."""


def marked(cases: list, ids: list[str]) -> list:
    """The cases as parameters, those of SLOW marked."""
    assert set(SLOW) <= set(ids)
    marks = {name: [pytest.mark.slow] for name in SLOW}
    return [pytest.param(*case, id=name, marks=marks.get(name, [])) for case, name in zip(cases, ids, strict=True)]


def make(name: str, options: dict, dtype: torch.dtype) -> torch.nn.Module:
    torch.manual_seed(3)
    base = {**VOCAB, **TRANSLATORS[name]} if name in TRANSLATORS else {**READERS, **CAPTIONERS}[name]
    model = make_model(name, config_of(name, {**base, **options}))
    if name == "ngram":
        fit_on_ids(model, torch.randint(EOS, 23, (400,), generator=torch.Generator().manual_seed(7)).tolist())
    model = model.to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)  # or the next token depends on little
    return model


def make_requests(name: str, vocab: int, count: int, dice: random.Random) -> list[Request]:
    requests = []
    for number in range(count):
        source = torch.tensor([dice.randrange(3, vocab) for _ in range(dice.randint(1, 9))] + [EOS])
        inputs = {"source": source, "source_mask": torch.ones(len(source), dtype=torch.bool)}
        if name in CAPTIONERS:
            inputs = {"features": torch.randn(6, 8, generator=torch.Generator().manual_seed(number))}
        prefix = [dice.randrange(3, vocab) for _ in range(dice.choice([0, 0, 1, 3, 7]))]
        search = Search(**dice.choice(SEARCHES), max_length=len(prefix) + dice.randint(5, 12))
        reads = name in TRANSLATORS or name in CAPTIONERS
        requests.append(Request(search, BOS, prefix, inputs if reads else {}, number=number))
    return requests


def _in_float64(request: Request) -> Request:
    inputs = {key: x.double() if x.is_floating_point() else x for key, x in request.inputs.items()}
    return replace(request, inputs=inputs)


def alone(model, request: Request) -> list:
    decoder = Decoder(model, SpecialTokens((EOS,), frozenset({PAD, BOS})), paths=request.width)
    decoder.admit([request])
    while not decoder.idle:
        events = decoder.step(1 << 20)
    return events[-1].results


def in_company(model, requests, dice: random.Random) -> tuple[dict[int, list], dict[int, list[int]], set[int]]:
    """Requests arrive a few at a time, some are cancelled, and there is room for a part of them only."""
    decoder = Decoder(model, SpecialTokens((EOS,), frozenset({PAD, BOS})), paths=11, capacity=2)
    waiting, results, streamed, cancelled = list(enumerate(requests)), {}, {}, set()
    while waiting or not decoder.idle:
        arriving = [waiting.pop(0) for _ in range(min(len(waiting), dice.randint(0, 3)))]
        assert decoder.admit([request for _, request in arriving]) == [number for number, _ in arriving]
        if arriving and dice.random() < 0.2:
            ticket = dice.choice([t for t in range(arriving[-1][0] + 1) if t not in results])
            decoder.cancel(ticket)
            cancelled.add(ticket)
        for event in decoder.step(prefill_tokens=dice.choice([1, 3, 64])):
            assert event.ticket not in cancelled
            if event.results is not None:
                results[event.ticket] = event.results
            elif event.copy == 0:
                streamed.setdefault(event.ticket, []).append(event.token)
    return results, streamed, cancelled


@pytest.mark.parametrize(("name", "options"), marked(WRITERS, IDS))
def test_company_changes_no_token_in_float64(name, options):
    model, dice = make(name, options, torch.float64), random.Random(f"{name} {options}")
    requests = [_in_float64(request) for request in make_requests(name, model.vocab_size, 40, dice)]
    results, streamed, cancelled = in_company(model, requests, dice)
    assert cancelled
    assert results.keys() | cancelled == set(range(40))
    for number, hypotheses in results.items():
        expected = alone(model, requests[number])
        assert [h.tokens for h in hypotheses] == [h.tokens for h in expected]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], abs=1e-9)
        if requests[number].search.beam == 1 and not requests[number].search.sample:
            written = hypotheses[0].tokens[len(requests[number].prefix) :]
            assert streamed.get(number, []) == written[: len(streamed.get(number, []))]
            assert len(written) - len(streamed.get(number, [])) <= 1, "the last token comes with the result"


@pytest.mark.parametrize(("name", "options"), marked(WRITERS, IDS))
def test_company_changes_next_to_nothing_in_float32(name, options):
    """At most 0.5 % of the sequences differ, and no score by more than 1e-4 a token."""
    model, dice = make(name, options, torch.float32), random.Random(f"{name} {options} 32")
    requests = make_requests(name, model.vocab_size, 40, dice)
    results, _, _ = in_company(model, requests, dice)
    unlike = 0
    for number, hypotheses in results.items():
        expected = alone(model, requests[number])
        if [h.tokens for h in hypotheses] != [h.tokens for h in expected]:
            unlike += 1
        if not requests[number].search.sample:
            assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], abs=1e-4)
    assert unlike <= 0.005 * len(results)


def test_a_deadline_ends_a_request_with_what_there_is():
    model = make("gpt2", {}, torch.float64)
    special = SpecialTokens((), frozenset())
    decoder = Decoder(model, special, paths=6)
    slow = Request(Search(beam=1, max_length=25), BOS, deadline=time.monotonic() + 1000)
    late = Request(Search(beam=2, max_length=25), BOS, [4, 5], deadline=time.monotonic() - 1)
    tickets = decoder.admit([slow, late])
    (event,) = [event for event in decoder.step() if event.results is not None]
    assert (event.ticket, event.results[0].tokens, event.results[0].finished) == (tickets[1], [4, 5], False)
    decoder._requests[tickets[0]] = Request(slow.search, BOS, deadline=time.monotonic() - 1)
    (event,) = decoder.step()
    assert (event.ticket, len(event.results[0].tokens), event.results[0].finished) == (tickets[0], 1, False)
    assert decoder.idle


def test_long_prompts_are_read_in_parts_while_others_go_on():
    model, shapes = make("gpt2", {}, torch.float64), []
    step = model.step
    model.step = lambda tokens, *rest: shapes.append(tuple(tokens.shape)) or step(tokens, *rest)
    decoder = Decoder(model, SpecialTokens((), frozenset()), paths=4)
    decoder.admit([Request(Search(beam=1, max_length=20), BOS)])
    decoder.step()
    decoder.admit([Request(Search(beam=1, max_length=20), BOS, [5] * 10)])
    shapes.clear()
    events = [decoder.step(prefill_tokens=4) for _ in range(3)]
    assert shapes == [(1, 4), (1, 1), (1, 4), (1, 1), (1, 3), (1, 1)]
    assert [[event.ticket for event in part] for part in events] == [[0], [0], [0, 1]]
