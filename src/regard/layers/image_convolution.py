"""Convolution over images, and the blocks that image encoders are built from.

same          y = W * x with ⌈size / stride⌉ outputs per side. If the padding is odd, the extra row and column come
              after the image (TensorFlow's "same"); torch's own padding is the same on both sides
unit          f(norm(same(x))): convolution without a bias, batch norm over images and pixels, activation
bottleneck    y = [x +] project(depthwise(expand(x))): MobileNetV2's block (Sandler et al. 2018), from which
              EfficientNet (Tan and Le 2019) is built. `expand` widens by `expansion`, `depthwise` convolves each
              channel alone, `project` narrows without an activation; x is added if stride is 1 and widths are equal
pair          y = relu(x' + unit₂(unit₁(x))): ResNet's block of two convolutions (He et al. 2016); x' is x, or a 1 × 1
              convolution of x with a norm if the shape changes
pooled        unit with a 3 × 3 kernel, then 2 × 2 max pooling: the block that few-shot learners repeat four times
              (Vinyals et al. 2016). We pool before the ReLU, which gives the same result and is cheaper

Batch norm does not count batches: its momentum is fixed, so only the four vectors are stored.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core import taps

Image = Float[Tensor, "B C height width"]
_ACTIVATIONS = {"relu": F.relu, "relu6": F.relu6}


class SameConvolution(nn.Conv2d):
    """A convolution with "same" padding and without a bias."""

    def __init__(self, d_input: int, d_output: int, *, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(d_input, d_output, kernel, stride=stride, groups=groups, bias=False)
        # Each output keeps the variance of the inputs it sums over, halved by the activation (He et al. 2015).
        nn.init.normal_(self.weight, std=(2.0 * groups / (d_output * kernel**2)) ** 0.5)

    def forward(self, x: Image) -> Float[Tensor, "B D h w"]:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        down, across = (max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[2:])
        if down == across and down % 2 == 0:
            return F.conv2d(x, self.weight, None, self.stride, down // 2, 1, self.groups)
        padded = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        return F.conv2d(padded, self.weight, None, self.stride, 0, 1, self.groups)


class ImageNorm(nn.BatchNorm2d):
    """Batch norm of images: one mean and one variance per channel, running averages in evaluation."""

    def __init__(self, width: int, *, eps: float, momentum: float) -> None:
        super().__init__(width, eps=eps, momentum=momentum)
        self.num_batches_tracked = None


class ConvolutionUnit(nn.Module):
    """Convolution, norm, activation."""

    def __init__(
        self,
        d_input: int,
        d_output: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        activation: str | None = "relu",
        eps: float = 1e-5,
        momentum: float = 0.1,
    ) -> None:
        super().__init__()
        self.convolution = SameConvolution(d_input, d_output, kernel=kernel, stride=stride, groups=groups)
        self.norm = ImageNorm(d_output, eps=eps, momentum=momentum)
        self.activation = activation

    def forward(self, x: Image) -> Float[Tensor, "B D h w"]:
        x = self.norm(self.convolution(x))
        return x if self.activation is None else _ACTIVATIONS[self.activation](x)


class Bottleneck(nn.Module):
    """EfficientNet-Lite's block: without squeeze-and-excite, with ReLU6, which quantises well."""

    def __init__(
        self, d_input: int, d_output: int, *, kernel: int, stride: int, expansion: int, eps: float, momentum: float
    ) -> None:
        super().__init__()
        wide, norm = d_input * expansion, dict[str, Any](eps=eps, momentum=momentum)
        self.expand = ConvolutionUnit(d_input, wide, activation="relu6", **norm) if expansion > 1 else None
        self.depthwise = ConvolutionUnit(
            wide, wide, kernel=kernel, stride=stride, groups=wide, activation="relu6", **norm
        )
        self.project = ConvolutionUnit(wide, d_output, activation=None, **norm)
        self.adds = stride == 1 and d_input == d_output

    def forward(self, x: Image) -> Float[Tensor, "B D h w"]:
        wide = x if self.expand is None else self.expand(x)
        y: Tensor = self.project(self.depthwise(wide))
        return y + x if self.adds else y


class ResidualPair(nn.Module):
    """ResNet's block of two 3 × 3 convolutions."""

    def __init__(self, d_input: int, d_output: int, *, stride: int = 1) -> None:
        super().__init__()
        self.first = ConvolutionUnit(d_input, d_output, kernel=3, stride=stride)
        self.second = ConvolutionUnit(d_output, d_output, kernel=3, activation=None)
        alike = stride == 1 and d_input == d_output
        self.shortcut = None if alike else ConvolutionUnit(d_input, d_output, stride=stride, activation=None)

    def forward(self, x: Image) -> Float[Tensor, "B D h w"]:
        beside = x if self.shortcut is None else self.shortcut(x)
        return F.relu(beside + self.second(self.first(x)))


class PooledUnit(nn.Module):
    """3 × 3 convolution, norm, ReLU and 2 × 2 max pooling, which is left out if a side is a single pixel."""

    def __init__(self, d_input: int, d_output: int) -> None:
        super().__init__()
        self.unit = ConvolutionUnit(d_input, d_output, kernel=3, activation=None)

    def forward(self, x: Image) -> Float[Tensor, "B D h w"]:
        y = self.unit(x)
        return F.relu(F.max_pool2d(y, 2) if min(y.shape[2:]) > 1 else y)


def tap_patches(name: str, image_BCHW: Image, grid: tuple[int, int]) -> Image:
    """Pass an image through a named place as patches [B,P,D], one for each cell of the encoder's grid, row by row.

    So explanations of a convolutional encoder refer to the same parts of the image as those of a Vision Transformer.
    The image is returned unchanged, unless `taps.alter` changes the patches.
    """
    if not taps.watched():
        return image_BCHW
    height, width = image_BCHW.shape[2:]
    high, wide = -(-height // grid[0]), -(-width // grid[1])
    padded = F.pad(image_BCHW, (0, wide * grid[1] - width, 0, high * grid[0] - height))
    cells = padded.unflatten(3, (grid[1], wide)).unflatten(2, (grid[0], high))  # [B,C,rows,high,columns,wide]
    patches_BPD = taps.point(name, cells.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2), "image")
    back = patches_BPD.unflatten(2, (image_BCHW.shape[1], high, wide)).unflatten(1, grid).permute(0, 3, 1, 4, 2, 5)
    whole: Tensor = back.flatten(4).flatten(2, 3)
    return torch.narrow(torch.narrow(whole, 2, 0, height), 3, 0, width)
