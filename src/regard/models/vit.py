"""The Vision Transformer (Dosovitskiy et al. 2021): image patches are the tokens of a Transformer.

    x = [cls; W patch_1; …; W patch_P] + P        x ← x + attention(norm(x)),  x ← x + W₂ gelu(W₁ norm(x))
    logits = W norm(x)_cls

Positions are learned for one image size and interpolated (bicubic) over the grid of patches for other sizes. With
`distilled`, a second token after `cls` learns from a teacher (DeiT, Touvron et al. 2021), and the classifiers of both
tokens are averaged at inference. `n_labels` 0 is a bare encoder with `pooled` = tanh(W x_cls).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field as Bounded
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.core import taps
from regard.core.config import Config
from regard.core.conversion import ACTIVATIONS, Conversion, Field, FieldMap
from regard.core.errors import ConfigError
from regard.core.keymap import Drop, KeyMap, Rename
from regard.core.output import Output
from regard.layers.block import EncoderBlock, stack
from regard.layers.dropout import Dropout
from regard.layers.embedding import PatchEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.norm import make_norm
from regard.layers.residual import Residual


class VitConfig(Config):
    image_size: int = Bounded(224, gt=0)
    patch_size: int = Bounded(16, gt=0)
    channels: int = Bounded(3, gt=0)
    d_model: int = Bounded(768, gt=0)
    n_layers: int = Bounded(12, gt=0)
    n_heads: int = Bounded(12, gt=0)
    d_ff: int = Bounded(3072, gt=0)
    activation: str = "gelu"
    dropout: float = Bounded(0.0, ge=0, lt=1)
    attention_dropout: float = Bounded(0.0, ge=0, lt=1)
    bias: bool = Bounded(True, description="biases of query, key and value")
    eps: float = Bounded(1e-12, gt=0)
    n_labels: int = Bounded(0, ge=0, description="0: no classifier")
    distilled: bool = False
    teacher: bool = Bounded(False, description="the distillation token has a classifier of its own")


SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 192, "n_layers": 12, "n_heads": 3, "d_ff": 768},
    "small": {"d_model": 384, "n_layers": 12, "n_heads": 6, "d_ff": 1536},
    "base": {"d_model": 768, "n_layers": 12, "n_heads": 12, "d_ff": 3072},
    "large": {"d_model": 1024, "n_layers": 24, "n_heads": 16, "d_ff": 4096},
    "huge": {"d_model": 1280, "n_layers": 32, "n_heads": 16, "d_ff": 5120, "patch_size": 14},
}


class Vit(nn.Module):
    Config = VitConfig
    SIZES = SIZES
    conversion: Conversion

    @staticmethod
    def task_of(config: VitConfig) -> str:
        """The task of a loaded model."""
        return "image_classification"

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        self.config = config
        if config.teacher and not (config.distilled and config.n_labels):
            raise ConfigError("a teacher needs distilled: true and n_labels", got=f"n_labels {config.n_labels}")
        width = config.d_model
        self.patches = PatchEmbedding(config.image_size, config.patch_size, width, config.channels, any_size=True)
        self.n_special = 2 if config.distilled else 1
        self.special = nn.ParameterDict({name: torch.zeros(1, 1, width) for name in self._special_names()})
        self.position = nn.Parameter(torch.empty(1, self.n_special + self.patches.n_patches, width))
        self.dropout = Dropout(config.dropout)
        self.encoder = stack(self._block, config.n_layers)
        self.norm = make_norm("layer", width, config.eps)
        if config.n_labels:
            self.classifier = nn.Linear(width, config.n_labels)
        else:
            self.pooler = nn.Linear(width, width)
        if config.teacher:
            self.teacher_classifier = nn.Linear(width, config.n_labels)
        self._initialize()
        taps.name_sites(self)

    def forward(self, pixel_values: Float[Tensor, "B C height width"]) -> Output:
        """Logits of each image's classes."""
        hidden = self.states(pixel_values)
        if not self.config.n_labels:
            return Output(hidden, pooled=torch.tanh(self.pooler(hidden[:, 0])))
        return Output(hidden, self._classify(hidden), pooled=hidden[:, 0])

    def head_logits(self, hidden: Float[Tensor, "B P D"]) -> Float[Tensor, "B C"] | None:
        """The logits as if this were the output of the last block; None without a classifier."""
        return self._classify(self.norm(hidden)) if self.config.n_labels else None

    def _classify(self, hidden: Float[Tensor, "B P D"]) -> Float[Tensor, "B C"]:
        logits = self.classifier(hidden[:, 0])
        return (logits + self.teacher_classifier(hidden[:, 1])) / 2 if self.config.teacher else logits

    def states(self, pixel_values: Float[Tensor, "B C height width"]) -> Float[Tensor, "B P D"]:
        """The last layer's states: the special tokens, then the patches row by row."""
        patches_BPD = self.patches(pixel_values)
        first = [self.special[name].expand(len(patches_BPD), -1, -1) for name in self._special_names()]
        x = torch.cat([*first, patches_BPD], 1) + self.positions(*pixel_values.shape[2:])
        x = taps.point("encoder.input", self.dropout(x), "image")
        for block in self.encoder:
            x = block(x)
        return self.norm(x)

    def grid_of(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of patches for images of this size."""
        return height // self.config.patch_size, width // self.config.patch_size

    @property
    def n_patches(self) -> int:
        """The number of patches for images of the configured size."""
        return self.patches.n_patches

    def positions(self, height: int, width: int) -> Float[Tensor, "1 P D"]:
        """The learned positions, interpolated if the image has another size than in training."""
        grid = self.grid_of(height, width)
        if grid == self.patches.grid:
            return self.position
        special, patches_1PD = self.position[:, : self.n_special], self.position[:, self.n_special :]
        grid_1DHW = patches_1PD.unflatten(1, self.patches.grid).permute(0, 3, 1, 2)
        resized = F.interpolate(grid_1DHW, size=grid, mode="bicubic", align_corners=False)
        return torch.cat([special, resized.flatten(2).transpose(1, 2)], 1)

    def _special_names(self) -> list[str]:
        return ["cls", "distillation"][: self.n_special]

    def _block(self) -> EncoderBlock:
        config = self.config
        attention = MultiHead(config.d_model, config.n_heads, dropout=config.attention_dropout)
        attention.axes = taps.Axes("image", "image")
        if not config.bias:
            for part in (attention.query, attention.key, attention.value):
                part.register_parameter("bias", None)
        feedforward = FeedForward(config.d_model, config.d_ff, activation=config.activation)
        return EncoderBlock(attention, feedforward, self._residual)

    def _residual(self) -> Residual:
        config = self.config
        return Residual(make_norm("layer", config.d_model, config.eps), order="pre", dropout=config.dropout)

    def _initialize(self) -> None:
        for tensor in (self.position, *self.special.values()):
            nn.init.trunc_normal_(tensor, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


_FIELDS = FieldMap(
    [
        Field("image_size", "image_size", 224),
        Field("patch_size", "patch_size", 16),
        Field("channels", "num_channels", 3),
        Field("d_model", "hidden_size", 768),
        Field("n_layers", "num_hidden_layers", 12),
        Field("n_heads", "num_attention_heads", 12),
        Field("d_ff", "intermediate_size", 3072),
        Field("activation", "hidden_act", "gelu", ACTIVATIONS),
        Field("dropout", "hidden_dropout_prob", 0.0),
        Field("attention_dropout", "attention_probs_dropout_prob", 0.0),
        Field("bias", "qkv_bias", True),
        Field("eps", "layer_norm_eps", 1e-12),
    ],
    fixed={"pooler_act": "tanh"},
)


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
    return {**_FIELDS.to_ours(config), "distilled": config.get("model_type") == "deit"}


def _write(config: VitConfig) -> dict[str, Any]:
    return {
        **_FIELDS.to_theirs(config.model_dump()),
        "pooler_output_size": config.d_model,
        "model_type": "deit" if config.distilled else "vit",
    }


def _keys(config: VitConfig) -> KeyMap:
    name = "deit" if config.distilled else "vit"
    ours, theirs = "encoder.{i}.", f"{name}.encoder.layer.{{i}}."
    return KeyMap(
        [
            Rename("special.cls", f"{name}.embeddings.cls_token"),
            Rename("special.distillation", f"{name}.embeddings.distillation_token"),
            Rename("position", f"{name}.embeddings.position_embeddings"),
            Rename("patches.projection.{part}", f"{name}.embeddings.patch_embeddings.projection.{{part}}"),
            *(
                Rename(f"{ours}self.{part}.{{part}}", f"{theirs}attention.attention.{part}.{{part}}")
                for part in ("query", "key", "value")
            ),
            Rename(f"{ours}self.output.{{part}}", f"{theirs}attention.output.dense.{{part}}"),
            Rename(f"{ours}around_self.norm.{{part}}", f"{theirs}layernorm_before.{{part}}"),
            Rename(f"{ours}around_feedforward.norm.{{part}}", f"{theirs}layernorm_after.{{part}}"),
            Rename(f"{ours}feedforward.up.{{part}}", f"{theirs}intermediate.dense.{{part}}"),
            Rename(f"{ours}feedforward.down.{{part}}", f"{theirs}output.dense.{{part}}"),
            Rename("norm.{part}", f"{name}.layernorm.{{part}}"),
            Rename("pooler.{part}", f"{name}.pooler.dense.{{part}}"),
            Rename("classifier.{part}", "cls_classifier.{part}" if config.teacher else "classifier.{part}"),
            Rename("teacher_classifier.{part}", "distillation_classifier.{part}"),
            Drop(f"{name}.embeddings.mask_token"),
        ]
    )


Vit.conversion = Conversion(
    model_types=("vit", "deit"),
    prefix="{model_type}.",
    heads=(
        ("ViTModel", {"n_labels": 0, "distilled": False}),
        ("DeiTModel", {"n_labels": 0, "distilled": True}),
        ("DeiTForImageClassificationWithTeacher", {"teacher": True, "distilled": True}),
        ("ViTForImageClassification", {"distilled": False}),
        ("DeiTForImageClassification", {"distilled": True}),
    ),
    to_ours=_read,
    to_theirs=_write,
    keys=_keys,
    bare=("ViTModel", "DeiTModel"),
)
