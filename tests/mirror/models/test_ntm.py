"""The Neural Turing Machine by its equations, and what its sizes are."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.models import config_of, make_model

SIZES = {"d_input": 5, "d_output": 3, "d_controller": 7, "n_rows": 6, "d_row": 4}


def machine(**options):
    torch.manual_seed(2)
    model = make_model("ntm", config_of("ntm", {**SIZES, **options})).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def by_hand(model, x):
    """The paper's equations for one row and one head of each kind, with a loop over every row of the memory."""
    n, m, units = 6, 4, 7
    memory = torch.full((n, m), 1e-6, dtype=torch.double)
    hidden, cell = model.first_hidden
    read = torch.tanh(model.first_reads)
    before = torch.softmax(model.first_weights, -1)
    outputs = []
    for x_t in x:
        gates = model.controller_input(x_t) + model.controller.weight @ torch.cat([read, hidden])
        i, f, o = (torch.sigmoid(gates[k * units : (k + 1) * units]) for k in range(3))
        cell = f * cell + i * torch.tanh(gates[3 * units :])
        hidden = o * torch.tanh(cell)
        raw = model.heads(hidden)
        keys, add = torch.tanh(raw[: 2 * m]).view(2, m), torch.tanh(raw[2 * m : 3 * m])
        gate, erase = torch.sigmoid(raw[3 * m : 3 * m + 2]), torch.sigmoid(raw[3 * m + 2 : 4 * m + 2])
        positive = torch.log1p(torch.exp(raw[4 * m + 2 : 4 * m + 6]))
        shifts = torch.softmax(raw[4 * m + 6 :].view(2, 3), -1)
        now = []
        for head in range(2):
            strength, sharpen = positive[head], 1 + positive[2 + head]
            scores = [strength * keys[head] @ row / (keys[head].norm() * row.norm()) for row in memory]
            content = torch.softmax(torch.stack(scores), 0)
            gated = gate[head] * content + (1 - gate[head]) * before[head]
            shifted = torch.stack(
                [sum(gated[(place - s) % n] * shifts[head][s + 1] for s in (-1, 0, 1)) for place in range(n)]
            )
            now.append(shifted**sharpen / (shifted**sharpen).sum())
        before = torch.stack(now)
        memory = torch.stack([memory[i] * (1 - before[1][i] * erase) + before[1][i] * add for i in range(n)])
        read = sum(before[0][i] * memory[i] for i in range(n))
        outputs.append(model.output(torch.cat([hidden, read])))
    return torch.stack(outputs)


def test_the_equations_of_the_paper():
    model, x = machine(), (torch.rand(9, 5, generator=torch.Generator().manual_seed(1)) > 0.5).double()
    with torch.no_grad():
        expected = by_hand(model, x)
        # Inputs are bits, so the machine reads them in the precision of its weights.
        logits = model.double()(x[None].float().double()).logits[0]
    torch.testing.assert_close(logits, expected, atol=1e-10, rtol=1e-8)


def test_a_step_sees_nothing_after_it():
    model, x = machine(), torch.rand(2, 6, 5).double()
    changed = x.clone()
    changed[:, 4:] = 1 - changed[:, 4:]
    with torch.no_grad():
        before, after = model(x).logits, model(changed).logits
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_without_heads_it_is_the_plain_lstm():
    model, x = machine(n_reads=0, n_writes=0), torch.rand(2, 6, 5).double()
    cells = torch.nn.LSTM(5, 7, batch_first=True).double()
    # Torch's gates are i f g o, ours i f o g.
    order = torch.cat([torch.arange(14), torch.arange(21, 28), torch.arange(14, 21)])
    with torch.no_grad():
        cells.weight_ih_l0.copy_(model.controller_input.weight[order])
        cells.weight_hh_l0.copy_(model.controller.weight[order])
        cells.bias_ih_l0.copy_(model.controller_input.bias[order])
        cells.bias_hh_l0.zero_()
        hidden, cell = (part.expand(1, 2, -1).contiguous() for part in model.first_hidden)
        expected = model.output(cells(x, (hidden, cell))[0])
        torch.testing.assert_close(model(x).logits, expected)


@pytest.mark.parametrize(("size", "parameters"), [("lstm", 63_136), ("feedforward", 13_636)])
def test_named_sizes(size, parameters):
    """The paper prints 67,561 and 17,162 (not checked); it does not say how its heads are parametrised."""
    model = make_model("ntm", config_of("ntm", {"d_input": 10, "d_output": 8}, size=size), empty=True)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize("options", [{"n_reads": 0}, {"n_writes": 0}, {"reach": 3}, {"start": 0.0}])
def test_machines_that_cannot_be(options):
    with pytest.raises(ConfigError):
        machine(**options)
