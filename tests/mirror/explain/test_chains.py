"""Chains of operations, on layers whose chains can be counted by hand."""

import pytest
import torch

from regard.explain.chains import chain_lengths, order, usual_layers


def running_sum(words):
    """One addition a word, and a way around the last three."""
    sums = [words[0] + 0]
    for word in words[1:]:
        sums.append(sums[-1] + word)
    return [*sums[:-1], sums[-1] + sums[-4]]


def test_the_longest_and_the_shortest_chain_of_a_running_sum():
    assert chain_lengths(running_sum, 10, 4) == (11, 8)
    assert chain_lengths(running_sum, 10, 4, start=3, end=3) == (1, 1)
    assert chain_lengths(running_sum, 10, 4, start=2, end=5) == (0, 0)


@pytest.mark.parametrize("name", ["elman", "gru", "lstm", "explicit attention", "fused attention"])
def test_the_first_and_the_last_position_are_furthest_apart(name):
    layer = usual_layers(6)[name]
    pairs = {(start, end): chain_lengths(layer, 5, 6, start=start, end=end) for start in range(5) for end in range(5)}
    assert pairs[4, 0] == (max(ways[0] for ways in pairs.values()), max(ways[1] for ways in pairs.values()))
    if "attention" in name:
        assert len(set(pairs.values())) == 1
    else:
        assert pairs[0, 4] == (0, 0)


def test_chains_are_counted_where_gradients_are_off():
    with torch.no_grad():
        assert chain_lengths(usual_layers(6)["elman"], 4, 6) == (20, 20)


def test_orders_of_growth():
    assert [order([8, 64], ends) for ends in ((7, 7), (40, 320), (8, 512))] == ["O(1)", "O(n)", "n^2.00"]
