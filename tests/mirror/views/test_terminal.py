"""The terminal: labels are text, wide signs keep the columns, large matrices are cut with a word how to see all."""

import io
import math

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from regard.views import Curves, Document, Heads, HeadSite, Matrix, Result, Table, Words
from regard.views.terminal import panels_for_terminal


def printed(result, width=80, **options):
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, **options)
    for renderable in panels_for_terminal(result, width):
        console.print(renderable)
    return file.getvalue()


def test_statements_come_first_and_markup_is_shown_as_it_is():
    label = "[bold]x[/]"
    panels = [
        Matrix(label, [label], [label], [[0.5]], note=label),
        Curves(label, label, label, {label: [(1, 2)]}),
        Table(label, [label], [[label]]),
        Words(label, [label], [1.0]),
        Document(label, [1.0], [[label]], [[1.0]], note=label),
    ]
    text = printed(Result("m", label, panels, [label]))
    assert text.index(f"• {label}") < text.index("50")
    assert text.count("[bold]x[/]") >= 12


def test_a_matrix_has_shades_where_there_are_no_colours():
    text = printed(Result("m", "t", [Matrix("m", ["a"], ["x", "y", "z"], [[0.0, 0.5, 1.0]])]))
    assert "\na      0▒" in text
    assert "▒   50" in text
    assert "█  100" in text


def test_a_signed_matrix_is_coloured_about_zero():
    panel = Matrix("m", ["a"], ["x", "y", "z"], [[-2.0, 0.0, 1.0]], diverging=True)
    text = printed(Result("m", "t", [panel]), force_terminal=True, color_system="truecolor")
    assert "48;2;32;34;40" in text  # the quiet middle for zero
    assert "48;2;150;205;250" in text  # the blue end for −2
    assert "colours from −2 to 2" in text


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    tokens = ["日本語の長い言葉", "😀", "שלום", " ", "\n", "[bold]", "a" * 50]
    panels = [Matrix("m", tokens, tokens, torch.randn(7, 7).tolist(), diverging=True), Words("w", tokens, [1.0] * 7)]
    panels.append(Document("d", [0.25, math.nan], [tokens, []], [[1.0] * 7, []]))
    text = printed(Result("m", "t", panels), width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_wide_matrices_wrap_and_every_value_is_there():
    values = [[(10 * i + j) / 1000 for j in range(30)] for i in range(2)]
    text = printed(Result("m", "t", [Matrix("m", ["a", "b"], [f"c{j}" for j in range(30)], values)]), width=60)
    for j in range(30):
        assert f"c{j}" in text


def test_large_matrices_are_cut_with_a_note():
    labels = [f"w{i}" for i in range(200)]
    text = printed(Result("m", "t", [Matrix("m", labels, labels, torch.rand(200, 200).tolist())]))
    assert "w39" in text
    assert "w150" not in text
    assert "--out page.html" in text
    assert "200 rows and 200 columns" in text


def test_numbers_of_any_size_fit_their_cells():
    values = [[123456.0, -0.000123, math.nan, math.inf, -98765.4321, 0.0998]]
    text = printed(Result("m", "t", [Matrix("m", ["a"], list("uvwxyz"), values, diverging=True)]))
    assert "1.2e5" in text
    assert "-1e-4" in text
    assert text.count("–") >= 2
    assert "0.1" in text


def test_curves_have_their_ends_and_a_sparkline():
    curve = Curves("c", "step", "loss", {"a": [(i, 10.0 - i) for i in range(10)], "b": [(0, math.nan)], "none": []})
    text = printed(Result("m", "t", [curve]), width=100)
    assert "█" in text
    assert "▁" in text
    assert "loss against step from 0 to 9" in text


def test_tables_keep_empty_cells_and_heads_are_announced():
    site = HeadSite(["a"], ["b"], {"raw": torch.rand(4, 1, 1)})
    result = Result("m", "t", [Table("t", ["n", "v"], [["x", None], ["y", 2.5]])], heads=Heads({"s": site}, ["raw"]))
    text = printed(result)
    assert "2.5" in text
    assert "4 heads at 1 site (raw)" in text


def test_empty_panels_print():
    empty = [
        Matrix("m", [], [], []),
        Curves("c", "x", "y", {}),
        Table("t", [], []),
        Words("w", [], []),
        Document("d", [], [], []),
    ]
    assert printed(Result("m", "t", empty))
