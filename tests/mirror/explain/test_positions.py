"""Position vectors: sines as the paper has them, learned vectors as they are, and a refusal where there are none."""

import pytest
import torch
from tests.conformance.explained import made

from regard.attention.positions.sinusoidal import encode
from regard.core.errors import UsageError
from regard.explain import explain


def test_sines_of_a_translator():
    model, *_ = made("transformer")
    result = explain(model, method="positions", longest=20)
    expected = encode(torch.arange(20), model.model.config.d_model)
    torch.testing.assert_close(torch.tensor(result.data["vectors"], dtype=torch.float64), expected, atol=1e-6, rtol=0)
    assert result.panels[0].values == result.data["vectors"]
    near, far = result.data["by_distance"][0], result.data["by_distance"][-1]
    assert near[1] > far[1]
    assert "20 positions" in result.statements[0]


def test_learned_positions_end_where_the_model_ends():
    model, *_ = made("bert-none")
    result = explain(model, method="positions", longest=10_000)
    torch.testing.assert_close(torch.tensor(result.data["vectors"]), model.model.position.table.weight.detach())


def test_patches_that_know_their_grid_are_like_their_row_and_column():
    model, *_ = made("vit")
    rows, columns = model.model.patches.grid
    width = model.model.position.shape[-1]
    kept = model.model.position.detach().clone()
    across, down = torch.eye(width)[:columns], torch.eye(width)[columns : columns + rows]
    try:
        with torch.no_grad():
            grid = (down[:, None] + across[None]).flatten(0, 1)
            model.model.position[0, model.model.n_special :] = grid
        result = explain(model, method="positions")
    finally:
        with torch.no_grad():
            model.model.position.copy_(kept)
    assert result.data["grid"] == (rows, columns)
    assert "same row: 0.50, in the same column: 0.50, in neither: 0.00" in result.statements[1]
    centre = next(panel for panel in result.panels if "centre" in panel.name)
    assert centre.values[rows // 2][columns // 2] == pytest.approx(1)


@pytest.mark.parametrize("kind", ["llama", "seq2seq"])
def test_a_model_without_position_vectors_is_refused(kind):
    with pytest.raises(UsageError, match="adds no vectors for positions"):
        explain(made(kind)[0], method="positions")


def test_too_few_positions_are_refused():
    with pytest.raises(UsageError, match="too few positions"):
        explain(made("transformer")[0], method="positions", longest=2)
