"""preprocessor_config.json: pixels as transformers' own processors prepare them."""

import json
import random
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from tests.parity.conftest import VIT, make, transformers

import regard

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

PROCESSORS = {"ViTImageProcessor": ViTImageProcessorPil, "DeiTImageProcessor": DeiTImageProcessorPil}
CASES = {
    "stretched": {"size": {"height": 16, "width": 16}, "resample": 2},
    "an old file": {"size": 16, "resample": 3, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]},
    "nearest": {"size": 16, "resample": 0},
    "Lanczos": {"size": 16, "resample": 1},
    "cropped": {"size": 20, "do_center_crop": True, "crop_size": 16},
    "padded": {"size": 12, "do_center_crop": True, "crop_size": {"height": 16, "width": 16}},
    "odd": {"size": {"height": 19, "width": 13}, "do_center_crop": True, "crop_size": 16, "resample": 4},
    "shorter side": {"size": {"shortest_edge": 18}, "do_center_crop": True, "crop_size": 16, "resample": 3},
    "only cropped": {"do_resize": False, "do_center_crop": True, "crop_size": 16},
    "not rescaled": {"size": 16, "do_rescale": False},
    "another factor": {"size": 16, "rescale_factor": 0.00784313725490196, "do_normalize": False},
}


@pytest.fixture
def vit(written):
    return written(make("ViTForImageClassification", "ViTConfig", **VIT))


def images(count=12):
    draw, noise = random.Random(1), np.random.default_rng(1)
    sizes = [(draw.randint(3, 60), draw.randint(3, 60)) for _ in range(count)]
    return [Image.fromarray(noise.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in [(16, 16), *sizes]]


def theirs(kind, settings, pictures):
    processor = PROCESSORS[kind](**settings)
    return torch.cat([torch.as_tensor(np.stack(processor(image)["pixel_values"])).float() for image in pictures])


@pytest.mark.parametrize("kind", sorted(PROCESSORS))
@pytest.mark.parametrize("case", sorted(CASES))
def test_pixels_as_transformers_prepares_them(vit, kind, case):
    settings = CASES[case]
    if kind.startswith("DeiT") and not settings.get("do_center_crop"):
        settings = {"do_center_crop": False, **settings}
    (vit / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": kind, **settings}))
    loaded = regard.load(vit)
    torch.testing.assert_close(
        loaded.form.pixel_values(images()), theirs(kind, settings, images()), rtol=1e-6, atol=1e-5
    )
    regard.api.convert(loaded, vit.parent / "again", to="hf")
    again = regard.load(vit.parent / "again")
    assert torch.equal(again.form.pixel_values(images()), loaded.form.pixel_values(images()))
    written = json.loads((vit.parent / "again" / "preprocessor_config.json").read_text())
    torch.testing.assert_close(
        theirs(written["image_processor_type"], {k: v for k, v in written.items() if "type" not in k}, images()),
        loaded.form.pixel_values(images()),
        rtol=1e-6,
        atol=1e-5,
    )


def test_deit_runs_at_224_and_not_at_256(written):
    """What its published folders say: resized to 256, bicubic, 224 out of the middle; defaults fill in the rest."""
    sizes = {**VIT, "image_size": 224, "patch_size": 56}
    folder = written(make("DeiTForImageClassification", "DeiTConfig", **sizes))
    (folder / "preprocessor_config.json").write_text(json.dumps({"feature_extractor_type": "DeiTFeatureExtractor"}))
    loaded, picture = regard.load(folder), images(1)
    pixels = loaded.form.pixel_values(picture)
    assert pixels.shape == (2, 3, 224, 224)
    torch.testing.assert_close(pixels, theirs("DeiTImageProcessor", {}, picture), rtol=1e-6, atol=1e-5)
    with torch.no_grad():
        logits = transformers.DeiTForImageClassification.from_pretrained(folder).eval()(pixels).logits
    wanted = logits.softmax(-1)[0].tolist()
    assert list(loaded.classify(picture)[0].scores.values()) == pytest.approx(wanted, abs=1e-4)


def test_photographs_are_turned_as_transformers_turns_them(tmp_path, vit):
    loaded, (_, image) = regard.load(vit), images(1)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        path = tmp_path / f"{orientation}.png"
        image.save(path, exif=exif)
        upright = transformers.image_utils.load_image(str(path))
        wanted = theirs("ViTImageProcessor", {"size": 16}, [upright])
        torch.testing.assert_close(loaded.form.pixel_values([path]), wanted, rtol=1e-6, atol=1e-5)
        with Image.open(path) as opened:
            torch.testing.assert_close(loaded.form.pixel_values([opened]), wanted, rtol=1e-6, atol=1e-5)


def test_an_image_that_is_not_brought_to_size_is_refused(vit, tmp_path):
    (vit / "preprocessor_config.json").write_text(json.dumps({"do_resize": False}))
    loaded = regard.load(vit)
    assert loaded.form.pixel_values(images(0)).shape == (1, 3, 16, 16)
    with pytest.raises(
        regard.core.errors.DataError, match="does not have the size that this model reads: got .* expected 16"
    ):
        loaded.form.pixel_values(images(1))
