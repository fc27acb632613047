"""Blocks from injected parts: against torch's own Transformer layers, step by step, in both orders."""

import pytest
import torch
from torch import nn

import regard
from regard.attention import Mask, causal
from regard.attention.heads import MultiHead
from regard.attention.positions import make_position
from regard.core.errors import UnknownName
from regard.core.state import State
from regard.layers.block import DecoderBlock, EncoderBlock, stack
from regard.layers.feedforward import FeedForward
from regard.layers.norm import make_norm
from regard.layers.residual import Residual

D, H, FF = 16, 4, 32


def residual(order: str):
    return lambda: Residual(make_norm("layer", D), order=order)


def copy_attention(ours: MultiHead, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        for part, weight, bias in zip(
            (ours.query, ours.key, ours.value),
            theirs.in_proj_weight.chunk(3),
            theirs.in_proj_bias.chunk(3),
            strict=True,
        ):
            part.weight.copy_(weight)
            part.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


@pytest.mark.parametrize("order", ["pre", "post"])
def test_encoder_block_equals_torch(order):
    theirs = nn.TransformerEncoderLayer(D, H, FF, dropout=0.0, batch_first=True, norm_first=order == "pre")
    ours = EncoderBlock(MultiHead(D, H), FeedForward(D, FF), residual(order))
    copy_attention(ours.self, theirs.self_attn)
    ours.feedforward.up.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.down.load_state_dict(theirs.linear2.state_dict())
    x, real = torch.randn(2, 5, D), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    torch.testing.assert_close(ours(x, mask=Mask(keys=real)), theirs(x, src_key_padding_mask=~real))


@pytest.mark.parametrize("order", ["pre", "post"])
def test_decoder_block_equals_torch(order):
    theirs = nn.TransformerDecoderLayer(D, H, FF, dropout=0.0, batch_first=True, norm_first=order == "pre")
    ours = DecoderBlock(MultiHead(D, H), MultiHead(D, H), FeedForward(D, FF), residual(order))
    copy_attention(ours.self, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    ours.feedforward.up.load_state_dict(theirs.linear1.state_dict())
    ours.feedforward.down.load_state_dict(theirs.linear2.state_dict())
    x, memory = torch.randn(2, 5, D), torch.randn(2, 7, D)
    future = nn.Transformer.generate_square_subsequent_mask(5)
    expected = theirs(x, memory, tgt_mask=future, tgt_is_causal=True)
    torch.testing.assert_close(ours(x, ours.cross.prepare(memory), mask=causal()), expected)


@pytest.mark.parametrize("norm", ["layer", "rms", "none"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swiglu"])
def test_decoding_step_by_step_equals_all_at_once(norm, activation):
    def block() -> DecoderBlock:
        position = make_position("rotary", d_head=4)
        return DecoderBlock(
            MultiHead(D, H, n_kv_heads=2, position=position),
            MultiHead(D, H),
            FeedForward(D, FF, activation=activation),
            lambda: Residual(make_norm(norm, D)),
        )

    blocks = stack(block, 3).eval()
    x, memory, state = torch.randn(2, 6, D), torch.randn(2, 4, D), State(sources=2, paths=2)
    prepared = [block.cross.prepare(memory) for block in blocks]
    whole = x
    for block, keys_values in zip(blocks, prepared, strict=True):
        whole = block(whole, keys_values, mask=causal())
    steps = []
    with torch.no_grad():
        state.begin(torch.arange(2), torch.arange(2))
        for t in range(6):
            step, rows = x[:, t : t + 1], state.rows(torch.arange(2), torch.ones(2, dtype=torch.long), 1)
            for index, (block, keys_values) in enumerate(zip(blocks, prepared, strict=True)):
                step = block(step, keys_values, mask=causal(), rows=rows.sub(str(index)))
            rows.advance()
            steps.append(step)
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-5, rtol=0)


def test_layers_of_a_stack_start_apart():
    blocks = stack(lambda: EncoderBlock(MultiHead(D, H), FeedForward(D, FF), residual("pre")), 2)
    assert not torch.equal(blocks[0].self.query.weight, blocks[1].self.query.weight)


def test_any_f_can_be_wrapped():
    wrapped = Residual(make_norm("none", D))
    x = torch.randn(2, 3, D)
    torch.testing.assert_close(wrapped(x, lambda y: 2 * y), 3 * x)
    with pytest.raises(UnknownName, match="Did you mean 'post'"):
        Residual(make_norm("none", D), order="posst")
    bare = Residual(make_norm("none", D), order="none")
    torch.testing.assert_close(bare(x, lambda y: 2 * y), 2 * x)


def test_an_encoder_block_learns_to_find_the_b():
    """The lectures' point: whether there is a B among many A is lost in the average and easy for attention."""
    torch.manual_seed(0)
    embed, block, head = (
        nn.Embedding(2, D),
        EncoderBlock(MultiHead(D, H), FeedForward(D, FF), residual("pre")),
        nn.Linear(D, 1),
    )
    parameters = [*embed.parameters(), *block.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=3e-3)

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        has_b = torch.arange(32) % 2
        ids = torch.zeros(32, 60, dtype=torch.long)
        ids[torch.arange(32), torch.randint(60, (32,))] = has_b
        return ids, has_b.float()

    for _ in range(150):
        ids, has_b = batch()
        logits = head(block(embed(ids)).mean(1)).squeeze(1)
        optimiser.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(logits, has_b).backward()
        optimiser.step()
    ids, has_b = batch()
    with regard.watch() as record:
        correct = (head(block(embed(ids)).mean(1)).squeeze(1) > 0) == has_b.bool()
    assert correct.all()
    weights = record["attention"].weights[1::2].mean((1, 2))
    assert (weights.argmax(-1) == ids[1::2].argmax(-1)).float().mean() > 0.9, "the heads look at the B"
