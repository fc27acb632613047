"""Parameter groups: what decays, and learning rates by part of the model."""

import pytest
import torch
from torch import nn

from regard.core.errors import UnknownName
from regard.training.config import TrainingConfig
from regard.training.optim import make_optimizer


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.ModuleDict({"inner": nn.Linear(2, 2), "outer": nn.Linear(2, 2)})
        self.scored = nn.Linear(2, 2)


def scales_by_name(model, **scales):
    optimizer = make_optimizer(model, TrainingConfig(max_steps=1, weight_decay=0.1, lr_scales=scales))
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = [(names[id(p)], group) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(name for name, _ in groups) == sorted(names.values()), "each parameter once"
    assert all(group["weight_decay"] == (0.1 if name.endswith("weight") else 0.0) for name, group in groups)
    return {name: group["lr_scale"] for name, group in groups}


def test_the_longest_name_above_a_parameter_decides():
    scales = scales_by_name(Model(), score=0.5, **{"score.inner": 0.25, "score.inner.bias": 0.0})
    assert scales["score.inner.weight"] == 0.25
    assert scales["score.inner.bias"] == 0.0
    assert scales["score.outer.weight"] == scales["score.outer.bias"] == 0.5
    assert scales["scored.weight"] == 1.0, "a name that only begins alike is another part"


def test_without_scales_there_are_two_groups_as_before():
    optimizer = make_optimizer(Model(), TrainingConfig(max_steps=1, weight_decay=0.1))
    assert [(len(group["params"]), group["weight_decay"]) for group in optimizer.param_groups] == [(3, 0.1), (3, 0.0)]


def test_a_part_that_the_model_lacks_is_named_with_what_is_near():
    with pytest.raises(UnknownName, match=r"lr_scales.*'scor'.*score"):
        make_optimizer(Model(), TrainingConfig(max_steps=1, lr_scales={"scor": 0.1}))


def test_the_first_update_of_adam_is_as_much_smaller():
    """Adam's first step has the size of the learning rate, so the factor can be read off."""
    model = Model()
    optimizer = make_optimizer(model, TrainingConfig(max_steps=1, lr=0.1, lr_scales={"scored": 0.125}))
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * group["lr_scale"]
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    moved = {name: (before[name] - parameter).mean().item() for name, parameter in model.named_parameters()}
    assert moved["score.inner.bias"] == pytest.approx(0.1, rel=1e-4)
    assert moved["scored.bias"] == pytest.approx(0.0125, rel=1e-4)
