import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import ShapeError, UnknownName
from regard.core.state import State


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_any_sequence_of_extend_reorder_select_equals_plain_tensors(lengths, data):
    state, plain, rows = State(), torch.empty(3, 2, 0, 4), 3
    for length in lengths:
        new = torch.randn(rows, 2, length, 4)
        plain = torch.cat([plain, new], 2)
        assert torch.equal(state.extend("keys", new), plain)
        index = torch.tensor(data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=4)))
        plain, rows = plain[index], len(index)
        state.reorder(index)
        assert torch.equal(state["keys"], plain)


def test_growing_by_one_rarely_copies():
    state = State()
    addresses = {state.extend("keys", torch.randn(1, 1, 1, 4)).data_ptr() for _ in range(500)}
    assert len(addresses) < 10


def test_select_by_index_or_flag():
    for rows in (torch.tensor([2, 0]), torch.tensor([True, False, True])):
        state = State()
        state["hidden"] = torch.arange(3.0)[:, None]
        state.extend("keys", torch.arange(3.0)[:, None, None])
        state.select(rows)
        expected = [2.0, 0.0] if rows.dtype == torch.int64 else [0.0, 2.0]
        assert state["hidden"].flatten().tolist() == expected
        assert state["keys"].flatten().tolist() == expected


def test_fixed_tensors_follow_only_a_change_in_rows():
    state = State()
    state.put("memory", torch.tensor([[1.0], [2.0]]), fixed=True)
    state["hidden"] = torch.tensor([[1.0], [2.0]])
    state.reorder(torch.tensor([0, 0, 1, 1]))
    assert state["memory"].flatten().tolist() == [1, 1, 2, 2]
    before = state["memory"].data_ptr()
    state.reorder(torch.tensor([1, 0, 3, 2]))
    assert state["memory"].data_ptr() == before
    state.select(torch.tensor([2, 3]))
    assert state["memory"].flatten().tolist() == [2, 2]


def test_prefixes_share_one_state():
    state = State()
    state.sub("decoder.0").extend("keys", torch.randn(2, 1, 3, 4))
    state.sub("decoder").sub("1")["keys"] = torch.randn(2, 1)
    assert list(state) == ["decoder.0.keys", "decoder.1.keys"]
    assert list(state.sub("decoder")) == ["0.keys", "1.keys"]
    state.reorder(torch.tensor([1]))
    assert state.rows == 1


def test_gradients_flow_through_what_is_stored():
    state, x = State(), torch.randn(1, 1, 2, 4, requires_grad=True)
    state.extend("keys", x)
    state.extend("keys", x * 2)
    state["keys"].sum().backward()
    assert (x.grad == 3).all()


def test_a_stored_tensor_can_grow():
    state = State()
    state["keys"] = torch.ones(1, 1, 2, 4)
    with torch.no_grad():
        assert state.extend("keys", torch.zeros(1, 1, 1, 4)).sum(-1).flatten().tolist() == [4, 4, 0]


def test_errors():
    state = State()
    state["hidden"] = torch.zeros(2, 3)
    with pytest.raises(UnknownName, match="Did you mean 'hidden'"):
        state["hiden"]
    with pytest.raises(ShapeError, match="got 3, expected 2"):
        state["cell"] = torch.zeros(3, 3)
    state["hidden"] = torch.zeros(5, 3)
    assert state.rows == 5
