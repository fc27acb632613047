"""Optimizers, and their state as named tensors that can be stored and restored bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from regard.core.errors import UnknownName, WeightsError
from regard.training.config import TrainingConfig


def make_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Weight decay applies to matrices, not to vectors (biases, norms). Fused kernels update all tensors at once.

    Each group has a factor of the schedule's learning rate (`lr_scale`).
    """
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    scales = _lr_scales(trained, config.lr_scales)
    groups = []
    for scale in dict.fromkeys([1.0, *scales.values()]):
        chosen = [parameter for name, parameter in trained.items() if scales[name] == scale]
        for decay, part in (
            (config.weight_decay, [p for p in chosen if p.dim() >= 2]),
            (0.0, [p for p in chosen if p.dim() < 2]),
        ):
            groups.append({"params": part, "weight_decay": decay, "lr_scale": scale})
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, fused=True)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=config.lr, betas=config.betas, eps=config.eps, fused=True)


def _lr_scales(names: Iterable[str], scales: Mapping[str, float]) -> dict[str, float]:
    """The factor of each parameter: that of the longest name in `scales` that is or contains the parameter, else 1."""
    result = dict.fromkeys(names, 1.0)
    unused = set(scales)
    for name in result:
        above = [part for part in scales if name == part or name.startswith(f"{part}.")]
        unused.difference_update(above)
        if above:
            result[name] = scales[max(above, key=len)]
    if unused:
        raise UnknownName("part of the model in training.lr_scales", min(unused), _parts(result))
    return result


def _parts(names: Iterable[str]) -> list[str]:
    """The names of all parameters, and of all modules that contain them."""
    return list(dict.fromkeys(name.rsplit(".", cut)[0] for name in names for cut in range(name.count("."), -1, -1)))


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
