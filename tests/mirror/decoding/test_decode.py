"""The loop: batches, rows that leave, greedy search, limits, and models that misbehave."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention.positions import make_position
from regard.core.errors import ConfigError, RegardError, ShapeError, UsageError
from regard.core.state import State
from regard.decoding import Hypothesis, Search, decode

WAYS = [{"beam": 1}, {"beam": 3, "nbest": 2}, {"sample": True, "nbest": 2, "seed": 3}]
ways = pytest.mark.parametrize("way", WAYS, ids=["greedy", "beam", "sample"])


@ways
@given(data=st.data())
@settings(max_examples=30)
def test_a_batch_gives_what_its_rows_give_alone_for_the_same_work(kit, way, data):
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    seed, attentive = data.draw(st.integers(0, 10**6)), data.draw(st.booleans())
    model = kit.Attentive(8, seed=seed) if attentive else kit.Table(8, seed=seed, end=1.0)
    inputs = kit.sources(lengths, seed=seed)
    search = Search(**way, max_ratio=1.5, max_extra=1, coverage_penalty=0.3 * attentive)
    together, work = kit.run(model, inputs, search), sum(model.batches)
    model.batches.clear()
    for row, hypotheses in enumerate(together):
        (single,) = kit.run(model, kit.alone(inputs, row), search, rows=[row])
        assert [(hypothesis.tokens, hypothesis.finished) for hypothesis in single] == [
            (hypothesis.tokens, hypothesis.finished) for hypothesis in hypotheses
        ]
        assert [hypothesis.score for hypothesis in single] == pytest.approx(
            [hypothesis.score for hypothesis in hypotheses], abs=1e-5
        )
    assert sum(model.batches) == work


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_a_beam_of_one_is_greedy(kit, seed, limit):
    model, inputs = kit.Table(8, seed=seed), kit.sources([3], seed=seed)
    search, tokens, total = Search(beam=1, max_length=limit, length_penalty=2.0), [], 0.0
    for _ in range(limit):
        gains, _ = kit.look(model, inputs, tokens)
        best = max(range(kit.EOS, 8), key=gains.__getitem__)
        total += gains[best]
        tokens.append(best)
        if best == kit.EOS:
            break
    n, ended = len(tokens), tokens[-1] == kit.EOS
    wanted = (kit.score(search, total, n), tokens[: n - ended], total, ended)
    kit.agree(kit.run(model, inputs, search)[0], [wanted])


def test_half_precision_logits_are_summed_in_full(kit):
    model, step, results = kit.Table(8), kit.Table.step, []
    for dtype in (torch.bfloat16, torch.float32):
        model.step = lambda *given, dtype=dtype: step(model, *given).bfloat16().to(dtype)
        results.append(kit.run(model, kit.sources([3]), Search(beam=3)))
    assert results[0] == results[1]


def test_the_models_own_logits_are_left_alone(kit):
    model = kit.Table(8)
    before = model.table.clone()
    kit.run(model, kit.sources([3, 2]), Search(no_repeat_ngram=1), prefixes=[[3], []])
    assert torch.equal(model.table, before)


def test_a_row_that_leaves_as_the_beam_opens_takes_its_source_along(kit):
    """Four rows become two rows of two paths: as many as before, so only the rows tell that the state must move."""
    model, inputs = kit.Table(8), kit.sources([1, 1, 4, 4], seed=5)
    search = Search(beam=2, max_ratio=1.0, max_extra=0)
    together = kit.run(model, inputs, search)
    assert together == [kit.run(model, kit.alone(inputs, row), search)[0] for row in range(4)]
    assert model.batches[:2] == [4, 4]


def test_prefixes_of_unlike_length_are_read_at_once(kit):
    model = kit.Attentive(8)
    fed, step = [], model.step
    model.step = lambda tokens, *rest: fed.append(tokens.shape) or step(tokens, *rest)
    kit.run(model, kit.sources([2, 3]), Search(beam=2, max_length=6), prefixes=[[3, 4, 5], [6, 7]])
    assert fed[:2] == [(2, 4), (4, 1)]


def test_nothing_gives_nothing(kit):
    empty = {"source": torch.zeros(0, 3, dtype=torch.int64), "source_mask": torch.zeros(0, 3, dtype=torch.bool)}
    assert kit.run(kit.Table(8), empty, Search()) == []
    assert decode(kit.Table(8), {}, Search(max_length=3), prefixes=[], **kit.special) == []


class Unconditional:
    """Nothing to read: the next token is one more than the last; it keeps no state at all."""

    coverage_site = None

    vocab_size = 9

    def new_state(self, **room):
        return State(**room)

    def read(self, inputs, state, sources_R):
        pass

    def step(self, tokens_NT, counts_N, paths_N, state):
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        tokens = rows.last(tokens_NT[..., None])
        rows.advance()
        return 50.0 * torch.nn.functional.one_hot((tokens[:, -1] + 1).clamp(max=8), 9).float()


def test_without_inputs_the_prefixes_say_how_many_rows(kit):
    rows = decode(Unconditional(), {}, Search(max_length=4, beam=2), prefixes=[[4, 5], [6]], **kit.special)
    assert [row[0].tokens for row in rows] == [[4, 5, 6, 7], [6, 7, 8, 8]]


@ways
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_logits_that_are_no_numbers_say_where(kit, way, bad):
    model, step = kit.Table(8, end=-40.0), kit.Table.step
    model.step = lambda *given: step(model, *given) + (bad if len(model.batches) == 3 else 0.0)
    with pytest.raises(RegardError, match="nothing to choose from at step 2: got NaN.* row 0. Check"):
        kit.run(model, kit.sources([2, 3]), Search(**way))


@ways
def test_some_tokens_may_be_impossible(kit, way):
    model = kit.Table(8)
    model.table[..., 4:] = -float("inf")
    model.table[..., kit.EOS] = -float("inf")
    for row in kit.run(model, kit.sources([2, 3]), Search(**way, max_length=4)):
        assert {(tuple(hypothesis.tokens), hypothesis.finished) for hypothesis in row} == {((3, 3, 3, 3), False)}


@ways
def test_training_goes_on_afterwards(kit, way):
    """Decoding leaves the mode, the gradients and what modules have cached as usable as before."""
    model = kit.Attentive(8)
    model.own.position = make_position("rotary", d_model=8, d_head=4, n_heads=2, max_len=64, bidirectional=False)
    model.train()
    inputs = kit.sources([2, 3])
    kit.run(model, inputs, Search(**way, max_length=4))
    assert model.training
    logits = kit.read_anew(model, inputs, torch.ones(2, 3, dtype=torch.int64))
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.own.parameters())


def test_limits_follow_the_source(kit):
    search = Search(beam=2, max_ratio=1.5, max_extra=2)
    assert [search.limit(n) for n in (0, 1, 4)] == [2, 3, 8]
    assert Search(min_length=30).limit(1) == 31
    rows = kit.run(kit.Table(8, end=-40.0), kit.sources([1, 4]), search)
    assert [len(row[0].tokens) for row in rows] == [3, 8]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"nbest": 6}, "nbest is larger than the beam: got nbest=6, beam=5. Set beam to 6 or more, or set sample."),
        ({"min_length": 4, "max_length": 4}, "no room for the end token: .* Set max_length to 5 or more."),
        ({"beam": 0}, "beam .* greater than or equal to 1, got 0"),
        ({"top_p": 0.0}, "top_p .* greater than 0"),
        ({"temperature": -1.0}, "temperature"),
        ({"length_form": "google"}, "length_form .* 'wu' or 'mean'"),
        ({"beams": 3}, "did you mean 'beam'"),
    ],
)
def test_settings_are_checked(options, says):
    with pytest.raises(ConfigError, match=says):
        Search.parse(options, "search")


def test_more_draws_than_beams_are_fine():
    assert Search.parse({"sample": True, "nbest": 9}).nbest == 9


def test_calls_are_checked(kit):
    model, inputs = kit.Table(8), kit.sources([2, 3])
    with pytest.raises(UsageError, match="how long an output may be. Set max_length"):
        decode(model, inputs, Search(), **kit.special)
    with pytest.raises(ShapeError, match="source 2, source_mask 2, prefixes 1"):
        decode(model, inputs, Search(max_length=3), prefixes=[[3]], **kit.special)
    with pytest.raises(UsageError, match="how many rows"):
        decode(model, {}, Search(max_length=3), **kit.special)
    with pytest.raises(UsageError, match="Set coverage_penalty to 0"):
        kit.run(model, inputs, Search(coverage_penalty=0.1))
    silent = kit.Attentive(8)
    silent.coverage_site = "other"
    with pytest.raises(RegardError, match="'other' reported nothing"):
        kit.run(silent, inputs, Search(coverage_penalty=0.1))


def test_results_are_plain_values(kit):
    (hypothesis,) = kit.run(kit.Table(8), kit.sources([2]), Search(beam=2))[0]
    assert isinstance(hypothesis, Hypothesis)
    kinds = [
        type(value)
        for value in (
            hypothesis.tokens,
            hypothesis.tokens[0],
            hypothesis.score,
            hypothesis.log_prob,
            hypothesis.finished,
        )
    ]
    assert kinds == [list, int, float, float, bool]
