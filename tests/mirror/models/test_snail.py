"""SNAIL: its sizes, causality, queries that do not see each other, steps one at a time, and files."""

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.core import weights
from regard.core.errors import ConfigError, LengthError, ShapeError
from regard.layers.convolution import CausalConvolution
from regard.layers.joined_attention import JoinedAttention
from regard.models import config_of, make_model

SHOTS = {"n_outputs": 3, "seq_len": 7, "image_size": 12, "n_filters": 6, "d_model": 8, "blocks": ((6, 5), (4,), (7, 6))}
POLICY = {"head": "policy", "n_outputs": 3, "seq_len": 11, "d_input": 6, "d_model": 5, "blocks": ((4,), (6, 7), (3,))}


def few_shot():
    torch.manual_seed(0)
    images = torch.randn(2, 8, 1, 12, 12)
    return make_model("snail", config_of("snail", SHOTS)).eval(), images, torch.randint(3, (2, 6))


def test_the_published_model_has_the_paper_s_widths():
    model = make_model("snail", config_of("snail", {"n_outputs": 5, "seq_len": 6}, size="few_shot"), empty=True)
    widths = [model.d_first, *(block.d_output for block in model.blocks)]
    assert widths == [69, 101, 101 + 3 * 128, 613, 613 + 3 * 128, 997 + 256]
    assert sum(parameter.numel() for parameter in model.parameters()) == 3_213_246


def test_each_query_is_answered_as_if_it_were_alone():
    model, images, labels = few_shot()
    with torch.no_grad():
        together = model(images, labels)
        alone = model(images[:, [*range(6), 7]], labels)
    assert together.logits.shape == (2, 2, 3)
    assert together.pooled.shape == (2, 8, 8)
    torch.testing.assert_close(together.logits[:, 1:], alone.logits, atol=1e-6, rtol=1e-5)


def test_a_label_matters_and_that_of_a_query_is_not_read():
    model, images, labels = few_shot()
    with torch.no_grad():
        before, after = model(images, labels).logits, model(images, (labels + 1) % 3).logits
    assert not torch.allclose(before, after)
    with pytest.raises(ShapeError, match="no image to classify"):
        model(images[:, :6], labels)
    with pytest.raises(ShapeError, match="the images do not fit the model"):
        model(images[..., :10, :10], labels)


def test_watching_and_storing_change_no_bit(tmp_path):
    model, images, labels = few_shot()
    with torch.no_grad(), regard.watch() as record:
        watched = model(images, labels).logits
    assert record.sites == ["decoder.0.self", "decoder.2.self"]
    seen = record["decoder.0.self"].weights
    assert seen.shape == (2, 1, 8, 8)
    assert not seen.triu(1).any(), "no step sees a later one"
    assert not seen[:, :, 7, 6].any(), "and no question another"
    weights.write(tmp_path / "model.safetensors", model.state_dict())
    back = make_model("snail", model.config, empty=True)
    weights.load_into(back, weights.aligned(weights.read_tensors(tmp_path / "model.safetensors")))
    with torch.no_grad():
        assert torch.equal(back.eval()(images, labels).logits, watched)


def test_one_step_at_a_time_equals_all_at_once():
    torch.manual_seed(1)
    model = make_model("snail", config_of("snail", POLICY))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    steps = torch.randn(3, 11, 6)
    with torch.no_grad():
        whole, past = model(steps=steps), model.new_past(3)
        for time in range(11):
            now = model.advance(steps[:, time], past, time)
            torch.testing.assert_close(now.logits[:, 0], whole.logits[:, time], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(now.values[:, 0], whole.values[:, time], atol=1e-5, rtol=1e-4)
    with pytest.raises(LengthError, match="got 12 steps, expected at most 11"):
        model(steps=torch.randn(1, 12, 6))


def test_a_new_policy_prefers_no_action():
    model = make_model("snail", config_of("snail", POLICY))
    with torch.no_grad():
        output = model(steps=torch.randn(4, 11, 6))
    assert output.logits.softmax(-1).sub(1 / 3).abs().max() < 0.02
    assert not output.values.any()


def test_products_are_the_convolution():
    torch.manual_seed(2)
    for kernel, dilation, steps in ((2, 1, 6), (2, 4, 6), (2, 8, 6), (3, 2, 9), (1, 1, 4)):
        layer, x = CausalConvolution(5, 4, kernel=kernel, dilation=dilation), torch.randn(3, steps, 5)
        padded = F.pad(x.transpose(1, 2), (layer.reach, 0))
        expected = layer.convolution(padded).transpose(1, 2)
        torch.testing.assert_close(layer(x), expected, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(layer.at(x, steps - 1), expected[:, -1], atol=1e-6, rtol=1e-5)
        branched = layer(torch.cat([x[:, :-1], x[:, 1:3], x[:, -1:]], 1), 3)
        torch.testing.assert_close(branched[:, [*range(steps - 1), -1]], expected, atol=1e-6, rtol=1e-5)


def test_attention_is_scaled_by_the_width_of_keys():
    torch.manual_seed(3)
    block, x = JoinedAttention(5, 4, 3), torch.randn(2, 6, 5)
    scores = (block.query(x) @ block.key(x).mT) / 2.0
    share = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf).softmax(-1)
    torch.testing.assert_close(block(x), torch.cat([x, share @ block.value(x)], -1), atol=1e-6, rtol=1e-5)


def test_blocks_that_are_none_are_refused():
    for blocks in ((), ((1, 2, 3),), ((0,),)):
        with pytest.raises(ConfigError, match="a block is one number"):
            config_of("snail", {**POLICY, "blocks": blocks})
