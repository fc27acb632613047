import torch
from torch import nn

from regard.layers.lstm_cell import LstmCell


def test_it_is_torchs_lstm_with_the_inputs_in_two_parts():
    torch.manual_seed(0)
    cell, theirs = LstmCell(3, 4, 5), nn.LSTMCell(7, 5)
    with torch.no_grad():
        theirs.weight_ih.copy_(torch.cat([cell.input.weight, cell.rest.weight[:, :4]], 1))
        theirs.weight_hh.copy_(cell.rest.weight[:, 4:])
        theirs.bias_ih.copy_(cell.input.bias)
        theirs.bias_hh.zero_()
    x, z, hidden, memory = torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 5), torch.randn(2, 5)
    expected = theirs(torch.cat([x, z], 1), (hidden, memory))
    for ours, right in zip(cell(cell.prepare(x), z, hidden, memory), expected, strict=True):
        torch.testing.assert_close(ours, right, atol=1e-6, rtol=0)


def test_it_begins_by_remembering():
    bias = LstmCell(3, 4, 5).input.bias.detach().chunk(4)
    assert [float(gate.sum()) for gate in bias] == [0, 5, 0, 0]
