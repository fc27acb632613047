"""What a model adds to the loss of translation: sampled attention learns by REINFORCE."""

import pytest
import torch

from regard.core.batch import Batch
from regard.models.seq2seq import Seq2seq, Seq2seqConfig
from regard.tasks.translation import Translation

OPTIONS = {"source_vocab": 11, "target_vocab": 11, "d_embedding": 8, "d_hidden": 8, "chooser": "hard", "dropout": 0.0}


def pairs(padding: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(3)
    source, target = (torch.randint(3, 11, (4, 6), generator=generator) for _ in range(2))
    real = torch.ones(4, 6, dtype=torch.bool)
    empty = torch.zeros(4, padding, dtype=torch.long)
    long, kept = torch.cat([target, empty], 1), torch.cat([real, empty.bool()], 1)
    return Batch({"source": source, "source_mask": real, "target": long, "target_mask": kept})


@pytest.mark.parametrize("attention", [{"attention": "bahdanau"}, {"attention": "luong", "input_feeding": False}])
def test_all_sentences_soft_is_softmax_with_the_entropy_beside_it(attention):
    torch.manual_seed(1)
    hard = Seq2seq(Seq2seqConfig(**OPTIONS, **attention, expected=1.0, entropy=0.5))
    soft = Seq2seq(Seq2seqConfig(**{**OPTIONS, "chooser": "softmax"}, **attention))
    soft.load_state_dict(hard.state_dict(), strict=False)
    batch = pairs()
    output = hard(batch["source"], batch["source_mask"], batch["target"][:, :-1])
    extra = Translation().loss(hard, batch) - Translation().loss(soft, batch)
    torch.testing.assert_close(extra, output.penalty.sum())
    assert -0.5 * 20 * torch.log(torch.tensor(6.0)) < extra < 0
    hard.eval()
    chosen = hard(batch["source"], batch["source_mask"], batch["target"][:, :-1])
    assert chosen.log_prob is None
    assert chosen.penalty is None


def test_padding_adds_nothing_to_the_loss_of_choices():
    torch.manual_seed(1)
    model = Seq2seq(Seq2seqConfig(**OPTIONS, attention="bahdanau", expected=1.0, entropy=0.5))
    torch.testing.assert_close(Translation().loss(model, pairs()), Translation().loss(model, pairs(padding=3)))


def test_the_score_learns_from_sampled_sentences_by_their_reward():
    torch.manual_seed(1)
    model = Seq2seq(Seq2seqConfig(**OPTIONS, attention="bahdanau", expected=0.0, entropy=0.0))
    for reward, moves in ((0.0, False), (0.5, True)):
        model.reward = reward
        model.zero_grad()
        Translation().loss(model, pairs()).backward()
        moved = max(part.grad.abs().max() for part in model.score.parameters())
        assert bool(moved > 0) is moves
