"""Image files that are made to harm: what they promise is checked before anything is decoded."""

import os
import resource
import struct
import subprocess
import sys
import zlib

import pytest
from PIL import Image

from regard.core.errors import DataError
from regard.data.images import open_image, prepared


def png(width: int, height: int, bits: int = 8, colour: int = 0) -> bytes:
    """A small file with a large header; a decoder would only see that it is cut short after it took the memory."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">2I5B", width, height, bits, colour, 0, 0, 0)
    row = zlib.compress(bytes(1 << 16))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", row) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("width", "height", "bits"), [(1, 89_000_000, 8), (9400, 9400, 16), (89_000_000, 1, 8), (70_000, 2, 8)]
)
def test_large_promises_cost_no_memory(width, height, bits, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png(width, height, bits))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=f"too large to open: got {width} × {height} pixels"):
        open_image(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "kilobytes"


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(ran) = quit\n%%EOF\n"


@pytest.mark.parametrize("suffix", [".png", ".eps", ".jpg"])
def test_postscript_never_reaches_ghostscript(suffix, tmp_path):
    """Pillow would run the program `gs` on it, whatever the file is called."""
    (tmp_path / f"a{suffix}").write_bytes(EPS)
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (tmp_path / "gs").chmod(0o755)
    code = f"from regard.data.images import open_image; open_image({str(tmp_path / f'a{suffix}')!r})"
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **path}, check=False
    )
    assert "is not an image: expected one of PNG, JPEG, WEBP, GIF, BMP, TIFF" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("form", ["PPM", "ICO", "TGA", "PCX", "SGI", "DDS"])
def test_formats_that_are_not_named_are_refused(form, tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png", format=form)
    with pytest.raises(DataError, match="is not an image"):
        open_image(tmp_path / "a.png")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_formats_that_are_named_are_opened_whatever_the_file_is_called(form, tmp_path):
    Image.new("RGB", (4, 4), "red").save(tmp_path / "a.image", format=form)
    assert prepared(open_image(tmp_path / "a.image"), 4, 3)[0, 0, 0] > 250


def test_a_line_is_not_resized_to_more_pixels_than_a_file_may_have():
    from regard.core.image_settings import Resizing

    with pytest.raises(DataError, match="an image is too narrow to be resized: got 60000 × 1 pixels"):
        prepared(Image.new("L", (60_000, 1)), 224, 3, Resizing(shortest=256, crop=True))


def test_each_refused_image_is_named(tmp_path):
    from regard.core.image_settings import Resizing
    from regard.data.images import ImageForm

    Image.new("RGB", (9, 9)).save(tmp_path / "good.png")
    Image.new("RGB", (60_000, 1)).save(tmp_path / "line.png")
    names, colours = [tmp_path / "good.png", tmp_path / "line.png"], {"channels": 3, "mean": [0] * 3, "std": [1] * 3}
    narrow = ImageForm.parse({"size": 224, "resizing": {"shortest": 256, "crop": True}, **colours})
    with pytest.raises(DataError, match=r"line\.png is too narrow to be resized"):
        narrow.pixel_values(names)
    with pytest.raises(DataError, match=r"good\.png does not have the size that this model reads: got 9 × 9"):
        prepared(open_image(names[0]), 8, 3, Resizing(resize=False))


def test_what_is_not_there_is_not_called_damaged(tmp_path):
    with pytest.raises(DataError, match=r"none\.png does not exist: expected an image file. Check the path\.$"):
        open_image(tmp_path / "none.png")
    (tmp_path / "pictures").mkdir()
    with pytest.raises(DataError, match=r"pictures is a folder: expected an image file. Check the path\.$"):
        open_image(tmp_path / "pictures")
