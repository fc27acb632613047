"""Recurrent networks against their equations, looped over one row, one layer and one direction at a time."""

import pytest
import torch
from torch import Tensor

from regard.core.errors import ShapeError, UnknownName, UsageError
from regard.layers.recurrent import Recurrent

KINDS = ["elman", "gru", "lstm"]
MIXED = [4, 1, 7, 0, 3]


def gru(wx: Tensor, vh: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    (wr, wz, wn), (vr, vz, vn) = wx.chunk(3), vh.chunk(3)
    reset, stay = torch.sigmoid(wr + vr), torch.sigmoid(wz + vz)
    return stay * hidden + (1 - stay) * torch.tanh(wn + reset * vn), cell


def lstm(wx: Tensor, vh: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    write, forget, new, read = (wx + vh).chunk(4)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(write) * torch.tanh(new)
    return torch.sigmoid(read) * torch.tanh(cell), cell


EQUATIONS = {"elman": lambda wx, vh, hidden, cell: (torch.tanh(wx + vh), cell), "gru": gru, "lstm": lstm}


def by_hand(net: Recurrent, x_TD: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """One row, without padding, in plain loops; `state` [L, D]."""
    weights = dict(net.cells.named_parameters())
    suffixes = ("", "_reverse") if net.bidirectional else ("",)
    hiddens, cells = [], []
    for layer in range(net.n_states // len(suffixes)):
        halves = []
        for suffix in suffixes:
            w, v, b, c = (weights[f"{n}_l{layer}{suffix}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            hidden = state["hidden"][len(hiddens)]
            cell = state.get("cell", state["hidden"])[len(hiddens)]
            outputs = []
            for x in x_TD.flip(0) if suffix else x_TD:
                hidden, cell = EQUATIONS[net.kind](w @ x + b, v @ hidden + c, hidden, cell)
                outputs.append(hidden)
            halves.append(torch.stack(outputs[::-1] if suffix else outputs))
            hiddens.append(hidden)
            cells.append(cell)
        x_TD = torch.cat(halves, dim=-1)
    end = {"hidden": torch.stack(hiddens)}
    return x_TD, end | ({"cell": torch.stack(cells)} if net.kind == "lstm" else {})


def make(
    kind: str, *, n_layers: int = 2, bidirectional: bool = False, d_input: int = 3, d_hidden: int = 5
) -> Recurrent:
    torch.manual_seed(0)
    net = Recurrent(kind, d_input, d_hidden, n_layers=n_layers, bidirectional=bidirectional)
    for parameter in net.parameters():  # no zero biases, so that each has to be in its place
        torch.nn.init.normal_(parameter, std=0.7)
    return net


def random_state(net: Recurrent, batch: int) -> dict[str, Tensor]:
    return {name: torch.randn_like(zeros) for name, zeros in net.empty_state(batch).items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("n_layers", "time", "d_hidden"), [(1, 1, 5), (1, 6, 1), (3, 4, 5)])
def test_equations(kind: str, bidirectional: bool, n_layers: int, time: int, d_hidden: int) -> None:
    net = make(kind, n_layers=n_layers, bidirectional=bidirectional, d_hidden=d_hidden)
    x, start = torch.randn(2, time, 3), random_state(net, 2)
    out, end = net(x, state=start)
    assert out.shape == (2, time, net.d_output) == (2, time, d_hidden * (1 + bidirectional))
    for row in range(2):
        expected, expected_end = by_hand(net, x[row], {name: tensor[row] for name, tensor in start.items()})
        torch.testing.assert_close(out[row], expected)
        assert end.keys() == expected_end.keys()
        for name in end:
            assert end[name].shape == (2, n_layers * (1 + bidirectional), d_hidden)
            torch.testing.assert_close(end[name][row], expected_end[name])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_padding_changes_nothing(kind: str, bidirectional: bool, given: bool) -> None:
    net = make(kind, bidirectional=bidirectional)
    x, lengths = torch.randn(5, 9, 3), torch.tensor(MIXED, dtype=torch.int32)  # longer than the longest row: T is kept
    start = random_state(net, 5) if given else None
    out, end = net(x, lengths=lengths, state=start)
    assert out.shape == (5, 9, net.d_output)
    for row, length in enumerate(MIXED):
        before = {name: tensor[row] for name, tensor in (start or net.empty_state(5)).items()}
        alone, alone_end = by_hand(net, x[row, :length], before) if length else (out[row, :0], before)
        torch.testing.assert_close(out[row, :length], alone)
        assert out[row, length:].abs().sum() == 0
        for name in end:
            torch.testing.assert_close(end[name][row], alone_end[name])


@pytest.mark.parametrize("kind", KINDS)
def test_padding_may_hold_anything(kind: str) -> None:
    net, lengths = make(kind, bidirectional=True), torch.tensor(MIXED)
    x = torch.randn(5, 7, 3)
    beyond = torch.arange(7) >= lengths[:, None]
    clean, dirty = (x.masked_fill(beyond[..., None], fill).requires_grad_() for fill in (0.0, float("nan")))
    results = []
    for padded in (clean, dirty):
        net.zero_grad()
        out, end = net(padded, lengths=lengths)
        (out.pow(2).sum() + end["hidden"].pow(2).sum()).backward()
        results.append([out, *end.values(), padded.grad, *(p.grad.clone() for p in net.parameters())])
    for left, right in zip(*results, strict=True):
        assert torch.equal(left, right)
    assert clean.grad is not None
    assert clean.grad[beyond].abs().sum() == 0
    assert (clean.grad[~beyond].abs().sum(-1) > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_read(kind: str) -> None:
    net = make(kind, bidirectional=True)
    out, end = net(torch.randn(2, 3, 3), lengths=torch.zeros(2, dtype=torch.int64))
    torch.testing.assert_close((out, end), (torch.zeros(2, 3, 10), net.empty_state(2)))
    for batch, time in ((2, 0), (0, 3)):
        out, end = net(torch.randn(batch, time, 3))
        assert out.shape == (batch, time, 10)
        torch.testing.assert_close(end, net.empty_state(batch))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grad", [True, False])
def test_steps_equal_the_whole(kind: str, grad: bool) -> None:
    net, x = make(kind, n_layers=3), torch.randn(4, 11, 3)
    with torch.set_grad_enabled(grad):
        whole, end = net(x)
        state, outputs = net.empty_state(4), []
        for t in range(11):
            out, state = net.step(x[:, t], state)
            outputs.append(out)
    torch.testing.assert_close(torch.stack(outputs, 1), whole, rtol=0, atol=1e-6)
    torch.testing.assert_close(state, end, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_the_state_can_change_places(kind: str) -> None:
    net, x = make(kind), torch.randn(3, 4, 3)
    order = torch.tensor([2, 2, 0, 1])
    _, state = net(x)
    expected, _ = net.step(x[order, 0], {name: tensor[order] for name, tensor in state.items()})
    torch.testing.assert_close(expected, net.step(x[:, 0], state)[0][order])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind: str) -> None:
    net = make(kind, n_layers=1, bidirectional=True, d_input=2, d_hidden=2).double()
    x, lengths = torch.randn(3, 3, 2, dtype=torch.double, requires_grad=True), torch.tensor([3, 0, 2])
    torch.autograd.gradcheck(lambda x: (net(x, lengths=lengths)[0], *net(x, lengths=lengths)[1].values()), x)


@pytest.mark.parametrize(("kind", "n_gates"), [("elman", 1), ("gru", 3), ("lstm", 4)])
def test_start(kind: str, n_gates: int) -> None:
    net = Recurrent(kind, 30, 20, n_layers=2, bidirectional=True)
    for name, parameter in net.cells.named_parameters():
        gates = parameter.detach().chunk(n_gates)
        if name.startswith("weight_hh"):
            assert all(torch.allclose(gate @ gate.T, torch.eye(20), atol=1e-5) for gate in gates)
        elif name.startswith("weight_ih"):
            bound = (6 / (20 + parameter.shape[1])) ** 0.5
            assert all(0.9 * bound < gate.abs().max() <= bound for gate in gates)
        elif name.startswith("bias_ih"):
            both = parameter + net.cells.get_parameter(name.replace("ih", "hh"))
            values = [gate.unique().tolist() for gate in both.chunk(n_gates)]
            assert values == ([[0.0], [1.0], [0.0], [0.0]] if kind == "lstm" else [[0.0]] * n_gates)


def test_dropout_is_between_layers_and_in_training_only() -> None:
    x = torch.randn(2, 3, 4)
    single = Recurrent("gru", 4, 5, dropout=0.9)
    assert torch.equal(single(x)[0], single(x)[0])
    two = Recurrent("gru", 4, 5, n_layers=2, dropout=0.9)
    assert not torch.equal(two(x)[0], two(x)[0])
    two.eval()
    assert torch.equal(two(x)[0], two(x)[0])


def test_bad_arguments() -> None:
    with pytest.raises(UnknownName, match=r"unknown recurrent kind: got 'lstmn'.*Did you mean 'lstm'\?"):
        Recurrent("lstmn", 3, 5)
    net, x = Recurrent("lstm", 3, 5), torch.zeros(2, 4, 3)
    for wrong in ([5, 1], [1, -1]):
        with pytest.raises(ShapeError, match=r"lengths do not fit.*got \[.*expected 2 numbers from 0 to 4"):
            net(x, lengths=torch.tensor(wrong))
    with pytest.raises(ShapeError, match=r"state does not fit this lstm.*'hidden': \(3, 1, 5\).*empty_state\(batch\)"):
        net(x, state=net.empty_state(3))
    with pytest.raises(ShapeError, match=r"got \{'hidden': \(2, 1, 5\)\}, expected .*'cell'"):
        net(x, state={"hidden": torch.zeros(2, 1, 5)})
    both = Recurrent("gru", 3, 5, bidirectional=True)
    with pytest.raises(UsageError, match=r"bidirectional network cannot run step by step\. Its backward half"):
        both.step(x[:, 0], both.empty_state(2))
