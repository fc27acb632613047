import base64
import io

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from regard.core.errors import ShapeError
from regard.views.page import page
from regard.views.photos import Photo, data_uri, laid_over, photo_lines, smooth
from regard.views.result import Result
from regard.views.terminal import panels_for_terminal

PICTURE = np.random.default_rng(0).integers(0, 256, (24, 30, 3), dtype=np.uint8)
PEAK = [[0.0, 0.0, 0.0], [0.0, 0.9, 0.0], [0.0, 0.0, 0.1]]


def photo(labels=("dog", "<b>")):
    return Photo("look", PICTURE, list(labels), [PEAK] * len(labels))


def test_a_map_is_enlarged_smoothly_and_scaled_to_its_peak():
    large = smooth(PEAK, (24, 30))
    assert large.shape == (24, 30)
    assert (large.min(), large.max()) == (0.0, pytest.approx(1.0, abs=0.02))
    assert np.unravel_index(large.argmax(), large.shape) in [(11, 14), (11, 15), (12, 14), (12, 15)]
    assert np.abs(np.diff(large, axis=0)).max() < 0.3, "no steps at the borders of cells"
    assert not smooth([[0.0, 0.0]], (4, 4)).any()


def test_the_picture_is_bright_where_the_map_is_high():
    shown = laid_over(PICTURE, PEAK).astype(float)
    assert np.abs(shown[12, 15] - PICTURE[12, 15]).max() <= 6
    assert shown[0, 29].max() < 0.3 * 255


def test_pictures_are_embedded():
    kind, text = data_uri(PICTURE).split(",")
    assert kind == "data:image/png;base64"
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(text)))), PICTURE)


def test_every_view_shows_it(tmp_path):
    result = Result("photo", "Where it looks", [photo()])
    text = page(result)
    assert text.count("<figure>") == 3
    assert '<figcaption dir="auto">&lt;b&gt;</figcaption>' in text
    for name in ("a.svg", "b.svg", "a.png", "a.json"):
        result.save(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    console = Console(width=40, file=io.StringIO(), color_system=None)
    for part in panels_for_terminal(result, 40):
        console.print(part)
    shown = console.file.getvalue()
    assert "dog 0.9" in shown
    assert "█" in shown, "the map is seen without colours"


def test_copies_stand_side_by_side_as_they_fit():
    assert len(photo_lines(photo(), 80)) == 1 + 9 + 1
    assert len(photo_lines(photo(), 20)) == 2 * (1 + 9 + 1)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="differ in number: got 1, expected 2"):
        Photo("x", PICTURE, ["a", "b"], [PEAK])
    with pytest.raises(ShapeError, match="is no picture"):
        Photo("x", PICTURE[..., 0], [], [])
    with pytest.raises(ShapeError, match="is no matrix"):
        Photo("x", PICTURE, ["a"], [[]])
