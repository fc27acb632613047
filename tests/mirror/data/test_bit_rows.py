"""Generated tasks on bits: what is read, what is asked, and that a row depends on nothing but its number."""

import numpy as np
import pytest

from regard.core import lookup
from regard.core.errors import ConfigError, UsageError
from regard.data.bit_rows import BitRows, padded
from regard.data.bit_tasks import make_bit_task

TASKS = lookup.names("regard.data.bit_tasks")


def rows(name, count=30, *, shortest=2, longest=6, split="train", seed=1):
    return BitRows(make_bit_task(name, 4), count, shortest=shortest, longest=longest, split=split, seed=seed)


def words(steps, part):
    return ["".join(str(int(bit)) for bit in row) for row in part[steps.asked]]


def test_copy():
    steps = make_bit_task("copy", 4).read("1011 0010")
    assert steps.inputs.tolist() == [[1, 0, 1, 1, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0], [0] * 6, [0] * 6]
    assert steps.asked.tolist() == [False, False, False, True, True]
    assert words(steps, steps.targets) == ["1011", "0010"]
    assert steps.labels == ["1011", "0010", "|", "answer 1", "answer 2"]


def test_repeat_copy():
    steps = make_bit_task("repeat_copy", 4).read("1011 0010 x3")
    assert words(steps, steps.targets) == [*["10110", "00100"] * 3, "00001"]
    assert steps.inputs[2].tolist() == pytest.approx([0, 0, 0, 0, 1, 0.3])


def test_associative_recall():
    steps = make_bit_task("associative_recall", 4).read(
        "1011 0010 1110 | 0001 0100 1111 | 0000 0000 0001 ? 0001 0100 1111"
    )
    assert words(steps, steps.targets) == ["0000", "0000", "0001"]
    assert steps.labels[:5] == ["|", "1011", "0010", "1110", "|"]
    assert steps.labels[12:17] == ["?", "0001", "0100", "1111", "?"]


@pytest.mark.parametrize("name", TASKS)
def test_a_row_depends_on_its_number_alone(name):
    few, many = rows(name, 5), rows(name, 50)
    for number in range(5):
        assert all(np.array_equal(a, b) for a, b in zip(few.row(number), many.row(number), strict=True))
    assert not np.array_equal(many.row(0).inputs, rows(name, split="validation").row(0).inputs)
    assert many.lengths.tolist() != rows(name, 50, seed=2).lengths.tolist()


@pytest.mark.parametrize("name", TASKS)
def test_lengths_are_what_is_made(name):
    some = rows(name)
    made = [some.row(number) for number in range(len(some))]
    assert [len(steps.asked) for steps in made] == some.lengths.tolist()
    assert {int(size) for size in some.sizes} == set(range(2, 7))
    assert all(len(steps.labels) == len(steps.asked) for steps in made)
    assert all(not steps.targets[~steps.asked].any() for steps in made)
    tensors = padded(made[:3])
    longest = int(some.lengths[:3].max())
    assert tensors["bits"].shape == (3, longest, some.task.d_input)
    assert tensors["targets"].shape == (3, longest, some.task.d_output)
    assert tensors["asked"].sum(1).tolist() == [int(steps.asked.sum()) for steps in made[:3]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("copy", ""), ("copy", "101"), ("copy", "1012"), ("repeat_copy", "1011"), ("repeat_copy", "1011 x0"),
        ("repeat_copy", "x3"),
        ("repeat_copy", "1011 x999999"), ("repeat_copy", "1011 x²"),
        ("associative_recall", "1011 0010 1110 | 0001 0100 1111"),
        ("associative_recall", "1011 0010 1110 ? 1011 0010 1110"),
        ("associative_recall", "1011 0010 1110 | 0001 0100 1111 ? 0001 0100 1111"),
    ],
)  # fmt: skip
def test_texts_that_are_no_sequence(name, text):
    with pytest.raises(UsageError, match="not a sequence of bits") as caught:
        make_bit_task(name, 4).read(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("shortest", "longest"), [(0, 3), (4, 3), (1, 10_000_000)])
def test_lengths_that_do_not_fit(shortest, longest):
    with pytest.raises(ConfigError, match="data.length"):
        rows("copy", shortest=shortest, longest=longest)
