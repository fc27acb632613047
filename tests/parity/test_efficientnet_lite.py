"""EfficientNet-Lite beside the package `efficientnet-lite-pytorch`, on random weights and on the published ones."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.core import weights
from regard.core.errors import WeightsError
from regard.models import config_of, make_model
from regard.models.efficientnet_lite import PUBLISHED_NAMES, SIZES

DATA = Path(os.environ.get("REGARD_DATA", Path(__file__).parents[3] / "shared" / "data"))
FOLDER = DATA / "efficientnet_lite0"
needs_weights = pytest.mark.skipif(not FOLDER.is_dir(), reason="no published weights: set REGARD_DATA")


def peer(size):
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="efficientnet-lite-pytorch is not installed")
    torch.manual_seed(1)
    return package.EfficientNet.from_name(f"efficientnet-{size}").eval()


def trained(model):
    """As after some training: the running averages are not 0 and 1."""
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.copy_(0.2 * torch.randn_like(buffer))
        elif name.endswith("running_var"):
            buffer.copy_(0.5 + torch.rand_like(buffer))
    return model


@pytest.mark.parametrize("size", SIZES)
def test_random_weights_give_the_same_logits(size):
    theirs = trained(peer(size))
    ours = make_model("efficientnet_lite", config_of("efficientnet_lite", {}, size=size)).eval()
    given = {name: x for name, x in theirs.state_dict().items() if not name.endswith("num_batches_tracked")}
    weights.load_into(ours, PUBLISHED_NAMES.to_ours(given))
    if size != "lite0":  # the names and shapes of all sizes, the numbers of the smallest
        shapes = {name: x.shape for name, x in PUBLISHED_NAMES.to_theirs(ours.state_dict()).items()}
        assert shapes == {name: x.shape for name, x in given.items()}
        return
    image = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        torch.testing.assert_close(ours(image).logits, theirs(image), atol=1e-4, rtol=0)


@needs_weights
def test_published_weights_give_the_same_logits():
    theirs = peer("lite0")
    theirs.load_state_dict(weights.read_tensors(FOLDER), strict=False)
    model = regard.load(FOLDER)
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (150, 128, 3), dtype=np.uint8))
    pixels = torch.cat([model.form.pixel_values([photo]), torch.randn(1, 3, 224, 224)])
    with torch.no_grad():
        torch.testing.assert_close(model(pixels).logits, theirs(pixels), atol=1e-4, rtol=0)


@needs_weights
def test_it_is_opened_and_saved_like_any_model(tmp_path):
    model = regard.load(FOLDER)
    assert sum(parameter.numel() for parameter in model.model.parameters()) == 4_652_008
    assert [model.answer_label(number) for number in (211, 981)] == ["vizsla", "ballplayer"]
    photo = Image.new("RGB", (1, 1), (120, 10, 30))  # one pixel is an image too
    (before,) = model.classify([photo])
    model.save(tmp_path / "copy")
    assert regard.load(tmp_path / "copy").classify([photo]) == [before]


def test_another_number_of_blocks_is_refused(tmp_path):
    tensors = {"_conv_stem.weight": torch.zeros(32, 3, 3, 3), "_fc.weight": torch.zeros(10, 4)}
    weights.write(tmp_path / weights.FILE, tensors)
    with pytest.raises(WeightsError, match="got 0 blocks, the last with 0 features, expected 16 with 320, 21"):
        regard.load(tmp_path)
