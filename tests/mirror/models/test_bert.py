"""BERT's own options."""

import torch

from regard.attention.positions.sinusoidal import encode
from regard.models import config_of, make_model

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
