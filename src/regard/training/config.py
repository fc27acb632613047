"""Training options and their defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from regard.core.config import Config

Share = Annotated[float, Field(ge=0, lt=1)]


class TrainingConfig(Config):
    seed: int = 1
    tokens_per_batch: int = Field(4096, gt=0, description="target tokens per batch at most, padding included")
    rows_per_batch: int | None = Field(None, gt=0, description="most examples per batch; not for parallel text")
    accumulate: int = Field(1, gt=0, description="batches whose gradients are summed into one update")
    max_steps: int | None = Field(None, gt=0)
    max_epochs: int | None = Field(None, gt=0)
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: float = Field(5e-4, gt=0)
    lr_scales: dict[str, Annotated[float, Field(ge=0)]] = Field(
        {}, description="factors of the learning rate by part of the model: {score: 0.1} slows down the part score"
    )
    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: float = Field(1e-9, gt=0)
    momentum: float = Field(0.0, ge=0, lt=1, description="for sgd")
    weight_decay: float = Field(0.0, ge=0)
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    warmup: int = Field(4000, ge=0)
    clip: float = Field(0.0, ge=0, description="largest gradient norm; 0: no limit")
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    r_drop: float = Field(
        0.0, ge=0, description="R-Drop: weight of the divergence between two passes with their own dropout; 0: one pass"
    )
    precision: Literal["float32", "bfloat16"] = "float32"
    recompute: bool = Field(
        False, description="blocks compute their activations again in the backward pass: less memory for long inputs"
    )
    ema: float = Field(0.0, ge=0, lt=1, description="decay of an exponential moving average of the weights; 0: none")
    average: int = Field(0, ge=0, description="average the weights of the last k (validated) checkpoints at the end")
    metric: str = Field("loss", description="the validation metric by which the best model is chosen")
    validate_every: int = Field(0, ge=0, description="updates between validations; 0: once per epoch")
    checkpoint_every: int = Field(1000, gt=0, description="updates between checkpoints, besides those at validations")
    patience: int = Field(0, ge=0, description="stop after this many validations without a new best; 0: never")
    log_every: int = Field(50, gt=0)
