import pytest
import torch
import torch.nn.functional as F

import regard
from regard.core import taps
from regard.layers.image_convolution import Bottleneck, ConvolutionUnit, ResidualPair, SameConvolution, tap_patches


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "before", "after"),
    [(8, 3, 1, 1, 1), (8, 3, 2, 0, 1), (7, 3, 2, 1, 1), (8, 5, 2, 1, 2), (1, 3, 2, 1, 1), (8, 1, 2, 0, 0)],
)
def test_same_padding_stands_after_the_image_where_it_is_odd(size, kernel, stride, before, after):
    torch.manual_seed(0)
    layer, x = SameConvolution(2, 3, kernel=kernel, stride=stride), torch.randn(1, 2, size, size)
    expected = F.conv2d(F.pad(x, (before, after, before, after)), layer.weight, stride=stride)
    torch.testing.assert_close(layer(x), expected)
    assert layer(x).shape[2] == -(-size // stride)


def test_blocks_add_their_input_where_the_shape_stays():
    torch.manual_seed(0)
    x = torch.randn(2, 4, 6, 6)
    norm = {"eps": 1e-3, "momentum": 0.01}
    stays, grows = (Bottleneck(4, width, kernel=3, stride=1, expansion=2, **norm).eval() for width in (4, 5))
    torch.testing.assert_close(stays(x), x + stays.project(stays.depthwise(stays.expand(x))))
    assert grows(x).shape == (2, 5, 6, 6)
    pair = ResidualPair(4, 8, stride=2).eval()
    torch.testing.assert_close(pair(x), F.relu(pair.shortcut(x) + pair.second(pair.first(x))))
    assert ResidualPair(4, 4).shortcut is None


def test_a_norm_stores_its_four_vectors_only():
    names = set(ConvolutionUnit(2, 3).norm.state_dict())
    assert names == {"weight", "bias", "running_mean", "running_var"}


@pytest.mark.parametrize(("height", "width", "grid"), [(8, 8, (2, 2)), (7, 10, (2, 3)), (5, 5, (5, 1))])
def test_patches_go_through_and_come_out_as_the_image(height, width, grid):
    image = torch.randn(2, 3, height, width)
    assert tap_patches("x.input", image, grid) is image, "nobody watches"
    with regard.watch() as record:
        assert torch.equal(tap_patches("x.input", image, grid), image)
    (patches,) = record.hidden["x.input"]
    assert patches.shape[:2] == (2, grid[0] * grid[1])
    with taps.alter({"x.input": lambda _, x: torch.cat([torch.zeros_like(x[:, :1]), x[:, 1:]], 1)}):
        changed = tap_patches("x.input", image, grid)
    high, wide = -(-height // grid[0]), -(-width // grid[1])
    assert not changed[:, :, :high, :wide].any()
    assert torch.equal(changed[:, :, high:], image[:, :, high:])
