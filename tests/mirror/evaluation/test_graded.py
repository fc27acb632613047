"""Texts from right to wrong."""

from regard.evaluation.graded import graded

NAMES = ["a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg"]
TEXTS = ["a dog runs", "a cat", "two men on a boat", "zzz", "a dog sits"]
REFERENCES = [["a dog runs", "the dog is fast"], ["a red house"], ["two men in a boat"], ["a girl"], ["x", "a dog sat"]]


def test_the_nearest_reference_counts_and_the_best_come_first():
    rows = graded(NAMES, TEXTS, REFERENCES, 5)
    assert [row.input for row in rows][:3] == ["a.jpg", "c.jpg", "e.jpg"]
    assert rows[0].chrf == 100
    assert rows[0].reference == "a dog runs"
    assert rows[2].reference == "a dog sat"
    assert rows[-1].input == "d.jpg"
    assert [row.chrf for row in rows] == sorted((row.chrf for row in rows), reverse=True)


def test_fewer_are_spread_from_the_best_to_the_worst():
    every = graded(NAMES, TEXTS, REFERENCES, 99)
    assert len(every) == 5
    assert graded(NAMES, TEXTS, REFERENCES, 3) == [every[0], every[2], every[4]]
    assert graded(NAMES, TEXTS, REFERENCES, 1) == [every[0]]
