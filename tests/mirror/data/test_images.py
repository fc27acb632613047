"""Images: what becomes of any file, and batches that only seed, epoch and row decide."""

import gzip
import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from regard.core.errors import DataError, UsageError
from regard.data.chance import Dice
from regard.data.image_files import IdxFiles, ImageFolder, Sprite
from regard.data.image_rows import ImageRows, LabelledImages, encode_images
from regard.data.images import ImageForm, open_image, prepared

FORM = ImageForm(size=4, channels=3, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


def saved(path: Path, image: Image.Image, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def test_transparency_is_laid_on_white(tmp_path):
    image = Image.new("RGBA", (4, 4), (200, 0, 0, 255))
    image.putpixel((0, 0), (10, 20, 30, 0))
    image.putpixel((1, 0), (0, 0, 0, 128))
    pixels = prepared(open_image(saved(tmp_path / "a.png", image)), 4, 3)
    assert pixels[:, 0, 0].tolist() == [255, 255, 255]
    assert pixels[:, 0, 1].tolist() == [127, 127, 127]
    assert pixels[:, 3, 3].tolist() == [200, 0, 0]
    indexed = Image.new("P", (2, 2), 1)
    indexed.putpalette([0, 0, 0, 9, 9, 9])
    path = saved(tmp_path / "b.png", indexed, transparency=1)
    assert (prepared(open_image(path), 2, 3) == 255).all()
    grey = Image.new("LA", (2, 2), (7, 0))
    assert (prepared(open_image(saved(tmp_path / "c.png", grey)), 2, 1) == 255).all()


def test_an_image_without_a_name_is_said():
    with pytest.raises(DataError, match="the name of an image is empty"):
        open_image("")


def test_grey_and_colour_become_each_other(tmp_path):
    grey = open_image(saved(tmp_path / "a.png", Image.new("L", (4, 4), 77)))
    assert prepared(grey, 4, 3).shape == (3, 4, 4)
    assert (prepared(grey, 4, 3) == 77).all()
    red = open_image(saved(tmp_path / "b.png", Image.new("RGB", (4, 4), (255, 0, 0))))
    assert prepared(red, 4, 1).shape == (1, 4, 4)
    assert (prepared(red, 4, 1) == 76).all(), "the usual 0.299 of red"
    wide = Image.fromarray(np.full((4, 4), 32768, dtype=np.uint16))
    assert (prepared(open_image(saved(tmp_path / "c.png", wide)), 4, 1) == 127).all()
    one_bit = open_image(saved(tmp_path / "d.png", Image.new("1", (4, 4), 1)))
    assert (prepared(one_bit, 4, 3) == 255).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (300, 2), (4, 4)])
def test_any_shape_is_resized(shape, tmp_path):
    path = saved(tmp_path / "a.png", Image.new("RGB", shape, (1, 2, 3)))
    pixels = FORM.pixel_values([path, str(path), open_image(path)])
    assert pixels.shape == (3, 3, 4, 4)
    expected = (torch.tensor([1, 2, 3]) / 255 - 0.5) / 0.25
    torch.testing.assert_close(pixels[1, :, 2, 2], expected)


def test_what_is_no_image_is_named(tmp_path):
    (tmp_path / "text.png").write_text("not at all")
    with pytest.raises(DataError, match=r"text\.png is not an image"):
        open_image(tmp_path / "text.png")
    with pytest.raises(DataError, match=r"absent\.png does not exist"):
        open_image(tmp_path / "absent.png")
    with pytest.raises(DataError, match="is a folder: expected an image file"):
        open_image(tmp_path)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 50, 3), dtype=np.uint8))
    whole = saved(tmp_path / "whole.png", noise).read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"half\.png"):
        open_image(tmp_path / "half.png")
    with pytest.raises(DataError, match="the image is not an image"):
        open_image(io.BytesIO(b"x"))


def test_a_huge_image_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match="too large"):
        open_image(saved(tmp_path / "a.png", Image.new("RGB", (20, 20))))


def idx(folder: Path, count: int = 6, *, labels: int | None = None) -> IdxFiles:
    pixels = (np.arange(count * 6) % 256).astype(np.uint8).tobytes()
    (folder / "images.gz").write_bytes(gzip.compress(struct.pack(">4I", 0x803, count, 2, 3) + pixels))
    classes = bytes(number % 3 for number in range(count if labels is None else labels))
    (folder / "labels").write_bytes(struct.pack(">2I", 0x801, len(classes)) + classes)
    return IdxFiles(folder / "images.gz", folder / "labels")


