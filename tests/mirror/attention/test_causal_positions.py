"""Where the tokens of a causal model stand, and what they see, with padding anywhere."""

import pytest
import torch

from regard.attention.causal_positions import causal_positions

IDS = torch.zeros(3, 5, dtype=torch.long)
REAL = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 0, 1, 0]])


def test_positions_count_real_tokens_only():
    positions, _ = causal_positions(IDS, REAL)
    assert positions[REAL.bool()].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2]
    assert causal_positions(IDS)[0].tolist() == [0, 1, 2, 3, 4]


def test_given_positions_replace_the_counted_ones():
    given = torch.arange(5).flip(0)
    for mask in (None, REAL):
        assert causal_positions(IDS, mask, given)[0] is given


@pytest.mark.parametrize("reach", [None, 1, 2, 4])
def test_a_token_sees_itself_and_so_many_before_it_but_no_padding(reach):
    _, mask = causal_positions(IDS, REAL, reach=reach)
    seen = mask.dense(5, 5).expand(3, 1, 5, 5)
    for row in range(3):
        for query in range(5):
            for key in range(5):
                near = query - key < (5 if reach is None else reach)
                assert bool(seen[row, 0, query, key]) is bool(key <= query and near and REAL[row, key])
