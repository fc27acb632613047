"""Optimizers, and their state as named tensors that can be stored and restored bit for bit."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.core.errors import WeightsError
from regard.training.config import TrainingConfig


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Weight decay applies to matrices, not to vectors (biases, norms). Fused kernels update all tensors at once."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, fused=True)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def state_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """`exp_avg/encoder.0.self.query.weight` and so on."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{kind}/{names[id(parameter)]}": value
        for parameter, state in optimizer.state.items()
        for kind, value in state.items()
        if isinstance(value, Tensor)
    }


def restore_state(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    for name, tensor in tensors.items():
        kind, _, parameter = name.partition("/")
        if parameter not in parameters:
            raise WeightsError(f"the checkpoint's optimizer has a parameter {parameter!r} that the model lacks")
        optimizer.state[parameters[parameter]][kind] = tensor.clone()
