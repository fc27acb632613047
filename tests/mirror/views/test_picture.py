"""Pictures: every panel, any script, the same bytes each time."""

import math
import xml.etree.ElementTree as ET

import pytest
import torch
from PIL import Image

from regard.core.errors import UsageError
from regard.views import Curves, Document, Heads, HeadSite, Matrix, Result, Table, Words, words
from regard.views.picture import write_picture

TOKENS = ["the", "$x$", "שלום", "مرحبا", "😀", "日本", " ", "\n", "\x00", "<b>&"]


def result():
    values = torch.randn(10, 10)
    values[0, 0] = math.nan
    curves = {"a": [(1, 0.5), (10, 2.0)], "_hidden": [(1, math.nan), (5, 1.0)]}
    panels = [
        Matrix("Weights $\\frac", TOKENS, TOKENS, values.abs().tolist()),
        Matrix("Signed", TOKENS, TOKENS, values.tolist(), diverging=True),
        Curves("Curves", "$", "y", curves, log_x=True, log_y=True, bands={"a": [(1, 0.4, 0.6), (10, 1.0, 3.0)]}),
        Table("Table", ["a", "$b$"], [["😀", 1.0], [None, "$x"]]),
        Words("Words", TOKENS * 8, torch.randn(80).tolist()),
        Words("Plain", TOKENS, [math.nan, *range(9)], diverging=False),
        Document("Document", [0.7, 0.3], [TOKENS * 4, TOKENS], [torch.rand(40).tolist(), [math.nan] * 10]),
    ]
    site = HeadSite(TOKENS, TOKENS, {"raw": torch.rand(14, 10, 10)})
    large = HeadSite(["x"] * 300, ["y"] * 200, {"raw": torch.randn(2, 300, 200)})
    return Result("m", "A $ title 😀", panels, heads=Heads({"first": site, "second": large}, ["raw"]))


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_every_panel_is_drawn_without_warnings_and_alike_each_time(tmp_path, suffix):
    drawn = result()
    for name in ("one", "two"):
        write_picture(drawn, tmp_path / f"{name}{suffix}")
    first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert first == second
    if suffix == ".svg":
        text = "".join(ET.fromstring(first).itertext())
        for token in ("😀", "日本", "$x$", "<b>&", "␣"):
            assert token in text
    else:
        with Image.open(tmp_path / "one.png") as image:
            assert image.width == 1200


def test_empty_panels_make_pictures(tmp_path):
    empty = [
        Matrix("m", [], [], []),
        Curves("c", "x", "y", {}, log_y=True),
        Table("t", [], []),
        Words("w", [], []),
        Document("d", [], [], []),
    ]
    write_picture(Result("m", "", empty), tmp_path / "a.svg")
    write_picture(Result("m", "t", []), tmp_path / "b.png")
    assert (tmp_path / "b.png").stat().st_size


def test_a_large_matrix_has_fewer_labels(tmp_path):
    labels = [f"w{i}" for i in range(512)]
    write_picture(Result("m", "t", [Matrix("m", labels, labels, torch.rand(512, 512).tolist())]), tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "w9<" in text
    assert "w1<" not in text


def test_other_kinds_are_refused(tmp_path):
    with pytest.raises(UsageError, match="svg or .png"):
        write_picture(Result("m", "t", []), tmp_path / "a.pdf")


def test_a_long_text_is_cut_with_a_note(tmp_path, monkeypatch):
    monkeypatch.setattr(words, "_LINES", 5)
    labels = ["word"] * 60
    document = Document("d", [0.5] * 3, [labels] * 3, [[0.1] * 60] * 3)
    for panel in (Words("w", labels * 3, [1.0] * 180), document):
        write_picture(Result("m", "t", [panel]), tmp_path / "x.svg")
        assert "the first 5 lines" in (tmp_path / "x.svg").read_text()
        assert words.n_lines(panel) == 6


@pytest.mark.parametrize(
    "columns",
    [["word", "row", "column", "weight there", "cells with half of the weight"], ["a long name of a column"] * 9],
)
def test_a_wide_table_stays_inside_the_figure_and_keeps_its_names(columns, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    saved = []
    keep = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *some, **more: [saved.append(figure), keep(figure, *some, **more)]
    )
    write_picture(
        Result("m", "t", [Table("table", columns, [["</s>", *range(len(columns) - 1)]] * 4)]), tmp_path / "a.png"
    )
    (figure,) = saved
    (table,) = figure.axes[0].tables
    figure.draw_without_rendering()
    edge, cells = figure.bbox.x1, table.get_celld()
    for row, column in cells:
        text = cells[row, column].get_text()
        assert cells[row, column].get_window_extent().x1 <= edge
        assert row or text.get_text() == columns[column]
        if column + 1 < len(columns):
            assert text.get_window_extent().x1 <= cells[row, column + 1].get_text().get_window_extent().x0


def test_a_long_name_gets_the_room_that_it_needs():
    from regard.views.picture import _column_widths

    assert _column_widths([["a", "b"], ["c", "d"]]) == [0.5, 0.5]
    widths = _column_widths([["model", *"bcde"], ["a name of twenty-six letter", *"wxyz"]])
    assert widths[0] > 1.5 * widths[1]
    assert sum(widths) == pytest.approx(1)
