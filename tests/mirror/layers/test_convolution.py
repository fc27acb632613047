"""Causal convolution against a loop over taps; what each output sees, by gradients."""

import pytest
import torch
from torch import Tensor, nn

from regard.core.errors import UsageError
from regard.layers.convolution import CausalConvolution, GatedCausalBlock, TemporalConvolutions


def seen(net: nn.Module, length: int, d_input: int, output: int) -> list[int]:
    """The inputs that the output at one step depends on."""
    x = torch.randn(1, length, d_input, requires_grad=True)
    (gradient,) = torch.autograd.grad(net(x)[0, output].sum(), x)
    return gradient[0].abs().sum(-1).nonzero().flatten().tolist()


def by_hand(net: CausalConvolution, x: Tensor, kernel: int, dilation: int) -> Tensor:
    rows = []
    for t in range(x.shape[1]):
        row = net.convolution.bias
        for j in range(kernel):
            if t - j * dilation >= 0:
                row = row + x[:, t - j * dilation] @ net.convolution.weight[:, :, kernel - 1 - j].T
        rows.append(row)
    return torch.stack(rows, dim=1)


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (2, 1), (2, 3), (3, 2), (5, 4)])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_causal_is_the_sum_over_taps(kernel: int, dilation: int, length: int) -> None:
    torch.manual_seed(0)
    net, x = CausalConvolution(3, 5, kernel=kernel, dilation=dilation), torch.randn(2, length, 3)
    assert net(x).shape == (2, length, net.d_output)
    torch.testing.assert_close(net(x), by_hand(net, x, kernel, dilation))


def test_causal_sees_its_taps_only() -> None:
    net = CausalConvolution(2, 3, kernel=3, dilation=2)
    assert seen(net, 9, 2, 7) == [3, 5, 7]
    assert seen(net, 9, 2, 1) == [1]


def test_causal_gradients() -> None:
    torch.manual_seed(0)
    net = CausalConvolution(2, 3, kernel=2, dilation=2).double()
    torch.autograd.gradcheck(net, torch.randn(2, 5, 2, dtype=torch.double, requires_grad=True))


def test_gated_block_keeps_the_input_and_adds_gated_features() -> None:
    torch.manual_seed(0)
    net, x = GatedCausalBlock(3, 4, dilation=2), torch.randn(2, 6, 3)
    features, gates = by_hand(net.feature, x, 2, 2), by_hand(net.gate, x, 2, 2)
    expected = torch.tanh(features) / (1 + torch.exp(-gates))
    out = net(x)
    assert out.shape == (2, 6, net.d_output) == (2, 6, 7)
    assert torch.equal(out[..., :3], x)
    torch.testing.assert_close(out[..., 3:], expected)


@pytest.mark.parametrize(("seq_len", "n_blocks"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (16, 4), (17, 5)])
def test_temporal_dilations_and_width(seq_len: int, n_blocks: int) -> None:
    net = TemporalConvolutions(3, seq_len, 2)
    assert [block.feature.convolution.dilation for block in net.blocks] == [(2**i,) for i in range(n_blocks)]
    assert net.d_output == 3 + 2 * n_blocks
    assert net(torch.randn(2, seq_len, 3)).shape == (2, seq_len, net.d_output)


@pytest.mark.parametrize("seq_len", [1, 2, 5, 8, 13])
def test_temporal_output_sees_all_the_past_and_no_future(seq_len: int) -> None:
    torch.manual_seed(0)
    net = TemporalConvolutions(3, seq_len, 2)
    for t in range(seq_len):
        assert seen(net, seq_len, 3, t) == list(range(t + 1))


def test_temporal_runs_on_other_lengths() -> None:
    torch.manual_seed(0)
    net = TemporalConvolutions(3, 4, 2)
    assert seen(net, 9, 3, 8) == [5, 6, 7, 8], "2² inputs, for two blocks"
    x = torch.randn(1, 6, 3)
    torch.testing.assert_close(net(x)[:, :2], net(x[:, :2]))


def test_bad_sizes() -> None:
    with pytest.raises(UsageError, match="kernel of a causal convolution is out of range: got 0, expected 1 or more"):
        CausalConvolution(2, 2, kernel=0)
    with pytest.raises(UsageError, match="dilation of a causal convolution is out of range: got 0"):
        GatedCausalBlock(2, 2, dilation=0)
    with pytest.raises(UsageError, match="sequence length is out of range: got 0"):
        TemporalConvolutions(2, 0, 2)
