"""HAN's learned query and Luong's predicted centre, by their equations."""

import torch

import regard
from regard.attention import Mask
from regard.attention.learned_query import LearnedQuery
from regard.attention.predicted_window import PredictedWindow


def test_learned_query_by_its_equations():
    pool, states = LearnedQuery(6, 4), torch.randn(2, 5, 6)
    real = torch.tensor([[True] * 5, [True, True, False, False, False]])
    with regard.watch() as record:
        attended = pool(states, mask=Mask(keys=real))
    u = torch.tanh(states @ pool.key.weight.T + pool.key.bias)
    alpha = torch.softmax((u @ pool.query[0]).masked_fill(~real, -torch.inf), -1)
    torch.testing.assert_close(attended.weights[:, 0, 0], alpha)
    torch.testing.assert_close(attended.context[:, 0, 0], (alpha[..., None] * states).sum(1))
    assert record["pooling"].weights.shape == (2, 1, 1, 5)


def test_several_queries_give_several_summaries():
    assert LearnedQuery(6, n_queries=3)(torch.randn(2, 5, 6)).context.shape == (2, 1, 3, 6)


def test_predicted_centres_lie_inside_each_row():
    centre = PredictedWindow(6, radius=4)
    lengths = torch.tensor([3, 50])
    mask, gain = centre(torch.randn(2, 1, 7, 6) * 30, lengths)
    assert mask.centre.shape == (2, 1, 7)
    assert (mask.centre >= 0).all()
    assert (mask.centre <= (lengths - 1)[:, None, None]).all()
    assert gain.sigma == 2.0
