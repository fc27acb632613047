"""BERT's own options."""

import pytest
import torch

from regard.attention.positions.sinusoidal import encode
from regard.core.errors import ConfigError
from regard.models import config_of, make_model
from regard.models.bert import Bert

TINY = {"vocab_size": 30, "max_len": 16, "d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 16}


def test_positions_may_begin_as_sinusoids_and_the_rest_begins_as_before():
    models = {}
    for begin in ("random", "sinusoidal"):
        torch.manual_seed(3)
        models[begin] = make_model("bert", config_of("bert", {**TINY, "first_positions": begin})).state_dict()
    unlike = [name for name, tensor in models["random"].items() if not torch.equal(tensor, models["sinusoidal"][name])]
    assert unlike == ["position.table.weight"]
    table = models["sinusoidal"]["position.table.weight"].double()
    torch.testing.assert_close(table / table[0, 1], encode(torch.arange(16), 8), atol=1e-6, rtol=1e-6)
    assert 0.5 < table.std() / models["random"]["position.table.weight"].std() < 2, "of the size of random positions"


@pytest.mark.parametrize("how", ["mean", "max"])
def test_a_classifier_may_read_all_states_and_never_the_padding(how: str):
    torch.manual_seed(0)
    model = make_model("bert", config_of("bert", {**TINY, "head": "classes", "class_pooling": how})).eval()
    ids, mask = torch.randint(3, 30, (2, 7)), torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]])
    with torch.no_grad():
        output = model(ids, mask)
        short = model(ids[1:, :3])
        states = short.hidden.mean(1) if how == "mean" else short.hidden.amax(1)
    assert not hasattr(model, "pooler"), "no matrix between the states and the classifier"
    torch.testing.assert_close(output.logits[1:], short.logits, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(short.logits, model.classifier(states), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(model.head_logits(short.hidden), short.logits, atol=1e-6, rtol=1e-6)


def test_no_other_library_has_a_classifier_over_all_states():
    config = config_of("bert", {**TINY, "head": "classes", "class_pooling": "mean"})
    with pytest.raises(ConfigError, match="class_pooling 'mean'"):
        Bert.conversion.to_theirs(config)
