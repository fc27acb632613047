"""Cost over length: small runs, and the arithmetic on numbers that are known."""

import pytest
import torch

from regard.core.errors import UsageError
from regard.explain.methods.cost import EXPLICIT, FUSED, cost, crossing, power

LAYERS = {EXPLICIT, FUSED, "elman", "gru", "lstm"}


@pytest.fixture(scope="module")
def measured():
    return cost(d_model=16, longest=1024, repeats=5)


def test_every_layer_is_measured_at_every_length(measured):
    data = measured.data
    assert data["lengths"] == [16, 32, 64, 128, 256, 512, 1024]
    for kind in ("seconds", "bytes"):
        assert set(data[kind]) == LAYERS
        assert all(len(values) == 7 and min(values) > 0 for values in data[kind].values())
    assert data["predicted_crossing"] == 16
    assert [set(panel.series) for panel in measured.panels[:2]] == [LAYERS, LAYERS]
    assert all(panel.log_x and panel.log_y for panel in measured.panels[:2])
    assert len(measured.panels[2].rows) == 5
    assert "n = d = 16" in measured.statements[0]


def test_memory_is_what_the_layers_must_hold(measured):
    """Explicit attention holds scores and weights at once; the fused kernel neither; outputs alone are 4·n·d bytes."""
    held, powers = measured.data["bytes"], measured.data["exponents"]
    assert held[EXPLICIT][-1] >= 2 * 4 * 1024**2
    assert 1.7 < powers[EXPLICIT]["memory"] < 2.1
    assert powers[FUSED]["memory"] < powers[EXPLICIT]["memory"] - 0.3
    assert held[FUSED][-1] < held[EXPLICIT][-1] / 3
    assert all(values[-1] >= 4 * 1024 * 16 for values in held.values())
    assert 0.7 < powers["elman"]["memory"] < 1.2


def test_time_grows_as_counted(measured):
    """Other programs may run: the bounds are wide, and what a busy moment spoiled is measured again."""

    def as_counted(powers):
        recurrent, explicit = powers["elman"]["time"], powers[EXPLICIT]["time"]
        return 0.6 < recurrent < 1.5 and 1.0 < explicit < 2.6 and explicit > recurrent

    tries = [measured.data["exponents"]]
    while not as_counted(tries[-1]) and len(tries) < 4:
        tries.append(cost(d_model=16, longest=1024, repeats=5).data["exponents"])
    assert as_counted(tries[-1]), tries


def test_steps_and_paths_are_beside_what_was_measured(measured):
    chains = measured.data["chains"]
    assert set(chains["steps"]) == set(chains["path"]) == LAYERS
    assert chains["steps"]["elman"] == [5 * n for n in chains["lengths"]]
    assert len(set(chains["steps"][FUSED])) == 1
    table = {row[0]: row for row in measured.panels[3].rows}
    assert [table[name][3] for name in (EXPLICIT, FUSED, "elman", "gru", "lstm")] == ["O(1)", "O(1)", *["O(n)"] * 3]
    assert "O(n): elman 80 and 640" in measured.statements[-1]


def test_backward_costs_more_and_leaves_threads_alone(measured):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with_backward = cost(d_model=16, longest=64, repeats=3, backward=True)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert with_backward.data["backward"]
    # The graph keeps the weights until the gradients are known.
    assert with_backward.data["bytes"][EXPLICIT][2] > measured.data["bytes"][EXPLICIT][2]


def test_power_of_known_growth():
    lengths = [16, 32, 64, 128]
    assert power(lengths, [3e-3 * n**2 for n in lengths]) == pytest.approx(2)
    assert power(lengths, [7.0 * n for n in lengths]) == pytest.approx(1)


def test_crossing_of_known_curves():
    lengths = [16, 32, 64, 128, 256]
    square, straight = [n * n / 50 for n in lengths], [float(n) for n in lengths]
    assert crossing(lengths, square, straight) == pytest.approx(50)
    assert crossing(lengths, straight, [2.0 * n for n in lengths]) is None
    assert crossing(lengths, [2.0 * n for n in lengths], straight) == 16


def test_errors_are_one_line_with_a_remedy():
    with pytest.raises(UsageError, match="too short to measure.*longest 20"):
        cost(longest=20)
    with pytest.raises(UsageError, match="positive"):
        cost(repeats=0)
