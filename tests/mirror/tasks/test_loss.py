"""The sliced cross-entropy against torch's own, in value and gradient."""

import pytest
import torch
from torch.nn import functional

from regard.tasks import loss as losses
from regard.tasks.loss import label_log_probs, linear_cross_entropy


@pytest.fixture(params=["compiled", "torch"])
def way(request, monkeypatch):
    """Both ways from logits to the gradient."""
    if request.param == "torch":
        monkeypatch.setattr(losses, "native_loss", lambda dtype, device: None)
    elif losses.native_loss(torch.float32, torch.device("cpu")) is None:
        pytest.skip("no C compiler")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("rows", [0, 1, 7, 50])
@pytest.mark.parametrize("size", [30, 200, 10**9])
def test_equals_torch(rows, smoothing, size, biased, monkeypatch):
    monkeypatch.setattr(losses, "SLICE", size)
    hidden, weight = torch.randn(rows, 6, requires_grad=True), torch.randn(11, 6, requires_grad=True)
    bias = torch.randn(11, requires_grad=True) if biased else None
    labels = torch.randint(11, (rows,))
    ours = linear_cross_entropy(hidden, weight, labels, bias=bias, smoothing=smoothing)
    logits = functional.linear(hidden, weight, bias)
    theirs = functional.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(ours, theirs)
    trained = [tensor for tensor in (hidden, weight, bias) if tensor is not None]
    for one, other in zip(*(torch.autograd.grad(loss * 0.3, trained) for loss in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_the_gradient_is_that_of_finite_differences():
    parts = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 3), (7, 3), (7,))]
    labels = torch.randint(7, (5,))

    def loss(hidden, weight, bias):
        return linear_cross_entropy(hidden, weight, labels, bias=bias, smoothing=0.1).double()

    # The sum is kept in float32, which bounds what differences can show.
    assert torch.autograd.gradcheck(loss, parts, eps=1e-3, atol=1e-2, rtol=1e-2)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_broken_logits_are_not_hidden(wrong, smoothing):
    hidden, weight = torch.ones(3, 1), torch.randn(40, 1, requires_grad=True)
    hidden[1] = wrong
    assert not linear_cross_entropy(hidden, weight, torch.tensor([0, 1, 2]), smoothing=smoothing).isfinite()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("label", [-100, -1, 11, 10**12])
def test_a_label_outside_the_vocabulary_is_refused(label):
    with pytest.raises((IndexError, RuntimeError)):
        linear_cross_entropy(torch.randn(2, 3), torch.randn(11, 3), torch.tensor([0, label]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab", [1, 15, 16, 1003])
def test_the_compiled_loop_gives_what_torch_gives(dtype, vocab):
    lose = losses.native_loss(dtype, torch.device("cpu"))
    if lose is None:
        pytest.skip("no C compiler")
    logits, labels, bias = 20 * torch.randn(33, vocab).to(dtype), torch.randint(vocab, (33,)), torch.randn(vocab)
    ours, theirs = logits.clone(), logits.float().clone()
    loss, expected = lose(ours, labels, 0.1, bias), losses._lose(theirs, labels, 0.1, bias)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(ours, theirs.to(dtype))
    alone = logits[5:6].clone()
    lose(alone, labels[5:6], 0.1, bias)
    assert torch.equal(alone, ours[5:6]), "a row does not depend on the others"


@pytest.mark.usefixtures("way")
def test_large_logits_do_not_overflow():
    hidden = torch.tensor([[1000.0], [-1000.0]], requires_grad=True)
    loss = linear_cross_entropy(hidden, torch.tensor([[1.0], [-1.0], [0.0]]), torch.tensor([0, 1]))
    assert loss.item() == 0.0


def test_log_probs():
    hidden, weight, labels = torch.randn(9, 6), torch.randn(11, 6), torch.randint(11, (9,))
    expected = torch.log_softmax(hidden @ weight.T, -1).gather(1, labels[:, None])[:, 0]
    torch.testing.assert_close(label_log_probs(hidden, weight, labels), expected)
    assert label_log_probs(hidden[:0], weight, labels[:0]).shape == (0,)
    bias = torch.randn(11)
    expected = torch.log_softmax(hidden @ weight.T + bias, -1).gather(1, labels[:, None])[:, 0]
    torch.testing.assert_close(label_log_probs(hidden, weight, labels, bias=bias), expected)


@pytest.mark.usefixtures("way")
def test_lower_precision_under_autocast_stays_close():
    hidden, weight, labels = torch.randn(40, 16), torch.randn(50, 16, requires_grad=True), torch.randint(50, (40,))
    exact = linear_cross_entropy(hidden, weight, labels, smoothing=0.1)
    with torch.autocast("cpu", torch.bfloat16):
        rough = linear_cross_entropy(hidden, weight, labels, smoothing=0.1)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=0.01, atol=0)
    one, other = (torch.autograd.grad(loss, weight)[0] for loss in (exact, rough))
    assert functional.cosine_similarity(one.flatten(), other.flatten(), dim=0) > 0.999
