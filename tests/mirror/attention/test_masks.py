import pytest
import torch

import regard
from regard.attention import Mask, around, causal, padding, window
from regard.core.errors import ShapeError, UsageError


def test_causal_stands_on_the_last_key():
    assert causal().dense(2, 4).tolist() == [[True, True, True, False], [True] * 4]
    assert causal(start=0).dense(2, 4).tolist() == [[True, False, False, False], [True, True, False, False]]


def test_window_and_padding_combine():
    mask = window(1) & padding(torch.tensor([2, 3]))
    assert mask.dense(3, 3).shape == (2, 1, 3, 3)
    assert mask.dense(3, 3)[0, 0].tolist() == [[True, True, False], [True, True, False], [False, True, False]]


def test_tightest_sides_win():
    both = window(5, 2) & window(3, 9) & causal()
    assert (both.before, both.after) == (3, 0)


def test_a_boolean_tensor_combines_too():
    pairs = torch.tensor([[True, False], [True, True]])
    assert (Mask() & pairs).dense(2, 2).tolist() == pairs.tolist()


def test_limits_that_forbid_nothing_are_dropped():
    assert causal().trim(1, 9).after is None
    assert causal().trim(2, 9).after == 0
    assert window(20, 20).trim(5, 5).dense(5, 5) is None
    assert window(3, 0).trim(1, 9).before == 3


def test_errors():
    centre = torch.zeros(1, 1, 1)
    with pytest.raises(ShapeError, match=r"not boolean.*float32.*True = may attend.*bias="):
        regard.attend(torch.randn(2, 4), torch.randn(3, 4), torch.randn(3, 4), mask=torch.ones(2, 3))
    with pytest.raises(ShapeError, match="not boolean"):
        Mask(keys=torch.ones(2, 3))
    with pytest.raises(UsageError, match="negative"):
        window(-1)
    with pytest.raises(UsageError, match="radius"):
        around(torch.zeros(1, 1, 1), 0)
    for left, right in [
        (causal(start=1), causal(start=2)),
        (window(1), causal(start=0)),
        (around(centre, 2), causal()),
    ]:
        with pytest.raises(UsageError, match="different centres cannot be combined.*dense"):
            left & right
    with pytest.raises(UsageError, match="either a start or"):
        Mask(start=1, centre=torch.zeros(1))
    with pytest.raises(ShapeError, match="centre does not fit"):
        regard.attend(*(torch.randn(2, 1, 3, 4) for _ in range(3)), mask=around(torch.zeros(2, 1, 5), 2))


def test_a_place_comes_from_the_side_that_has_a_window():
    kept = padding(torch.tensor([3])) & window(1, start=2)
    assert (kept.start, kept.before) == (2, 1)
    centre = torch.zeros(1, 1, 1)
    assert (around(centre, 2) & padding(torch.tensor([3]))).centre is centre


def test_a_place_without_a_window_is_kept():
    """`causal` alone would stand on the last key; a start that was given stands."""
    for mask in (Mask(start=0) & causal(), causal() & Mask(start=0)):
        assert mask.dense(2, 4).tolist() == causal(start=0).dense(2, 4).tolist()
    assert (Mask(start=2) & padding(torch.tensor([3]))).start == 2
    assert (padding(torch.tensor([3])) & Mask(start=2)).start == 2
    centre = torch.ones(1, 1, 1)
    assert (causal() & Mask(centre=centre)).centre is centre
    for other in (causal(start=2), Mask(start=2)):
        with pytest.raises(UsageError, match="different centres"):
            Mask(start=0) & other


def test_a_strictly_causal_query_sees_only_keys_before_it():
    assert causal(strict=True).dense(3, 3).int().tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    assert causal().dense(3, 3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
