"""Choosers against independent references, and hard attention learning by REINFORCE."""

import pytest
import torch

import regard
from regard.attention import make_chooser
from regard.attention.choosers._sampled import Sampled
from regard.attention.choosers.hard import Hard, MovingBaseline


def bisect(scores: torch.Tensor, weights_at) -> torch.Tensor:
    """The threshold at which the weights sum to one, by halving an interval: no sorting, no closed form."""
    low, high = scores.amax(-1, keepdim=True) - 1, scores.amax(-1, keepdim=True)
    for _ in range(60):
        middle = (low + high) / 2
        heavy = weights_at(scores - middle).sum(-1, keepdim=True) > 1
        low, high = torch.where(heavy, middle, low), torch.where(heavy, high, middle)
    return weights_at(scores - low)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("n_keys", [1, 2, 5, 64])
def test_sparse_choosers_match_bisection(n_keys, scale):
    scores = torch.randn(7, n_keys, dtype=torch.float64) * scale
    sparsemax = bisect(scores, lambda z: z.clamp_min(0))
    entmax = bisect(scores / 2, lambda z: z.clamp_min(0) ** 2)
    torch.testing.assert_close(make_chooser("sparsemax")(scores), sparsemax, atol=1e-9, rtol=0)
    torch.testing.assert_close(make_chooser("entmax15")(scores), entmax, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "entmax15"])
def test_gradients(name):
    scores = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(make_chooser(name), scores)


def test_equal_scores_share_equally():
    for name in ("softmax", "sparsemax", "entmax15"):
        torch.testing.assert_close(make_chooser(name)(torch.zeros(2, 4)), torch.full((2, 4), 0.25))


def test_sparse_choosers_give_exact_zeros():
    scores = torch.tensor([[5.0, 4.9, 0.0, -3.0]])
    assert make_chooser("sparsemax")(scores)[0, 2:].tolist() == [0.0, 0.0]
    assert make_chooser("entmax15")(scores)[0, 2:].tolist() == [0.0, 0.0]


def test_hard_takes_the_best_at_run_time_and_samples_in_training():
    scores = torch.tensor([1.0, 2.0, 0.5]).expand(20000, 3)
    assert Hard().eval()(scores).mean(0).tolist() == [0.0, 1.0, 0.0]
    sampled = Hard()(scores)
    assert (sampled.sum(-1) == 1).all()
    torch.testing.assert_close(sampled.mean(0), torch.softmax(scores[0], -1), atol=0.02, rtol=0)


