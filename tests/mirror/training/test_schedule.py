import math

import pytest

from regard.training.schedule import learning_rate


def rate(kind, step, total=100):
    return learning_rate(kind, step, peak=2.0, warmup=10, total=total)


@pytest.mark.parametrize("kind", ["inverse_sqrt", "cosine", "linear", "constant"])
def test_warm_up_rises_to_the_peak(kind):
    assert [rate(kind, step) for step in (1, 5, 10)] == [0.2, 1.0, 2.0]


def test_the_papers_schedule():
    """d^-0.5 · min(step^-0.5, step · warmup^-1.5), whose peak is (d · warmup)^-0.5."""
    d, warmup = 512, 4000
    for step in (1, 100, 4000, 4001, 100000):
        paper = d**-0.5 * min(step**-0.5, step * warmup**-1.5)
        ours = learning_rate("inverse_sqrt", step, peak=(d * warmup) ** -0.5, warmup=warmup, total=None)
        assert ours == pytest.approx(paper)


def test_ends():
    assert rate("linear", 55) == pytest.approx(1.0)
    assert rate("cosine", 55) == pytest.approx(1.0)
    assert rate("cosine", 32) == pytest.approx(2 * (1 + math.cos(math.pi * 22 / 90)) / 2)
    assert rate("linear", 100) == rate("linear", 150) == 0.0
    assert rate("cosine", 100) == pytest.approx(0.0)
    assert rate("constant", 5000) == 2.0


def test_without_warm_up():
    assert learning_rate("inverse_sqrt", 4, peak=1.0, warmup=0, total=None) == 0.5
    assert learning_rate("constant", 1, peak=1.0, warmup=0, total=None) == 1.0
