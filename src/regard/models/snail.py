"""SNAIL, the simple neural attentive learner (Mishra et al. 2018): a sequence model that looks up earlier steps.

    x ← [x ; causal attention over x]                 two numbers, (K, V): widths of keys and values
    x ← [x ; gated causal convolutions of x]          one number, D: filters of each of ⌈log₂ T⌉ dilations
    logits_t = W x_t + b                              a 1 × 1 convolution

Convolutions see earlier steps at fixed distances, and attention finds any earlier step by its content. The output of
each block contains its input (`layers/convolution.py`, `layers/joined_attention.py`). `blocks` lists the blocks, T is
`seq_len`.

classes    few-shot classification. A step is [embedding of an image ; its label as a one-hot vector of N, or zeros].
           The N·K examples come first and the image to classify last, so T = N·K + 1, and logits_T are those of its
           class. Embedding: four times {3 × 3 convolution of 64 filters, batch norm, ReLU, 2 × 2 max pool}, then a
           linear layer to 64 numbers. The paper's blocks, for Omniglot and mini-ImageNet, are (64, 32), 128,
           (256, 128), 128, (512, 256): `SIZES["few_shot"]`
policy     reinforcement learning. A step holds the information before an action: state, last action, last reward,
           whether an episode has just ended. logits_t choose the action; a second linear layer gives `values`, the
           expected return. The paper's blocks for bandits and MDPs are a linear layer to 32 numbers, then 32, 32,
           (32, 32): `SIZES["policy"]`

Where we differ: dilations begin with 1 (see `layers/convolution.py`). Several images may be classified with one set of
examples, which is then read once: the images are branches of the last step and do not see each other. The paper's value
network is separate; here the two heads share the blocks.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core import taps
from regard.core.config import Config
from regard.core.errors import LengthError, ShapeError
from regard.core.output import Output
from regard.layers.convolution import TemporalConvolutions
from regard.layers.image_convolution import PooledUnit
from regard.layers.joined_attention import JoinedAttention

_UNITS = 4


class SnailConfig(Config):
    head: Literal["classes", "policy"] = "classes"
    n_outputs: int = Field(gt=1, le=100_000, description="N: classes of an episode, or actions")
    seq_len: int = Field(gt=1, le=100_000, description="T: steps of an episode")
    blocks: tuple[tuple[int, ...], ...] = Field(
        ((64, 32), (128,), (256, 128), (128,), (512, 256)),
        description="(keys, values) of an attention block, (filters,) of convolutions",
    )
    d_model: int = Field(64, gt=0, description="of an image's embedding, or of a step after the first layer")
    image_size: int = Field(28, gt=0, le=4096, description="for classes")
    channels: Literal[1, 3] = Field(1, description="for classes")
    n_filters: int = Field(64, gt=0, description="of the embedding's convolutions, for classes")
    d_input: int = Field(1, gt=0, description="numbers of a step, for a policy")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.blocks or any(len(block) not in (1, 2) or min(block) < 1 for block in self.blocks):
            raise ValueError("a block is one number (filters) or two (keys and values), all positive")
        return self


SIZES: dict[str, dict[str, Any]] = {
    "few_shot": {"head": "classes"},
    "policy": {"head": "policy", "d_model": 32, "blocks": ((32,), (32,), (32, 32))},
}


class Snail(nn.Module):
    Config = SnailConfig
    SIZES = SIZES
    usual_method = "decisions"

    @staticmethod
    def task_of(config: SnailConfig) -> str:
        """The task of a loaded model."""
        return "few_shot" if config.head == "classes" else "policy"

    def __init__(self, config: SnailConfig) -> None:
        super().__init__()
        self.config = config
        policy, width = config.head == "policy", config.d_model
        self.first = nn.Linear(config.d_input, width) if policy else None
        self.embedding = None if policy else _Embedding(config)
        width += 0 if policy else config.n_outputs
        self.d_first = width
        self.blocks = nn.ModuleList()
        for number, sizes in enumerate(config.blocks):
            block = _block(width, sizes, config.seq_len)
            if isinstance(block, JoinedAttention):
                block.site = f"decoder.{number}.self"
            self.blocks.append(block)
            width = block.d_output
        self.output = nn.Linear(width, config.n_outputs)
        self.value = nn.Linear(width, 1) if policy else None
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        """A new policy gives all actions nearly equal probability and expects a return of 0, so that it explores."""
        if self.value is not None:
            self.output.weight.mul_(0.01)
            for part in (self.output.bias, self.value.weight, self.value.bias):
                nn.init.zeros_(part)

    def forward(
        self,
        images: Float[Tensor, "B I C height width"] | None = None,
        labels: Int[Tensor, "B S"] | None = None,
        *,
        steps: Float[Tensor, "B T D"] | None = None,
    ) -> Output:
        """Few-shot: logits [B,Q,N] of the I − S images that follow the S labelled ones. Policy: logits [B,T,A]."""
        if self.embedding is None:
            assert steps is not None, "a policy reads steps"
            hidden = self._read(self._first(steps))
            return self._decided(hidden)
        assert images is not None, "a few-shot learner reads images and labels"
        assert labels is not None, "a few-shot learner reads images and labels"
        embedded_BID, n_labels = self.embed(images), labels.shape[1]
        branches = images.shape[1] - n_labels
        if branches < 1:
            raise ShapeError("there is no image to classify", got=f"{images.shape[1]} images, {n_labels} labels")
        known = F.pad(F.one_hot(labels, self.config.n_outputs), (0, 0, 0, branches)).to(embedded_BID.dtype)
        hidden = self._read(torch.cat([embedded_BID, known], -1), branches)
        return Output(hidden, self.output(hidden[:, n_labels:]), pooled=embedded_BID)

    def embed(self, images: Float[Tensor, "B I C height width"]) -> Float[Tensor, "B I D"]:
        """The embeddings of images, all in one call."""
        assert self.embedding is not None
        embedded: Tensor = self.embedding(images.flatten(0, 1))
        return embedded.unflatten(0, images.shape[:2])

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Tensor | None:
        """The logits of the last step as if these were the last states; None if their width does not fit."""
        return self.output(hidden[:, -1]) if hidden.shape[-1] == self.output.in_features else None

    def _first(self, steps_BTD: Tensor) -> Tensor:
        assert self.first is not None
        if steps_BTD.shape[1] > self.config.seq_len:
            raise LengthError(
                "this episode is longer than the model can read",
                got=f"{steps_BTD.shape[1]} steps",
                expected=f"at most {self.config.seq_len}",
            )
        first: Tensor = self.first(steps_BTD.to(self.first.weight.dtype))
        return first

    def _read(self, x_BTD: Tensor, branches: int = 1) -> Float[Tensor, "B T D"]:
        x_BTD = taps.point("decoder.input", x_BTD)
        for number, block in enumerate(self.blocks):
            x_BTD = taps.point(f"decoder.{number}", block(x_BTD, branches))
        return x_BTD

    def _decided(self, hidden: Tensor) -> Output:
        assert self.value is not None
        return Output(hidden, self.output(hidden), values=self.value(hidden)[..., 0])

    # One step at a time, for acting

    def new_past(self, rows: int, *, steps: int | None = None) -> dict[str, Tensor]:
        """The memory of `advance` for `rows` episodes: the features of all steps, and keys and values of attention."""
        steps, empty = steps or self.config.seq_len, self.output.weight.new_empty
        readers = [block for block in self.blocks if isinstance(block, JoinedAttention)]
        memories = {str(number): empty(rows, steps, reader.d_key + reader.d_value)
                    for number, reader in enumerate(readers)}  # fmt: skip
        return {"features": empty(rows, steps, self.output.in_features), **memories}

    def advance(self, step_BD: Float[Tensor, "B D"], past: dict[str, Tensor], time: int) -> Output:
        """Logits [B,1,A] and values [B,1] at one step, given the steps before it; equal to `forward` up to rounding."""
        features, width, readers = past["features"], self.d_first, 0
        features[:, time, :width] = self._first(step_BD[:, None])[:, 0]
        for block in self.blocks:
            if isinstance(block, JoinedAttention):
                width, readers = block.fill(features, time, width, past[str(readers)]), readers + 1
            elif isinstance(block, TemporalConvolutions):
                width = block.fill(features, time, width)
        return self._decided(features[:, time : time + 1])


def _block(width: int, sizes: tuple[int, ...], seq_len: int) -> JoinedAttention | TemporalConvolutions:
    if len(sizes) == 2:
        return JoinedAttention(width, sizes[0], sizes[1])
    return TemporalConvolutions(width, seq_len, sizes[0])


class _Embedding(nn.Module):
    """Images [B,C,size,size] → [B,D]."""

    def __init__(self, config: SnailConfig) -> None:
        super().__init__()
        self.config, wide, side = config, config.n_filters, config.image_size
        self.units = nn.Sequential(*(PooledUnit(config.channels if not n else wide, wide) for n in range(_UNITS)))
        for _ in range(_UNITS):
            side = max(side // 2, 1)
        self.output = nn.Linear(wide * side**2, config.d_model)

    def forward(self, images_BCHW: Tensor) -> Float[Tensor, "B D"]:
        size, channels = self.config.image_size, self.config.channels
        if images_BCHW.shape[1:] != (channels, size, size):
            expected = f"{channels} × {size} × {size}"
            raise ShapeError("the images do not fit the model", got=list(images_BCHW.shape[1:]), expected=expected)
        # With the channels of a pixel adjacent in memory, pooling takes a tenth of its time on a CPU, and the whole
        # embedding little more than half (measured, 240 images in bfloat16, forward and backward).
        images_BCHW = images_BCHW.to(memory_format=torch.channels_last)
        embedded: Tensor = self.output(self.units(images_BCHW).flatten(1))
        return embedded
