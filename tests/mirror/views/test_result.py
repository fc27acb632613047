"""Results: shapes are checked when they are made, and everything becomes JSON."""

import json
import math

import numpy as np
import pytest
import torch

from regard.core.errors import ShapeError, UsageError
from regard.views import Curves, Document, Heads, HeadSite, Matrix, Result, Table, Words

SITE = HeadSite(["a", "b"], ["x", "y", "z"], {"raw": torch.rand(4, 2, 3), "attribution": torch.rand(1, 2, 3)})


def whole():
    return Result(
        "method",
        "A title",
        [
            Matrix("m", ["a"], ["x", "y"], [[1.0, math.nan]]),
            Curves("c", "x", "y", {"line": [(1, 2), (2, math.inf)]}, bands={"line": [(1, 0, 3)]}),
            Table("t", ["name", "value"], [["a", 1.5], ["b", None]]),
            Words("w", ["a", "b"], [0.5, -math.inf]),
            Document("d", [1.0, math.nan], [["a"], ["b", "c"]], [[0.5], [math.inf, 0.0]]),
        ],
        ["A sentence."],
        {"tensor": torch.tensor([1.0, math.nan]), "array": np.float32(2.5), 3: (True, None), "deep": {"x": {1}}},
        Heads({"encoder.0": SITE}, ["raw", "effective", "attribution"]),
    )


def test_everything_becomes_json_and_what_is_no_number_null():
    data = json.loads(json.dumps(whole().as_dict(), allow_nan=False))
    assert data["method"] == "method"
    assert data["title"] == "A title"
    assert data["statements"] == ["A sentence."]
    assert data["data"] == {"tensor": [1.0, None], "array": 2.5, "3": [True, None], "deep": {"x": [1]}}
    assert [panel["kind"] for panel in data["panels"]] == ["matrix", "curves", "table", "words", "document"]
    assert data["panels"][0]["values"] == [[1.0, None]]
    assert data["panels"][1]["series"] == {"line": [[1, 2], [2, None]]}
    assert data["panels"][3]["values"] == [0.5, None]
    assert data["panels"][4]["margin"] == [1.0, None]
    assert data["panels"][4]["values"] == [[0.5], [None, 0.0]]
    assert np.shape(data["heads"]["sites"]["encoder.0"]["kinds"]["raw"]) == (4, 2, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Matrix("m", ["a", "b"], ["x"], [[1.0]]),
        lambda: Matrix("m", ["a"], ["x"], [[1.0, 2.0]]),
        lambda: Curves("c", "x", "y", {"line": [(1, 2, 3)]}),
        lambda: Curves("c", "x", "y", {"line": []}, bands={"line": [(1, 2)]}),
        lambda: Table("t", ["a"], [["x", "y"]]),
        lambda: Words("w", ["a"], []),
        lambda: Document("d", [1.0], [], []),
        lambda: Document("d", [1.0], [["a"]], []),
        lambda: Document("d", [1.0], [["a"]], [[]]),
        lambda: HeadSite(["a"], ["x"], {}),
        lambda: HeadSite(["a"], ["x"], {"raw": torch.rand(2, 1, 2)}),
        lambda: HeadSite(["a"], ["x"], {"raw": torch.rand(1, 1)}),
        lambda: HeadSite(["a"], ["x"], {"raw": torch.rand(0, 1, 1)}),
        lambda: Heads({}, ["raw"]),
        lambda: Heads({"s": SITE}, ["raw"]),
    ],
)
def test_shapes_that_do_not_fit_are_refused(make):
    with pytest.raises(ShapeError):
        make()


@pytest.mark.parametrize("suffix", [".html", ".svg", ".png", ".json", ".HTML"])
def test_saves_by_suffix(tmp_path, suffix):
    path = tmp_path / f"result{suffix}"
    whole().save(path)
    assert path.stat().st_size > 500


def test_a_suffix_that_is_unknown_lists_those_that_are(tmp_path):
    with pytest.raises(UsageError, match=r"\.html, \.svg, \.png, \.json"):
        whole().save(tmp_path / "result.pdf")


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="there is no folder") as caught:
        whole().save(tmp_path / "no" / "result.html")
    assert "\n" not in str(caught.value)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "result.json").mkdir()
    with pytest.raises(UsageError, match="could not be written"):
        whole().save(tmp_path / "result.json")


def test_notebooks_get_a_frame_of_its_own():
    shown = whole()._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "allow-same-origin" not in shown
    assert shown.count("<script") == 0  # all of it is inside the attribute, escaped
