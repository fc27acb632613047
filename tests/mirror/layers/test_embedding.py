"""Embeddings against indexing and loops; the tied output shares its weight through everything that moves weights."""

import copy

import pytest
import torch
from torch import nn

from regard.core.errors import ShapeError
from regard.layers.embedding import PatchEmbedding, SegmentEmbedding, TiedOutput, TokenEmbedding


class Tied(nn.Module):
    """The smallest language model: a word predicts the next."""

    def __init__(self, *, bias: bool = False) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(7, 4, padding=0)
        self.output = TiedOutput(self.embedding, bias=bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.output(self.embedding(ids))


@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (2, 0), (2, 3, 2)])
def test_token_rows(shape: tuple[int, ...]) -> None:
    embedding, ids = TokenEmbedding(7, 4), torch.randint(0, 7, shape)
    assert torch.equal(embedding(ids), embedding.weight[ids])


def test_token_scale() -> None:
    plain, scaled = TokenEmbedding(7, 9), TokenEmbedding(7, 9, scale=True)
    scaled.load_state_dict(plain.state_dict())
    ids = torch.arange(7, dtype=torch.int32)
    torch.testing.assert_close(scaled(ids), 3 * plain(ids))


def test_token_start() -> None:
    torch.manual_seed(0)
    embedding = TokenEmbedding(2000, 64, padding=3)
    assert embedding.weight[3].abs().sum() == 0
    assert embedding.weight.std().item() == pytest.approx(1 / 8, rel=0.02)
    assert embedding.weight.mean().abs().item() < 1e-3


def test_padding_gets_no_gradient() -> None:
    embedding = TokenEmbedding(5, 4, padding=0)
    embedding(torch.tensor([[1, 0, 1]])).sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad[:, 0].tolist() == [0, 2, 0, 0, 0]


@pytest.mark.parametrize("wrong", [7, -1])
def test_token_out_of_range(wrong: int) -> None:
    text = rf"token id is out of range: got {wrong}, expected 0 to 6, for a table of 7\. Use the model's own tokenizer"
    with pytest.raises(ShapeError, match=text):
        TokenEmbedding(7, 4)(torch.tensor([[0, 6], [wrong, 1]]))


@pytest.mark.parametrize("padding", [7, -1])
def test_padding_out_of_range(padding: int) -> None:
    with pytest.raises(ShapeError, match=f"padding id is out of range: got {padding}, expected 0 to 6"):
        TokenEmbedding(7, 4, padding=padding)


def test_segments() -> None:
    embedding, segments = SegmentEmbedding(2, 4), torch.tensor([[0, 0, 1]])
    assert torch.equal(embedding(segments), embedding.weight[segments])
    with pytest.raises(ShapeError, match="segment is out of range: got 2, expected 0 to 1"):
        embedding(segments + 1)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [6, (4, 6), (2, 2)])
def test_patches_are_cut_row_by_row(size: int | tuple[int, int], channels: int) -> None:
    torch.manual_seed(0)
    height, width = (size, size) if isinstance(size, int) else size
    embedding, image = PatchEmbedding(size, 2, 5, channels), torch.randn(3, channels, height, width)
    nn.init.normal_(embedding.projection.bias)
    matrix = embedding.projection.weight.reshape(5, -1)
    expected = [
        image[:, :, top : top + 2, left : left + 2].reshape(3, -1) @ matrix.T + embedding.projection.bias
        for top in range(0, height, 2)
        for left in range(0, width, 2)
    ]
    torch.testing.assert_close(embedding(image), torch.stack(expected, dim=1))
    assert embedding.n_patches == len(expected)
    assert embedding.grid == (height // 2, width // 2)


def test_patches_keep_the_variance_of_the_pixels() -> None:
    torch.manual_seed(0)
    assert PatchEmbedding(32, 8, 64)(torch.randn(8, 3, 32, 32)).std().item() == pytest.approx(1.0, rel=0.05)


def test_patches_that_do_not_fit() -> None:
    text = r"got 30x17 pixels and patches of 16x16.*multiples.*Try an image of 32x32 pixels"
    with pytest.raises(ShapeError, match=text):
        PatchEmbedding((30, 17), 16, 8)
    with pytest.raises(ShapeError, match=r"got \(1, 4, 6\), expected channels, height, width \(3, 4, 6\)\. Resize"):
        PatchEmbedding((4, 6), 2, 8)(torch.zeros(1, 1, 4, 6))


@pytest.mark.parametrize("bias", [True, False])
def test_tied_output(bias: bool) -> None:
    model, x = Tied(bias=bias), torch.randn(2, 3, 4)
    if model.output.bias is not None:
        nn.init.normal_(model.output.bias)
    expected = x @ model.embedding.weight.T + (0.0 if model.output.bias is None else model.output.bias)
    torch.testing.assert_close(model.output(x), expected)
    torch.testing.assert_close(model.output(x[0, 0]), expected[0, 0])


def test_tied_output_owns_no_second_weight() -> None:
    assert list(Tied().state_dict()) == ["embedding.weight"]
    assert [name for name, _ in Tied(bias=True).named_parameters()] == ["embedding.weight", "output.bias"]


def test_tied_output_ignores_the_scale() -> None:
    embedding, x = TokenEmbedding(7, 4, scale=True), torch.randn(2, 4)
    torch.testing.assert_close(TiedOutput(embedding)(x), x @ embedding.weight.T)


def test_gradient_comes_from_both_ends() -> None:
    torch.manual_seed(0)
    model, ids = Tied(), torch.tensor([[1, 2]])
    model(ids).pow(2).sum().backward()
    weight = model.embedding.weight.detach().clone().requires_grad_()
    (weight[ids] @ weight.T).pow(2).sum().backward()
    assert model.embedding.weight.grad is not None
    torch.testing.assert_close(model.embedding.weight.grad, weight.grad)


def test_tie_survives_copies_conversions_and_replacement() -> None:
    model, ids = Tied(), torch.tensor([[1, 2]])
    other = copy.deepcopy(model).double()
    torch.testing.assert_close(other(ids), model(ids).double())
    nn.init.zeros_(other.embedding.weight)
    assert other(ids).abs().sum() == 0
    assert model(ids).abs().sum() > 0
    model.embedding.weight = nn.Parameter(torch.ones(9, 4))
    assert model(ids).tolist() == [[[4.0] * 9] * 2]