def log_shares(scores: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """log softmax over the allowed keys, from the definition."""
    shares = torch.where(allowed, scores.double().exp(), 0.0)
    return (shares / shares.sum(-1, keepdim=True)).log()


@pytest.mark.parametrize("gain", [None, regard.Gaussian(1.0), torch.tensor([0.5, 2.0, 3.0, 0.1, 7.0])])
@pytest.mark.parametrize("masked", [False, True])
def test_log_prob_belongs_to_what_was_chosen(masked, gain):
    """A gain changes what the choice weighs, not how probable it was."""
    query, keys = torch.randn(4, 3, 6), torch.randn(4, 5, 6)
    allowed = (torch.rand(4, 3, 5) > 0.4) | (torch.arange(5) == 0) if masked else torch.ones(4, 3, 5, dtype=torch.bool)
    mask = allowed if masked else None
    attended = regard.attend(query, keys, keys, score="dot", chooser=Hard(), mask=mask, gain=gain)
    chosen = attended.weights.argmax(-1, keepdim=True)
    expected = log_shares(query @ keys.transpose(1, 2), allowed).gather(-1, chosen).squeeze(-1)
    torch.testing.assert_close(attended.log_prob, expected.float(), atol=1e-5, rtol=1e-5)
    assert (attended.log_prob < 0).any()
    assert regard.attend(query, keys, keys, chooser="hard", gain=gain).log_prob is None


def test_log_prob_is_how_often_a_key_is_drawn():
    scores = torch.tensor([1.0, 2.0, 0.5]).expand(40000, 3)
    weights = Hard()(scores)
    log_prob = Hard.log_prob(scores, weights)
    for key in range(3):
        drawn = weights[:, key] == 1
        assert log_prob[drawn].exp().mean().item() == pytest.approx(drawn.float().mean().item(), abs=0.01)


def test_hard_attention_learns_by_reinforce_to_find_the_marked_key():
    """Eight keys, one of them marked; the reward is 1 for choosing it. Nothing but REINFORCE moves the query."""
    query = torch.nn.Parameter(torch.randn(1, 1, 1, 8) * 0.1)
    chooser, baseline = Hard(), MovingBaseline()
    optimiser = torch.optim.Adam([query], lr=0.05)
    for _ in range(300):
        keys = torch.randn(32, 1, 8, 8)
        marked = torch.randint(8, (32,))
        keys[..., 0] = -1.0
        keys[torch.arange(32), 0, marked, 0] = 2.0
        attended = regard.attend(query.expand(32, 1, 1, 8), keys, keys, score="dot", chooser=chooser)
        reward = attended.weights[torch.arange(32), 0, 0, marked]
        optimiser.zero_grad()
        baseline(attended.log_prob.flatten(), reward).backward()
        optimiser.step()
    chosen = regard.attend(query.expand(32, 1, 1, 8), keys, keys, score="dot", chooser=chooser.eval()).weights
    assert chosen[torch.arange(32), 0, 0, marked].mean() > 0.95
    assert baseline.value > 0.8


def test_the_baseline_lowers_the_variance_without_moving_the_mean():
    scores = torch.zeros(1, 4, requires_grad=True)
    rewards = torch.tensor([10.0, 11.0, 10.0, 10.0])

    def estimates(baseline: float) -> torch.Tensor:
        grads = []
        for _ in range(800):
            weights = Hard()(scores)
            advantage = (weights * rewards).sum() - baseline
            grads.append(torch.autograd.grad(advantage * Hard.log_prob(scores, weights).sum(), scores)[0])
        return torch.cat(grads)

    plain, reduced = estimates(0.0), estimates(10.25)
    exact = torch.softmax(scores, -1)[0] * (rewards - 10.25)
    torch.testing.assert_close(reduced.mean(0), exact.detach(), atol=0.05, rtol=0)
    assert reduced.var(0).sum() < plain.var(0).sum() / 100


def test_a_share_of_rows_attends_softly_and_the_others_sample():
    scores, soft = torch.randn(6, 1, 2, 5), torch.tensor([True, False, True, False, False, True])
    chooser = Sampled(soft)
    weights = chooser(scores)
    torch.testing.assert_close(weights[soft], torch.softmax(scores[soft], -1))
    assert (weights[~soft].amax(-1) == 1).all()
    torch.testing.assert_close(chooser.entropy, torch.distributions.Categorical(logits=scores).entropy())
    log_prob = chooser.log_prob(scores, weights)
    assert (log_prob[soft] == 0).all()
    torch.testing.assert_close(log_prob[~soft], (scores.log_softmax(-1) * weights).sum(-1)[~soft])


def test_a_masked_key_leaves_the_entropy_and_its_gradient_finite():
    query, keys = torch.randn(2, 1, 3, 4, requires_grad=True), torch.randn(2, 1, 5, 4)
    allowed = torch.tensor([True, True, False, True, False])
    chooser = Sampled(torch.tensor([True, False]))
    regard.attend(query, keys, keys, score="dot", chooser=chooser, mask=allowed)
    alone = torch.distributions.Categorical(logits=(query @ keys.mT)[..., allowed]).entropy()
    torch.testing.assert_close(chooser.entropy, alone)
    chooser.entropy.sum().backward()
    assert query.grad.isfinite().all()
    assert query.grad.abs().sum() > 0
