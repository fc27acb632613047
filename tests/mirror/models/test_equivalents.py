"""Rewritten weights give the same distribution over the next token, to what double precision allows."""

import pytest
import torch

from regard.core import weights
from regard.models import _equivalents as equivalents
from regard.models import config_of, make_model

SIZES = {"source_vocab": 9, "target_vocab": 9, "d_model": 12, "n_heads": 3, "d_ff": 20, "n_encoder_layers": 2,
         "n_decoder_layers": 2}  # fmt: skip
SOURCE = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]])
TARGET = torch.tensor([[2, 8, 4], [2, 5, 6]])


def made(**options):
    torch.manual_seed(0)
    config = config_of("transformer", {**SIZES, **options})
    model = make_model("transformer", config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    tensors = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    if config.share == "all":
        del tensors["target_embedding.weight"]
    return config, model, tensors


def rebuilt(config, tensors, **changes):
    model = make_model("transformer", config.model_copy(update=changes)).double().eval()
    weights.load_into(model, tensors)
    return model


def log_probs(model, source=SOURCE, target=TARGET):
    with torch.no_grad():
        return model(source, SOURCE != 0, target).logits.log_softmax(-1)


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("share", ["all", "target", "none"])
def test_sines_first(order, share):
    config, model, tensors = made(order=order, share=share)
    again = rebuilt(config, equivalents.sines_first(tensors, 12), halves=True)
    torch.testing.assert_close(log_probs(again), log_probs(model), atol=1e-12, rtol=0)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("share", ["all", "target", "none"])
def test_zero_start(scale, share):
    config, model, tensors = made(share=share, scale=scale)
    again = rebuilt(config, equivalents.zero_start(tensors, config, 2))
    assert not again.target_embedding.weight[2].any()
    torch.testing.assert_close(log_probs(again), log_probs(model), atol=1e-12, rtol=0)


@pytest.mark.parametrize("share", ["all", "target", "none"])
@pytest.mark.parametrize("bias", [False, True])
def test_one_vocabulary(share, bias):
    config, model, tensors = made(share=share, output_bias=bias)
    order = [3, 1, 2, 0, 4, 5, 8, 7, 6]
    changed = equivalents.one_vocabulary(tensors, [*order, 1], [*order, None])
    again = rebuilt(config, changed, source_vocab=10, target_vocab=10, output_bias=True)
    place = torch.tensor([order.index(token) for token in range(9)])
    got = log_probs(again, place[SOURCE], place[TARGET])
    torch.testing.assert_close(got[..., place], log_probs(model), atol=1e-12, rtol=0)
    assert (got[..., 9].exp() == 0).all(), "what the target lacks is never written"
