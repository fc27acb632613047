"""What the benchmark of visual questions measures: the attention that lies in the box of the shape."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests.conformance.explained import made

from regard.data.pictures import Pictures
from regard.data.visual_questions import Asked

PLACE = Path(__file__).parents[2] / "benchmarks" / "visual_questions.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("benchmark_visual_questions", PLACE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PLACE.parent)
        spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def shape():
    image = Image.new("RGB", (64, 64), (240, 238, 245))
    ImageDraw.Draw(image).rectangle((20, 8, 31, 23), fill=(200, 0, 0))
    return image


def test_the_box_of_a_shape_and_the_weight_in_it(benchmark):
    where = benchmark.box(shape())
    assert where == (8, 20, 24, 32)
    even = np.full((8, 8), 1 / 64)
    assert benchmark.mass(even, where, (64, 64)) == pytest.approx(16 * 12 / 64**2)
    pointed = np.zeros((8, 8))
    pointed[1, 2] = 1.0  # rows 8 to 15, columns 16 to 23: half of the cell lies in the box
    assert benchmark.mass(pointed, where, (64, 64)) == pytest.approx(0.5)
    assert benchmark.mass(even, (0, 0, 64, 64), (64, 64)) == pytest.approx(1.0)


def test_questions_about_the_shape(benchmark):
    assert all(
        map(benchmark.about_shape, ("what shape is present?", "is there not a circle?", "what is the red shape?"))
    )
    assert not any(map(benchmark.about_shape, ("what color is the circle?", "is there a red shape?")))


@pytest.mark.parametrize("name", ["vqa", "vqa-dcn"])
def test_a_model_is_measured(benchmark, tmp_path, name):
    model, _, _ = made(name)
    shape().save(tmp_path / "0.png")
    asked = [Asked("0.png", "who saw the circle ?", "a"), Asked("0.png", "who saw the cat ?", "d")]
    measured = benchmark.measure(model, asked, Pictures(tmp_path))
    assert measured.accuracy in (0.0, 0.5)
    assert len(measured.masses) == 2
    assert all(0 < mass < 1 for mass in measured.masses)
    assert measured.area == pytest.approx(16 * 12 / 64**2)
    assert benchmark.row("x", [measured]).count("|") == benchmark.HEAD[0].count("|")
