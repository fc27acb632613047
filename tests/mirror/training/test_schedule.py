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
    """91 steps lead from the peak at update 10 to 0 at update 101, which is never made."""
    assert rate("linear", 55) == pytest.approx(2 * (1 - 45 / 91))
    assert rate("cosine", 55) == pytest.approx(2 * (1 + math.cos(math.pi * 45 / 91)) / 2)
    assert rate("linear", 100) == rate("linear", 150) == pytest.approx(2 / 91)
    assert rate("cosine", 100) == rate("cosine", 150) == pytest.approx(2 * (1 + math.cos(math.pi * 90 / 91)) / 2)
    assert rate("constant", 5000) == 2.0


@pytest.mark.parametrize("kind", ["inverse_sqrt", "cosine", "linear", "constant"])
@pytest.mark.parametrize("warmup", [0, 1, 3, 50])
@pytest.mark.parametrize("total", [1, 2, 7, None])
def test_every_update_has_a_rate(kind, warmup, total):
    rates = [learning_rate(kind, step, peak=2.0, warmup=warmup, total=total) for step in range(1, 100)]
    assert all(0 < value <= 2 for value in rates)


def test_without_warm_up():
    assert learning_rate("inverse_sqrt", 4, peak=1.0, warmup=0, total=None) == 0.5
    assert learning_rate("constant", 1, peak=1.0, warmup=0, total=None) == 1.0


def test_a_schedule_ends_where_the_run_ends_first(make_engine):
    engines = {
        name: make_engine(name, max_steps=steps, max_epochs=2, schedule="linear")
        for name, steps in (("a", 9999), ("b", 20))
    }
    for engine in engines.values():
        engine.run()
    rates = [engine.optimizer.param_groups[0]["lr"] for engine in engines.values()]
    assert rates[0] == rates[1] < 1e-3
