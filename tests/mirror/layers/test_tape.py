"""The LSTM with a tape beside its equations, written out step by step."""

import pytest
import torch

from regard.layers.tape import TapeLstm
from regard.models import config_of, make_model

D = 5


def make(span, asked=None):
    torch.manual_seed(0)
    return TapeLstm(3, D, span=span, d_attention=asked).double()


def by_hand(layer, x, span):
    """Cheng et al., equations 3 to 8, for one row [T,D]."""
    w_x, w_i, w_f, w_o, w_c = layer.input.weight.split([layer.d_attention, D, D, D, D])
    b_x, b_i, b_f, b_o, b_c = layer.input.bias.split([layer.d_attention, D, D, D, D])
    u_q, u_i, u_f, u_o, u_c = layer.read.weight.split([layer.d_attention, D, D, D, D])
    hidden, cell, read = [], [], torch.zeros(D, dtype=x.dtype)
    for x_t in x:
        h_past, c_past = hidden[-span:], cell[-span:]
        if h_past:
            a = torch.stack(
                [layer.score.v @ torch.tanh(layer.key.weight @ h + w_x @ x_t + b_x + u_q @ read) for h in h_past]
            )
            s = torch.softmax(a, 0)
            read, c_read = s @ torch.stack(h_past), s @ torch.stack(c_past)
        else:
            read = c_read = torch.zeros(D, dtype=x.dtype)
        i, f, o = (torch.sigmoid(w @ x_t + b + u @ read) for w, b, u in
                   ((w_i, b_i, u_i), (w_f, b_f, u_f), (w_o, b_o, u_o)))  # fmt: skip
        cell.append(f * c_read + i * torch.tanh(w_c @ x_t + b_c + u_c @ read))
        hidden.append(o * torch.tanh(cell[-1]))
    return torch.stack(hidden), torch.stack(cell), read


@pytest.mark.parametrize("asked", [None, 2])
@pytest.mark.parametrize("span", [1, 3, 20])
def test_as_in_the_paper(span, asked):
    layer, x = make(span, asked), torch.randn(2, 9, 3, dtype=torch.double)
    hidden, state = layer(x)
    for row in range(2):
        h, c, read = by_hand(layer, x[row], span)
        torch.testing.assert_close(hidden[row], h)
        torch.testing.assert_close(state["hidden"][row], h[-span:])
        torch.testing.assert_close(state["cell"][row], c[-span:])
        torch.testing.assert_close(state["read"][row, 0], read)


@pytest.mark.parametrize("span", [1, 3, 20])
@pytest.mark.parametrize("cut", [0, 1, 4, 9])
def test_it_goes_on_where_it_was(span, cut):
    layer, x = make(span), torch.randn(2, 9, 3, dtype=torch.double)
    whole, end = layer(x)
    first, state = layer(x[:, :cut])
    second, last = layer(x[:, cut:], state=state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    for name, part in end.items():
        torch.testing.assert_close(last[name], part)


def test_gradients_are_those_of_the_equations():
    layer, x = make(3), torch.randn(1, 6, 3, dtype=torch.double)
    layer(x)[0].square().sum().backward()
    ours = {name: parameter.grad.clone() for name, parameter in layer.named_parameters()}
    layer.zero_grad()
    by_hand(layer, x[0], 3)[0].square().sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, ours[name])


def test_the_tape_never_grows_past_its_span():
    layer = make(4)
    _, state = layer(torch.randn(2, 100, 3, dtype=torch.double))
    assert state["hidden"].shape == state["cell"].shape == (2, 4, D)


def test_paths_of_unlike_lengths_step_together():
    torch.manual_seed(0)
    model = make_model("lstmn", config_of("lstmn", {"vocab_size": 30, "d_embedding": 6, "d_hidden": 5, "span": 3}))
    ids, paths = torch.randint(1, 30, (2, 9)), torch.tensor([0, 2])
    with torch.no_grad():
        whole, state = model.eval()(ids).logits, model.new_state(sources=2, paths=3, capacity=2)
        at = [0, 0]
        for counts in ([4, 2], [1, 3], [3, 3], [1, 1]):
            tokens = torch.stack([torch.nn.functional.pad(row[a:], (0, 9))[: max(counts)]
                                  for row, a in zip(ids, at, strict=True)])  # fmt: skip
            logits = model.step(tokens, torch.tensor(counts), paths, state)
            at = [a + n for a, n in zip(at, counts, strict=True)]
            expected = torch.stack([whole[0, at[0] - 1], whole[1, at[1] - 1]])
            torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    held = sum(cell.buffer.numel() for cell in state._of_paths.values())
    assert held == 3 * 5 * (3 + 3 + 1), "the memory does not grow with the text"