def test_idx_files(tmp_path):
    source = idx(tmp_path)
    assert (source.form(), source.classes()) == ((1, 3), ["0", "1", "2"])
    images = list(source.images())
    assert [label for _, label in images] == [0, 1, 2, 0, 1, 2]
    assert np.asarray(images[1][0]).tolist() == [[6, 7, 8], [9, 10, 11]]
    with pytest.raises(DataError, match="6 images in .*, 5 labels"):
        list(idx(tmp_path, labels=5).images())
    with pytest.raises(DataError, match="holds no IDX images: got magic 0x801"):
        IdxFiles(*[idx(tmp_path, 20).label_file] * 2).form()
    with pytest.raises(DataError, match="no IDX labels"):
        IdxFiles(*[idx(tmp_path).image_file] * 2).classes()
    (tmp_path / "labels").write_bytes(b"abc")
    with pytest.raises(DataError, match="labels is not an IDX file: got 3 bytes"):
        source.classes()


def test_idx_files_cut_short(tmp_path):
    source = idx(tmp_path)
    raw = gzip.decompress(source.image_file.read_bytes())
    source.image_file.write_bytes(gzip.compress(raw[:-1]))
    with pytest.raises(DataError, match="cut short"):
        list(source.images())


def test_sprites(tmp_path):
    picture = Image.new("RGB", (6, 4))
    for number in range(6):
        picture.paste((number, 0, 0), (number % 3 * 2, number // 3 * 2, number % 3 * 2 + 2, number // 3 * 2 + 2))
    saved(tmp_path / "sprite.png", picture)
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps({"train": [1, 0, 1, 1, 0], "test": ["x"], "names": ["cat", "dog"]}))
    source = Sprite(tmp_path / "sprite.png", 2, labels, "train")
    assert source.classes() == ["cat", "dog"]
    assert [(image.getpixel((1, 1))[0], label) for image, label in source.images()] == [
        (0, 1), (1, 0), (2, 1), (3, 1), (4, 0)
    ]  # fmt: skip
    with pytest.raises(DataError, match="room for 1 tiles of 4 pixels, 5 labels"):
        list(Sprite(source.picture, 4, labels, "train").images())
    for key in ("absent", "test"):
        with pytest.raises(DataError, match=f"no labels '{key}'"):
            Sprite(source.picture, 2, labels, key).classes()


def test_folders(tmp_path):
    for name, count in (("dog", 2), ("cat", 1)):
        for number in range(count):
            saved(tmp_path / "pets" / name / f"{number}.png", Image.new("RGB", (3, 5), "red"))
    (tmp_path / "pets" / "cat" / ".hidden").write_text("")
    (tmp_path / "pets" / ".cache").mkdir()
    source = ImageFolder(tmp_path / "pets")
    assert source.classes() == ["cat", "dog"]
    assert [label for _, label in source.images()] == [0, 1, 1]
    assert len(source.paths()) == 3
    (tmp_path / "pets" / "dog" / "notes.txt").write_text("good dog")
    with pytest.raises(DataError, match=r"notes\.txt is not an image"):
        list(source.images())
    (tmp_path / "pets" / "bird").mkdir()
    with pytest.raises(DataError, match="bird holds no images"):
        list(source.images())
    with pytest.raises(DataError, match="no subfolders"):
        ImageFolder(tmp_path / "pets" / "dog").classes()
    with pytest.raises(DataError, match="is not a folder"):
        ImageFolder(tmp_path / "absent").classes()


def stored(folder: Path, count: int = 23) -> LabelledImages:
    return encode_images(idx(folder, count), folder / "made", size=4, channels=3, classes=["0", "1", "2"])


def test_images_on_disk(tmp_path):
    images = stored(tmp_path)
    assert images.pixels.shape == (23, 3, 4, 4)
    assert images.labels.tolist() == [number % 3 for number in range(23)]
    mean, std = images.moments()
    colours = torch.from_numpy(np.array(images.pixels)).double().transpose(0, 1).flatten(1) / 255
    torch.testing.assert_close(torch.tensor(mean).double(), colours.mean(1), atol=1e-4, rtol=0)
    torch.testing.assert_close(torch.tensor(std).double(), colours.std(1, correction=0), atol=1e-4, rtol=0)
    with pytest.raises(DataError, match="do not occur in training: got 2"):
        encode_images(idx(tmp_path), tmp_path / "made", size=4, channels=3, classes=["0", "1"])
    first, rest = images.split(0.25, Dice(1, 2))
    assert (len(first), len(rest)) == (17, 6)
    assert sorted([*first.rows, *rest.rows]) == list(range(23))


def rows(images: LabelledImages, **options: object) -> ImageRows:
    return ImageRows(images, FORM, **{"rows": 5, "seed": 3, "shift": 1, "flip": True, **options})


def by_row(made: ImageRows, number: int) -> dict[int, torch.Tensor]:
    return {row: batch["pixel_values"][i] for batch in made.epoch(number) for i, row in enumerate(batch.rows)}


def test_an_epoch_goes_on_at_any_batch(tmp_path):
    images = stored(tmp_path)
    whole = list(rows(images).epoch(2))
    assert [batch.size for batch in whole] == [5, 5, 5, 5, 3]
    for start in (0, 2, 5):
        rest = list(rows(images).epoch(2, start))
        assert [batch.rows for batch in rest] == [batch.rows for batch in whole[start:]]
        for resumed, expected in zip(rest, whole[start:], strict=True):
            assert torch.equal(resumed["pixel_values"], expected["pixel_values"])
    with pytest.raises(UsageError, match="no batch 6"):
        rows(images).epoch(0, 6)


def test_changes_follow_from_seed_epoch_and_row(tmp_path):
    images = stored(tmp_path)
    first, second = by_row(rows(images), 1), by_row(rows(images, rows=7), 1)
    assert first.keys() == second.keys() == set(range(23))
    assert all(torch.equal(first[row], second[row]) for row in first)
    later = by_row(rows(images), 2)
    assert sum(torch.equal(first[row], later[row]) for row in first) < 8


def test_moved_and_mirrored_images(tmp_path):
    """Each of the 3 × 3 shifts and both mirrorings come up about as often; what is moved in is black."""
    pixels = np.zeros((1, 1, 5, 5), dtype=np.uint8)
    pixels[0, 0, 2, 1] = 255
    images = LabelledImages(pixels, np.zeros(1, dtype=np.int64), np.arange(1))
    form = ImageForm(size=5, channels=1, mean=(0.0,), std=(1.0,))
    made = ImageRows(images, form, rows=1, seed=1, shift=1, flip=True)
    places: dict[tuple[int, ...], int] = {}
    for number in range(900):
        image = next(made.epoch(number))["pixel_values"][0, 0]
        assert image.sum() == 1
        place = tuple(image.nonzero()[0].tolist())
        places[place] = places.get(place, 0) + 1
    columns = [sum(count for place, count in places.items() if place[1] == column) for column in range(5)]
    assert {place[0] for place in places} == {1, 2, 3}
    # Column 2 is reached from either side.
    assert columns == pytest.approx([150, 150, 300, 150, 150], abs=50)


def test_validation_images_are_as_they_are(tmp_path):
    images = stored(tmp_path)
    batches = list(rows(images, shuffle=False).epoch(4))
    assert [row for batch in batches for row in batch.rows] == list(range(23))
    pixels = torch.cat([batch["pixel_values"] for batch in batches])
    torch.testing.assert_close(pixels, FORM.tensor(np.array(images.pixels)))


def test_real_images(data, tmp_path):
    mnist = IdxFiles(*(data / "mnist" / f"t10k-{part}-ubyte.gz" for part in ("images-idx3", "labels-idx1")))
    assert mnist.form() == (1, 28)
    image, label = next(mnist.images())
    assert (label, image.size, len(mnist.classes())) == (7, (28, 28), 10)
    folder = data / "cifar10_subset"
    cifar = Sprite(folder / "test_2000.png", 32, folder / "labels.json", "test")
    made = encode_images(cifar, tmp_path, size=32, channels=3, classes=cifar.classes())
    assert len(made) == 2000
    assert cifar.classes()[int(made.labels[0])] == "cat"


@pytest.mark.parametrize("value", [0, 100, 255, 256, 32768, 65535])
def test_dark_images_of_16_bits_stay_dark(value, tmp_path):
    """65,535 is white, whatever the brightest pixel is."""
    path = saved(tmp_path / "a.png", Image.fromarray(np.full((4, 4), value, dtype=np.uint16)))
    assert (prepared(open_image(path), 4, 1) == value * 255 // 65535).all()
    path = saved(tmp_path / "a.tiff", Image.fromarray(np.full((4, 4), value, dtype=np.int32)))
    assert (prepared(open_image(path), 4, 1) == value * 255 // 65535).all()
