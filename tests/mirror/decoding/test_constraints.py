"""What may be written: each constraint against its definition, and obeyed by every way of writing."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import LengthError, UsageError
from regard.decoding import Search, constraints

INF = float("inf")
WAYS = [{"beam": 1}, {"beam": 3, "nbest": 2}, {"sample": True, "nbest": 2, "seed": 3}]
ways = pytest.mark.parametrize("way", WAYS, ids=["greedy", "beam", "sample"])


@given(st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=1, max_size=5), st.integers(0, 4))
def test_no_repeat_is_its_definition(rows, n):
    for length in range(7):
        tokens = torch.tensor(rows)[:, :length]
        log_probs = torch.zeros(len(rows), 5)
        constraints.forbid_repeats(log_probs, tokens, n, ends=[4])
        for row, written in enumerate(tokens.tolist()):
            grams = [written[i : i + n] for i in range(length - n + 1)] if n else []
            again = [n > 0 and [*written, token][-n:] in grams for token in range(4)]
            assert (log_probs[row] == -INF).tolist() == [*again, False]


def test_no_repeat_never_forbids_the_end_token():
    log_probs = torch.zeros(1, 3)
    constraints.forbid_repeats(log_probs, torch.tensor([[2, 1, 0]]), 1, ends=[2])
    assert log_probs.tolist() == [[-INF, -INF, 0.0]]


def test_forbid_passes_over_what_is_no_token():
    log_probs = torch.zeros(2, 3)
    constraints.forbid(log_probs, {1, 3, -1})
    assert log_probs.tolist() == [[0.0, -INF, 0.0]] * 2


@ways
@given(data=st.data())
@settings(max_examples=25)
def test_lengths_repeats_and_special_tokens(kit, way, data):
    shortest, n = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 3))
    search = Search(**way, min_length=shortest, max_length=8, no_repeat_ngram=n)
    model = kit.Table(9, seed=data.draw(st.integers(0, 10**6)), end=data.draw(st.sampled_from([-2.0, 4.0])))
    for row in kit.run(model, kit.sources([2, 3, 1]), search):
        for hypothesis in row:
            assert set(hypothesis.tokens) <= set(range(3, 9))
            assert shortest <= len(hypothesis.tokens) <= (7 if hypothesis.finished else 8)
            grams = [tuple(hypothesis.tokens[i : i + n]) for i in range(len(hypothesis.tokens) - n + 1)] if n else []
            assert len(grams) == len(set(grams))


@ways
@given(data=st.data())
@settings(max_examples=25)
def test_forced_prefixes_are_obeyed_and_change_nothing_after(kit, way, data):
    tokens = st.lists(st.integers(3, 7), max_size=5)
    prefixes = [data.draw(tokens) for _ in range(3)]
    model, inputs = kit.Table(8, seed=data.draw(st.integers(0, 99))), kit.sources([2, 4, 3])
    search = Search(**way, max_length=data.draw(st.integers(5, 9)), no_repeat_ngram=3)
    rows = kit.run(model, inputs, search, prefixes=prefixes)
    for row, (prefix, hypotheses) in enumerate(zip(prefixes, rows, strict=True)):
        assert all(hypothesis.tokens[: len(prefix)] == prefix for hypothesis in hypotheses)
        model.batches.clear()
        (single,) = kit.run(model, kit.alone(inputs, row), search, prefixes=[prefix], rows=[row])
        assert single == hypotheses
        steps = len(model.batches)
        if search.beam > 1 and not search.sample:
            wanted = kit.slow_beam(model, kit.alone(inputs, row), search, prefix)
            kit.agree(hypotheses, wanted.results)
            assert steps == wanted.steps


@ways
def test_a_forced_token_that_the_model_rules_out_is_still_written(kit, way):
    model = kit.Table(8)
    model.table[..., 5] = -INF
    for row in kit.run(model, kit.sources([2, 3]), Search(**way, max_length=4), prefixes=[[5, 5], [4]]):
        for hypothesis in row:
            assert hypothesis.log_prob > -INF
    assert row[0].tokens[0] == 4


@ways
def test_a_forced_end_token_ends_nothing(kit, way):
    prefix = [4, kit.EOS, 3]
    for prefixes in ([prefix, prefix], [prefix, []]):  # read at once, or token by token
        row, _ = kit.run(kit.Table(8), kit.sources([2, 2]), Search(**way, max_length=6), prefixes=prefixes)
        assert row
        assert all(hypothesis.tokens[:3] == prefix for hypothesis in row)


@ways
def test_a_prefix_that_fills_the_limit_is_the_result(kit, way):
    (full, other) = kit.run(kit.Table(8), kit.sources([2, 2]), Search(**way, max_length=3), prefixes=[[3, 4, 5], [3]])
    assert {
        (tuple(hypothesis.tokens), hypothesis.log_prob, hypothesis.score, hypothesis.finished) for hypothesis in full
    } == {((3, 4, 5), 0.0, 0.0, False)}
    assert all(hypothesis.tokens[0] == 3 for hypothesis in other)


@pytest.mark.parametrize("search", [Search(max_length=2), Search(max_ratio=0.0, max_extra=2)])
def test_a_prefix_beyond_the_limit_is_refused(kit, search):
    with pytest.raises(UsageError, match="prefix of row 1 is longer .* got 3 tokens, expected at most 2. Raise max"):
        kit.run(kit.Table(8), kit.sources([2, 2]), search, prefixes=[[3], [3, 3, 3]])


@ways
def test_where_nothing_may_come_the_path_ends(kit, way):
    """Three tokens without repeats, and no end token before five."""
    search = Search(**way, min_length=5, max_length=9, no_repeat_ngram=1)
    model = kit.Table(6)
    for row in kit.run(model, kit.sources([2, 3]), search):
        assert len(row) == search.nbest
        for hypothesis in row:
            assert sorted(hypothesis.tokens) == [3, 4, 5]
            assert not hypothesis.finished
            assert hypothesis.score > -INF
    assert len(model.batches) == 4


def test_a_beam_wider_than_there_are_paths_gives_those_that_there_are(kit):
    """Three tokens without repeats have six orders; a beam of eight has two paths that never lived."""
    search = Search(beam=8, nbest=8, min_length=5, max_length=9, no_repeat_ngram=1)
    for row in kit.run(kit.Table(6), kit.sources([2, 3]), search):
        assert len({tuple(hypothesis.tokens) for hypothesis in row}) == len(row) == 6
        assert all(hypothesis.score > -INF for hypothesis in row)


@ways
def test_no_repeat_leaves_the_end(kit, way):
    for row in kit.run(kit.Table(6, end=-9.0), kit.sources([2, 3]), Search(**way, max_length=9, no_repeat_ngram=1)):
        assert all(hypothesis.finished and len(hypothesis.tokens) <= 3 for hypothesis in row)


@ways
def test_one_token_may_play_every_part(kit, way):
    """Vocabularies of some models begin, end and pad with the same token."""
    model = kit.Table(6, end=4.0)
    for row in kit.run(model, kit.sources([2, 3]), Search(**way, max_length=30), bos=2, pad=2, eos=2):
        assert all(2 not in hypothesis.tokens for hypothesis in row)
        assert row[0].finished


@ways
def test_tokens_outside_the_vocabulary_are_refused(kit, way):
    search = Search(**way, max_length=4)
    with pytest.raises(UsageError, match="end token is outside .* got 9, expected 0 to 7. Use the tokenizer"):
        kit.run(kit.Table(8), kit.sources([2]), search, eos=9)
    with pytest.raises(UsageError, match="forced prefix is outside .* got 8"):
        kit.run(kit.Table(8), kit.sources([2, 2]), search, prefixes=[[8], []])
    with pytest.raises(UsageError, match="negative"):
        kit.run(kit.Table(8), kit.sources([2]), search, prefixes=[[-1]])


@ways
def test_a_minimum_counts_what_was_generated_and_not_the_prefix(kit, way):
    search = Search(**way, min_length=3, max_length=9)
    for row in kit.run(kit.Table(8, end=6.0), kit.sources([2, 3]), search, prefixes=[[4, 5, 3], [6]]):
        for hypothesis in row:
            assert len(hypothesis.tokens) >= (6 if hypothesis.tokens[:3] == [4, 5, 3] else 4)


@ways
def test_an_ngram_that_begins_with_the_first_token_counts(kit, way):
    """5 follows 4, and 4 follows 5, wherever that is possible."""
    model = kit.Table(8, end=-20.0)
    model.table[..., 4, 5] += 9.0
    model.table[..., 5, 4] += 9.0
    search = Search(**way, max_length=8, no_repeat_ngram=2)
    for row in kit.run(model, kit.sources([2, 2]), search, bos=[4, 5], prefixes=[[5], []]):
        for hypothesis in row:
            tokens = [4 if hypothesis.tokens[0] == 5 else 5, *hypothesis.tokens]
            pairs = [tuple(tokens[i : i + 2]) for i in range(len(tokens) - 1)]
            assert len(pairs) == len(set(pairs))


@ways
def test_a_prefix_beyond_the_positions_is_refused(kit, way):
    model = kit.Table(8)
    model.longest = 3
    with pytest.raises(LengthError, match="prefix of row 1 is longer than the model can read: got 4 tokens, .* most 3"):
        kit.run(model, kit.sources([2, 2]), Search(**way, max_length=9), prefixes=[[3, 3, 3], [3, 3, 3, 3]])


@ways
def test_forbidden_tokens_never_come_and_an_end_always_may(kit, way):
    search = Search(**way, max_length=6, forbidden=(4, 6, kit.EOS, 99))
    rows = kit.run(kit.Table(8, end=1.0), kit.sources([2, 3, 1]), search)
    assert all(not {4, 6} & set(hypothesis.tokens) for row in rows for hypothesis in row)
    assert any(hypothesis.finished for row in rows for hypothesis in row)


def test_penalised_scores():
    scores = torch.tensor([[2.0, -2.0, 0.0, -INF, 3.0], [2.0, -2.0, 1.0, -1.0, 3.0]])
    tokens = torch.tensor([[0, 1, 1, 3], [4, 9, -1, -1]])  # 9 is outside, -1 is past the row's own
    penalised = constraints.penalise_repeats(scores, tokens, 2.0)
    assert penalised.tolist() == [[1.0, -4.0, 0.0, -INF, 3.0], [2.0, -2.0, 1.0, -1.0, 1.5]]
    assert scores[0, 0] == 2.0, "the logits stay for others"


@pytest.mark.parametrize("penalty", [0.5, 1.0, 1.7])
def test_a_penalty_in_greedy_search_is_on_logits(kit, penalty):
    """Each step from the definition; neighbours with another penalty change nothing."""
    model, inputs = kit.Table(8, spread=3.0), kit.sources([2, 3, 1])
    search = Search(beam=1, max_length=9, repetition_penalty=penalty)
    for row, (best,) in enumerate(kit.run(model, inputs, search, prefixes=[[4], [5, 6], []])):
        prefix = [[4], [5, 6], []][row]
        tokens = list(prefix)
        while len(tokens) < 9:
            logits = kit.read_anew(model, kit.alone(inputs, row), torch.tensor([[1, *tokens]]))[0].tolist()
            for token in {1, *tokens}:
                logits[token] = logits[token] * penalty if logits[token] < 0 else logits[token] / penalty
            logits[0] = logits[1] = -INF
            token = max(range(8), key=logits.__getitem__)
            if token == kit.EOS:
                break
            tokens.append(token)
        assert best.tokens == tokens


def test_tokens_that_say_the_same_share_their_probability():
    class Grammar:
        same = torch.tensor([1, 2, 3])

        def __init__(self, *allowed):
            self.allowed = allowed

        def __call__(self, tokens):
            mask = torch.zeros(5, dtype=torch.bool)
            mask[list(self.allowed)] = True
            return mask

    class Request:
        def __init__(self, grammar):
            self.grammar = grammar

    class Paths:
        ticket_N = torch.tensor([7, 8, 9])

        def written(self):
            return [[], [], []]

    requests = {7: Request(Grammar(0, 2)), 8: Request(Grammar(0, 4)), 9: Request(None)}
    probabilities = torch.tensor([0.3, 0.1, 0.05, 0.25, 0.3])
    log_probs = probabilities.log().repeat(3, 1)
    constraints.follow_grammars(log_probs, Paths(), requests)
    torch.testing.assert_close(log_probs[0].exp(), torch.tensor([0.3, 0, 0.4, 0, 0]))
    torch.testing.assert_close(log_probs[1].exp(), torch.tensor([0.3, 0, 0, 0, 0.3]))
    torch.testing.assert_close(log_probs[2].exp(), probabilities)
