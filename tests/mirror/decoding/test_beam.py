"""Beam search against the definition, against all sequences there are, and its stop against no stop."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding import Search, beam

ALPHAS = [0.0, 0.6, 1.0, 2.0]
searches = st.builds(
    lambda width, less, **rest: Search(beam=width, nbest=max(1, width - less), **rest),
    st.integers(2, 5),
    st.integers(0, 4),
    length_penalty=st.sampled_from(ALPHAS),
    length_form=st.sampled_from(["wu", "mean"]),
    max_length=st.integers(1, 7),
    no_repeat_ngram=st.integers(0, 3),
)


@given(searches, st.integers(0, 10**6), st.integers(0, 2))
def test_equals_the_definition_and_stops_when_it_may(kit, search, seed, kind):
    model = kit.Table(7, seed=seed, end=float(kind)) if kind else kit.Attentive(7, seed=seed)
    inputs = kit.sources([3], seed=seed, high=7)
    wanted = kit.slow_beam(model, inputs, search)
    model.batches.clear()
    (got,) = kit.run(model, inputs, search)
    kit.agree(got, wanted.results)
    assert len(model.batches) == wanted.steps


def every_sequence(kit, model, inputs, search, content):
    sequences = []
    for n in range(search.max_length):
        for tokens in itertools.product(content, repeat=n):
            ended = (*tokens, kit.EOS)
            log_prob = sum(kit.look(model, inputs, ended[:i])[0][token] for i, token in enumerate(ended))
            sequences.append((kit.score(search, log_prob, n + 1), list(tokens), log_prob, True))
    return sorted(sequences, key=lambda item: -item[0])


@pytest.mark.parametrize("form", ["wu", "mean"])
def test_a_beam_of_everything_is_exhaustive_search(kit, form):
    seen = set()
    for seed in range(8):
        model, inputs, lengths = kit.Table(5, seed=seed), kit.sources([2], seed=seed, high=5), []
        for alpha in [*ALPHAS, 20.0]:
            search = Search(beam=5**4, nbest=6, length_penalty=alpha, length_form=form, max_length=4)
            (got,) = kit.run(model, inputs, search)
            kit.agree(got, every_sequence(kit, model, inputs, search, (3, 4))[:6])
            lengths.append(len(got[0].tokens))
        assert lengths == sorted(lengths), "the best gets no shorter as the length weighs more"
        seen.add(tuple(lengths))
    assert any(first < last for first, *_, last in seen)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(ALPHAS), st.integers(1, 3))
def test_the_early_stop_changes_nothing_but_the_work(kit, seed, alpha, nbest):
    search = Search(beam=3, nbest=nbest, length_penalty=alpha, max_length=25)
    model, inputs = kit.Table(8, seed=seed, end=2.0), kit.sources([2, 5, 3, 4], seed=seed)
    stopped, early = kit.run(model, inputs, search), sum(model.batches)
    model.batches.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam.Finished, "settled", lambda _, rows, log_prob: log_prob == -float("inf"))
        assert kit.run(model, inputs, search) == stopped
    assert sum(model.batches) == 4 + 4 * 3 * 24 >= early


def test_stops_early_most_of_the_time(kit):
    model = kit.Table(8, end=3.0)
    kit.run(model, kit.sources([2, 5, 3, 4]), Search(beam=3, max_length=40))
    assert len(model.batches) < 20


@given(st.integers(0, 10**6), st.integers(2, 5))
def test_nbest_are_distinct_and_sorted(kit, seed, nbest):
    rows = kit.run(kit.Table(8, seed=seed), kit.sources([2, 4], seed=seed), Search(beam=5, nbest=nbest))
    for row in rows:
        assert len({tuple(hypothesis.tokens) for hypothesis in row}) == nbest == len(row)
        keys = [(not hypothesis.finished, -hypothesis.score) for hypothesis in row]
        assert keys == sorted(keys)


def test_a_longer_list_begins_with_the_shorter_one(kit):
    for seed in range(20):
        model, inputs = kit.Table(8, seed=seed), kit.sources([3], seed=seed)
        lists = [kit.run(model, inputs, Search(beam=4, nbest=n, max_length=5))[0] for n in (1, 2, 4)]
        assert lists[2][:2] == lists[1]
        assert lists[1][:1] == lists[0]


def test_unfinished_ones_only_fill_up(kit):
    model, inputs = kit.Table(6, end=-30.0), kit.sources([3])
    (row,) = kit.run(model, inputs, Search(beam=3, nbest=3, max_length=4))
    assert [(hypothesis.finished, len(hypothesis.tokens)) for hypothesis in row] == [(False, 4)] * 3
    model.table[:, 0, 1, kit.EOS] += 30.0  # now it may end at once, and only then
    (row,) = kit.run(model, inputs, Search(beam=3, nbest=3, max_length=4))
    assert [(hypothesis.finished, len(hypothesis.tokens)) for hypothesis in row] == [(True, 0), (False, 4), (False, 4)]


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 1.0]), st.integers(1, 3))
def test_coverage_penalty(kit, seed, beta, nbest):
    model, inputs = kit.Attentive(6, seed=seed), kit.sources([4], seed=seed, high=6)
    search = Search(beam=3, nbest=nbest, coverage_penalty=beta, max_length=5)
    kit.agree(kit.run(model, inputs, search)[0], kit.slow_beam(model, inputs, search).results)


def test_coverage_penalty_changes_the_choice_and_not_by_padding(kit):
    changed = 0
    for seed in range(12):
        model, inputs = kit.Attentive(6, seed=seed), kit.sources([2, 5, 3], seed=seed, high=6)
        plain, covered = (kit.run(model, inputs, Search(beam=4, max_length=6, coverage_penalty=b)) for b in (0.0, 3.0))
        changed += [row[0].tokens for row in plain] != [row[0].tokens for row in covered]
        for row, hypotheses in enumerate(covered):
            (single,) = kit.run(model, kit.alone(inputs, row), Search(beam=4, max_length=6, coverage_penalty=3.0))
            assert [hypothesis.tokens for hypothesis in hypotheses] == [hypothesis.tokens for hypothesis in single]
            assert hypotheses[0].score == pytest.approx(single[0].score, abs=1e-5)
    assert changed
