"""The terminal heat map: numbers right, labels safe, nothing cut off."""

import io

from rich.console import Console

from regard.cli._heatmap import colour, heat_map


def shown(weights, rows, columns, width=40) -> str:
    console = Console(width=width, force_terminal=False, file=io.StringIO(), record=True)
    console.print(heat_map(weights, rows, columns, width=width))
    return console.export_text()


def test_numbers_are_hundredths():
    text = shown([[0.25, 0.75], [1.0, 0.0]], ["x", "y"], ["a", "b"])
    assert [line.split() for line in text.splitlines()] == [["a", "b"], ["x", "░", "25", "▓", "75"], ["y", "█100", "0"]]


def test_wide_maps_go_on_below():
    text = shown([[0.01 * n for n in range(30)]], ["query"], [f"k{n}" for n in range(30)])
    for n in range(30):
        assert f"k{n}" in text
    assert max(map(len, text.splitlines())) <= 40


def test_labels_are_text_not_markup():
    text = shown([[1.0]], ["[red]"], ["[b]"])
    assert "[red]" in text
    assert "[b]" in text


def test_empty_and_zero():
    shown([], [], [])
    assert "0" in shown([[0.0]], ["x"], ["a"])


def test_the_ramp_rises_in_lightness():
    light = [sum(colour(share / 10)) for share in range(11)]
    assert light == sorted(light)
