"""Paths in slots against plain lists of tensors; sources against copies of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core import copies
from regard.core.errors import UnknownName, UsageError
from regard.core.groups import Groups
from regard.core.state import State

PATHS = 5


@settings(max_examples=60)
@given(st.data())
def test_any_sequence_of_steps_forks_and_frees_equals_plain_tensors(data):
    """Whatever the order of the slots, however many tokens each takes, and however small the room was at first."""
    state = State(paths=PATHS, capacity=data.draw(st.integers(1, 8)))
    plain = [torch.zeros(2, 0, 3) for _ in range(PATHS)]
    last = [torch.zeros(4) for _ in range(PATHS)]
    for _ in range(data.draw(st.integers(1, 8))):
        slots = data.draw(st.lists(st.integers(0, PATHS - 1), min_size=1, max_size=PATHS, unique=True))
        counts = [data.draw(st.integers(1, 3)) for _ in slots]
        rows = state.rows(torch.tensor(slots), torch.tensor(counts), max(counts))
        new, put = torch.randn(len(slots), 2, max(counts), 3), torch.randn(len(slots), 4)
        everything, held = rows.extend("keys", new), rows.get("hidden", torch.zeros(len(slots), 4))
        for row, (slot, count) in enumerate(zip(slots, counts, strict=True)):
            plain[slot] = torch.cat([plain[slot], new[row, :, :count]], 1)
            assert torch.equal(everything[row, :, : plain[slot].shape[1]], plain[slot])
            assert torch.equal(held[row], last[slot])
            last[slot] = put[row]
        rows.put("hidden", put)
        rows.advance()
        assert state.lengths_P.tolist() == [part.shape[1] for part in plain]
        to = data.draw(st.lists(st.integers(0, PATHS - 1), max_size=3, unique=True))
        if to:
            origin = [data.draw(st.integers(0, PATHS - 1)) for _ in to]
            state.fork(torch.tensor(origin), torch.tensor(to))
            copies = [(plain[slot], last[slot]) for slot in origin]
            for slot, (part, hidden) in zip(to, copies, strict=True):
                plain[slot], last[slot] = part, hidden
        freed = data.draw(st.lists(st.integers(0, PATHS - 1), max_size=1))
        for slot in freed:
            state.free(torch.tensor([slot]))
            plain[slot], last[slot] = torch.zeros(2, 0, 3), torch.zeros(4)


def test_growing_by_one_rarely_copies():
    state, addresses = State(paths=1, capacity=1), set()
    for _ in range(500):
        rows = state.rows(torch.tensor([0]), torch.tensor([1]), 1)
        addresses.add(rows.extend("keys", torch.randn(1, 1, 1, 4)).data_ptr())
        rows.advance()
    assert len(addresses) < 12


def test_a_run_of_slots_is_read_without_copying():
    state = State(paths=4)
    rows = state.rows(torch.tensor([1, 2]), torch.tensor([1, 1]), 1)
    keys = rows.extend("keys", torch.randn(2, 1, 1, 4))
    assert keys.untyped_storage().nbytes() == 4 * 1 * state.capacity * 4 * 4, "a view of all four slots"
    other = state.rows(torch.tensor([2, 0]), torch.tensor([1, 1]), 1).extend("keys", torch.randn(2, 1, 1, 4))
    assert other.untyped_storage().nbytes() < keys.untyped_storage().nbytes()


def test_sources_are_held_once_and_cut_to_the_longest_in_use():
    state = State(sources=3, paths=5)
    state.put_sources("keys", torch.tensor([0, 1]), torch.ones(2, 1, 4, 3), dim=2)
    state.put_sources("keys", torch.tensor([2]), torch.full((1, 1, 7, 3), 2.0), dim=2)
    state.put_sources("kind", torch.tensor([0, 1, 2]), torch.tensor([5, 6, 7]))
    state.begin(torch.arange(5), torch.tensor([1, 1, 0, 2, 1]))
    rows = state.rows(torch.tensor([0, 1, 2]), torch.tensor([1, 1, 1]), 1)
    assert rows.of_sources("keys").shape == (2, 1, 4, 3)
    assert rows.of_sources("kind").tolist() == [5, 6]
    assert state.rows(torch.tensor([2, 3]), torch.tensor([1, 1]), 1).of_sources("keys").shape == (2, 1, 7, 3)
    with pytest.raises(UnknownName, match="got 'key'.*Did you mean 'keys'"):
        rows.of_sources("key")


def test_a_shorter_source_in_the_place_of_a_longer_one_leaves_nothing_of_it():
    state = State(sources=1, paths=1)
    state.put_sources("real", torch.tensor([0]), torch.ones(1, 6, dtype=torch.bool), dim=1)
    state.put_sources("real", torch.tensor([0]), torch.ones(1, 2, dtype=torch.bool), dim=1)
    state.put_sources("other", torch.tensor([0]), torch.ones(1, 1), dim=1)
    assert state.rows(torch.tensor([0]), torch.tensor([1]), 1).of_sources("real").tolist() == [[True, True]]
    assert not state._of_sources["real"].buffer[0, 2:].any()


def test_moved_sources_take_their_paths_along():
    state = State(sources=3, paths=3)
    state.put_sources("kind", torch.arange(3), torch.tensor([5, 6, 7]))
    state.begin(torch.arange(3), torch.tensor([0, 2, 2]))
    state.move_sources(torch.tensor([2]), torch.tensor([1]))
    assert state.source_P.tolist() == [0, 1, 1]
    rows = state.rows(torch.arange(3), torch.ones(3, dtype=torch.long), 1)
    assert rows.of_sources("kind").tolist() == [5, 7]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(1, 3))
def test_rows_of_one_source_stand_together_and_apart_again(sources, n_tokens):
    groups, x = Groups(sources, torch.device("cpu")), torch.randn(len(sources), 2, n_tokens, 3)
    together = groups.together(x)
    assert together.shape == (len(set(sources)), 2, groups.width * n_tokens, 3)
    assert torch.equal(groups.apart(together), x)
    for row, source in enumerate(sources):
        place = sorted(set(sources)).index(source)
        lane = sources[:row].count(source)
        assert torch.equal(together[place, :, lane * n_tokens : (lane + 1) * n_tokens], x[row])


def test_a_step_needs_rows():
    with pytest.raises(UsageError, match="a step needs rows"):
        State(paths=2).rows(torch.tensor([], dtype=torch.long), torch.tensor([], dtype=torch.long), 1)


@pytest.mark.parametrize("pairs", [([0, 1], [3, 4]), ([2], [0]), ([0, 0, 1], [2, 3, 4]), ([0, 1], [1, 2])])
@pytest.mark.parametrize("compiled", [True, False])
def test_forks_are_the_same_compiled_or_not(pairs, compiled, monkeypatch):
    copies.LOOPS.compile()
    if not compiled:
        monkeypatch.setattr(copies.LOOPS, "call", None)
    elif copies.LOOPS.call is None:
        pytest.skip("no C compiler here")
    state = State(paths=PATHS, capacity=4)
    rows = state.rows(torch.arange(PATHS), torch.full((PATHS,), 3), 3)
    keys, values = torch.randn(PATHS, 2, 3, 6), torch.randn(PATHS, 1, 3, 2, dtype=torch.float64)
    rows.extend("keys", keys)
    rows.extend("values", values)
    rows.put("hidden", torch.arange(PATHS))
    rows.advance()
    state.fork(*map(torch.tensor, pairs))
    origin = list(range(PATHS))
    for old, new in zip(*pairs, strict=True):
        origin[new] = old
    after = state.rows(torch.arange(PATHS), torch.ones(PATHS, dtype=torch.long), 1)
    assert torch.equal(after.extend("keys", torch.zeros(PATHS, 2, 1, 6))[:, :, :3], keys[origin])
    more = after.extend("values", torch.zeros(PATHS, 1, 1, 2, dtype=torch.float64))
    assert torch.equal(more[:, :, :3], values[origin])
    assert after.get("hidden", torch.zeros(PATHS, dtype=torch.long)).tolist() == origin
