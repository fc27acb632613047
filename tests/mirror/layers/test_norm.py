"""Norms against their formulas, and what tells layer norm from batch norm."""

import pytest
import torch
from torch import Tensor, nn

from regard.core.errors import ShapeError, UnknownName
from regard.layers.norm import BatchNorm, make_norm


def batch(*shape: int, seed: int = 0) -> Tensor:
    return 3.0 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) + 1.0


def with_random_affine(norm: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


def test_layer_is_the_formula() -> None:
    x, norm = batch(2, 3, 5), with_random_affine(make_norm("layer", 5, 1e-3))
    mean = x.sum(-1, keepdim=True) / 5
    variance = ((x - mean) ** 2).sum(-1, keepdim=True) / 5
    expected = (x - mean) / (variance + 1e-3).sqrt() * norm.weight + norm.bias
    torch.testing.assert_close(norm(x), expected)


def test_rms_is_the_formula() -> None:
    x, norm = batch(2, 3, 5), with_random_affine(make_norm("rms", 5))
    torch.testing.assert_close(norm(x), x / ((x**2).sum(-1, keepdim=True) / 5 + 1e-5).sqrt() * norm.weight)
    assert [name for name, _ in norm.named_parameters()] == ["weight"]


def test_batch_is_the_formula_over_batch_and_time() -> None:
    x, norm = batch(2, 3, 5), with_random_affine(make_norm("batch", 5))
    rows = x.reshape(6, 5)
    mean, variance = rows.mean(0), rows.var(0, unbiased=False)
    torch.testing.assert_close(norm(x), (x - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias)
    torch.testing.assert_close(norm.running_mean, 0.1 * mean)
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * rows.var(0))


def test_batch_evaluates_with_running_averages() -> None:
    x, norm = batch(4, 3, 2), make_norm("batch", 2)
    for _ in range(200):
        norm(x)
    norm.eval()
    rows = x.reshape(12, 2)
    torch.testing.assert_close(norm(x), (x - rows.mean(0)) / (rows.var(0) + 1e-5).sqrt(), rtol=1e-4, atol=1e-4)
    assert norm(x[:1, :1]).shape == (1, 1, 2), "one position is enough in evaluation"


def test_batch_takes_tensors_that_are_not_contiguous() -> None:
    x = batch(3, 2, 5).transpose(0, 1)
    torch.testing.assert_close(make_norm("batch", 5)(x), make_norm("batch", 5)(x.contiguous()))


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_layer_and_rms_are_alike_in_training_and_evaluation(name: str) -> None:
    x, norm = batch(4, 3, 8), make_norm(name, 8)
    assert torch.equal(norm.train()(x), norm.eval()(x))


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_layer_and_rms_do_not_depend_on_the_rest_of_the_batch(name: str) -> None:
    x, norm = batch(4, 3, 8), make_norm(name, 8)
    torch.testing.assert_close(norm(x)[:1], norm(x[:1]), rtol=0, atol=0)
    x_grad = x.clone().requires_grad_()
    norm(x_grad)[0, 0].pow(3).sum().backward()
    assert x_grad.grad is not None
    assert x_grad.grad[0, 0].abs().sum() > 0
    assert x_grad.grad[1:].abs().sum() == 0
    assert x_grad.grad[0, 1:].abs().sum() == 0


def test_batch_differs_between_training_and_evaluation() -> None:
    x, norm = batch(4, 3, 8), make_norm("batch", 8)
    assert not torch.allclose(norm.train()(x), norm.eval()(x), atol=0.1)


def test_batch_depends_on_the_rest_of_the_batch() -> None:
    x, norm = batch(4, 3, 8), make_norm("batch", 8)
    assert not torch.allclose(norm(x)[:1], norm(x[:1]), atol=0.1)


def test_none_changes_nothing() -> None:
    x = batch(2, 3, 5)
    assert torch.equal(make_norm("none", 5)(x), x)


def test_eps_is_used() -> None:
    zeros = torch.zeros(2, 2, 4)
    for name in ("layer", "rms", "batch"):
        assert make_norm(name, 4).eps == 1e-5
        assert make_norm(name, 4, 0.5).eps == 0.5
        assert torch.equal(make_norm(name, 4)(zeros), zeros), "no division by zero"


def test_unknown_name() -> None:
    with pytest.raises(UnknownName, match=r"unknown norm: got 'layr', expected one of batch, .*Did you mean 'layer'\?"):
        make_norm("layr", 4)


def test_batch_needs_two_positions_to_train() -> None:
    with pytest.raises(ShapeError, match=r"few positions: got 1, expected 2 or more.*norm 'layer'"):
        BatchNorm(4)(torch.zeros(1, 1, 4))
    assert BatchNorm(4)(torch.zeros(1, 2, 4)).shape == (1, 2, 4)
