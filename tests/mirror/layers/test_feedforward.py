"""The feed-forward network against its formulas, written out."""

import math

import pytest
import torch
from torch import Tensor

from regard.core.errors import UnknownName, UsageError
from regard.layers.feedforward import FeedForward


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


FORMULAS = {"relu": lambda x: x.clamp(min=0), "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", FORMULAS)
def test_plain_form(activation: str, bias: bool) -> None:
    torch.manual_seed(0)
    net, x = FeedForward(3, 7, activation=activation, bias=bias), 3 * torch.randn(2, 5, 3)
    wide = x @ net.up.weight.T + (net.up.bias if bias else 0.0)
    expected = FORMULAS[activation](wide) @ net.down.weight.T + (net.down.bias if bias else 0.0)
    torch.testing.assert_close(net(x), expected)
    assert {name.split(".")[0] for name, _ in net.named_parameters()} == {"up", "down"}


@pytest.mark.parametrize("bias", [True, False])
def test_gated_form(bias: bool) -> None:
    torch.manual_seed(0)
    net, x = FeedForward(3, 7, activation="swiglu", bias=bias), 3 * torch.randn(2, 5, 3)
    assert net.gate is not None
    gate, up = (x @ part.weight.T + (part.bias if bias else 0.0) for part in (net.gate, net.up))
    torch.testing.assert_close(net(x), (silu(gate) * up) @ net.down.weight.T + (net.down.bias if bias else 0.0))
    assert sum(p.numel() for p in net.parameters()) == 3 * 3 * 7 + (2 * 7 + 3) * bias


def test_the_two_gelus_differ() -> None:
    exact, near = FeedForward(4, 8, activation="gelu"), FeedForward(4, 8, activation="gelu_tanh")
    near.load_state_dict(exact.state_dict())
    x = 2 * torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    difference = (exact(x) - near(x)).abs().max().item()
    assert 1e-6 < difference < 1e-2


def test_positions_do_not_mix_and_any_leading_shape_runs() -> None:
    torch.manual_seed(0)
    net, x = FeedForward(4, 6, activation="swiglu"), torch.randn(2, 3, 4)
    torch.testing.assert_close(net(x)[1, 2], net(x[1, 2]))
    assert net(x[:, :0]).shape == (2, 0, 4)
    assert net(x[None]).shape == (1, 2, 3, 4)


@pytest.mark.parametrize("activation", [*FORMULAS, "swiglu"])
def test_gradients(activation: str) -> None:
    torch.manual_seed(0)
    net = FeedForward(3, 4, activation=activation).double()
    torch.autograd.gradcheck(net, torch.randn(2, 3, dtype=torch.double, requires_grad=True))


def test_dropout_acts_on_the_wide_layer_in_training_only() -> None:
    torch.manual_seed(0)
    net, x = FeedForward(4, 6, dropout=1.0), torch.randn(2, 3, 4)
    assert torch.equal(net(x), net.down.bias.expand(2, 3, 4)), "with everything dropped only the last bias is left"
    undropped = FeedForward(4, 6)
    undropped.load_state_dict(net.state_dict())
    assert torch.equal(net.eval()(x), undropped(x))


def test_bad_arguments() -> None:
    with pytest.raises(UnknownName, match=r"unknown activation: got 'geglu'.*quick_gelu, relu, silu, swiglu, tanh"):
        FeedForward(4, 8, activation="geglu")
    with pytest.raises(UsageError, match=r"dropout rate out of range: got 1\.5"):
        FeedForward(4, 8, dropout=1.5)(torch.zeros(1, 4))
