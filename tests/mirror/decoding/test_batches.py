"""Rows of a batch that take one another's places."""

import random

import pytest
import torch
from tests.conformance.test_company import BOS, EOS, PAD, make

from regard.decoding import Search, decode


@pytest.mark.parametrize("beam", [1, 3])
def test_few_rows_at_a_time_give_what_all_at_once_give(beam):
    """Rows end at unlike times, and others take their place; inputs are read several at a time."""
    model = make("transformer", {}, torch.float64)
    dice = random.Random(beam)
    lengths = torch.tensor([dice.randint(1, 7) for _ in range(30)])
    source = torch.randint(4, model.vocab_size, (30, 8), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(8) < lengths[:, None]
    inputs, read = {"source": source, "source_mask": mask}, []
    usual = {"bos": BOS, "eos": EOS, "pad": PAD, "lengths": lengths}
    expected = decode(model, inputs, Search(beam=beam), **usual)
    model.read, whole = lambda inputs, *rest: (read.append(inputs["source"].shape), whole(inputs, *rest)), model.read
    done = []
    given = decode(model, inputs, Search(beam=beam), **usual, at_once=8, on_done=done.append)
    assert [[h.tokens for h in row] for row in given] == [[h.tokens for h in row] for row in expected]
    assert sorted(done) == list(range(30))
    rows, widths = zip(*read, strict=True)
    assert sum(rows) == 30
    assert min(rows[:-1]) >= 2, "inputs are read at least two at a time while others wait"
    assert max(widths) <= 7, "padding of the whole batch is not read"


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3}, {"sample": True, "seed": 2}])
def test_every_token_is_told_before_its_row_is_done(options):
    """Also the last token of an output that ends at its limit, and the tokens of a beam."""
    model = make("transformer", {}, torch.float64)
    source = torch.randint(4, model.vocab_size, (6, 5), generator=torch.Generator().manual_seed(3))
    inputs = {"source": source, "source_mask": torch.ones_like(source, dtype=torch.bool)}
    told, done = [[] for _ in range(6)], {}
    outputs = decode(
        model,
        inputs,
        Search(max_length=6, **options),
        bos=BOS,
        eos=EOS,
        pad=PAD,
        prefixes=[[5] * (row % 3) for row in range(6)],
        on_token=lambda row, token: told[row].append(token),
        on_done=lambda row: done.update({row: len(told[row])}),
    )
    assert any(not best.finished for best, *_ in outputs), "some output ends at its limit"
    assert told == [best.tokens[row % 3 :] for row, (best, *_) in enumerate(outputs)]
    assert [done[row] for row in range(6)] == list(map(len, told))


def test_patience_stops_when_enough_have_ended():
    """With much patience the result is that of the exact search; with little, fewer paths are run."""
    model = make("transformer", {}, torch.float64)
    source = torch.randint(4, model.vocab_size, (6, 5), generator=torch.Generator().manual_seed(3))
    inputs = {"source": source, "source_mask": torch.ones_like(source, dtype=torch.bool)}
    usual = {"bos": BOS, "eos": EOS, "pad": PAD, "lengths": torch.full((6,), 5)}
    steps, run = [0], model.step
    model.step = lambda *given: (steps.append(steps.pop() + len(given[0])), run(*given))[1]

    def search(**options):
        steps[:] = [0]
        outputs = decode(model, inputs, Search(beam=10, max_length=20, **options), **usual)
        return [[h.tokens for h in row] for row in outputs], steps[0]

    exact, most = search()
    assert search(patience=100.0) == (exact, most)
    hasty, fewer = search(patience=0.1)
    assert fewer < most
    assert all(len(row) == 1 for row in hasty)
