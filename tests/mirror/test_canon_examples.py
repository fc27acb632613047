"""Worked examples of the lectures: a table as attention, earlier words only, simple positions, BERT's input."""

import pytest
import torch

import regard
from regard.attention.positions import make_position
from regard.attention.positions.sinusoidal import encode as sinusoidal
from regard.attention.positions.unit import encode as unit
from regard.data.text.formats.detect import read_tokenizer
from regard.data.text.rows import rows

PERSONS = ["005123174812", "015843268901", "005123174823"]
ROWS = [("Ali", "Ahmadi"), ("Mohammad Reza", "Ali Mohammadi"), ("Ashkan", "Mohammadi")]


def digits(prefix: str) -> torch.Tensor:
    """One-hot digits, position by position; what a query leaves open is zero."""
    vector = torch.zeros(12, 10)
    for place, digit in enumerate(prefix):
        vector[place, int(digit)] = 1
    return vector.flatten()


def select(prefix: str) -> tuple[list[tuple[str, str]], torch.Tensor]:
    """The rows whose key agrees with every digit of the query: those, and only those, share the weight."""
    keys, query = torch.stack([digits(key) for key in PERSONS]), 50 * digits(prefix)[None]
    context, weights = regard.attend(query, keys, torch.eye(3), score="dot")
    torch.testing.assert_close(context, weights)  # values that say which row they are
    return [row for row, weight in zip(ROWS, weights[0].tolist(), strict=True) if weight > 1e-6], weights[0]


def test_a_table_answers_queries_by_attention():
    equal, weights = select("015843268901")
    assert equal == [("Mohammad Reza", "Ali Mohammadi")]
    torch.testing.assert_close(weights, torch.tensor([0.0, 1.0, 0.0]))
    like, weights = select("00512317")
    assert like == [("Ali", "Ahmadi"), ("Ashkan", "Mohammadi")]
    torch.testing.assert_close(weights, torch.tensor([0.5, 0.0, 0.5]))


@pytest.mark.parametrize("n_queries", [1, 4, 300])
def test_a_word_attends_to_earlier_words_only(n_queries):
    x = torch.randn(1, 1, 300, 4, dtype=torch.float64, requires_grad=True)
    query = x[:, :, -n_queries:]
    strict = regard.causal(strict=True)
    context, weights = regard.attend(query, x, x, mask=strict)
    own = torch.arange(300 - n_queries, 300)
    assert (weights[0, 0] * (torch.arange(300) >= own[:, None])).abs().max() == 0
    if n_queries == 300:
        assert context[0, 0, 0].abs().max() == 0, "the first word has nothing to attend to"
        torch.testing.assert_close(weights[0, 0, 1:].sum(-1), torch.ones(299, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(context[..., -1, :].sum(), x)
    assert gradient.isfinite().all()
    dense = regard.attend(query, x, x, mask=regard.Mask(pairs=strict.dense(n_queries, 300)))
    torch.testing.assert_close(context, dense.context)


def table(scheme: str, length: int) -> torch.Tensor:
    """The encodings [T,D] of a sentence of this length."""
    places = torch.arange(length)
    if scheme == "unit":
        return unit(places, length)[:, None]
    return places[:, None].float() if scheme == "linear" else sinusoidal(places, 16)


@pytest.mark.parametrize(
    ("scheme", "unique", "consistent", "bounded"),
    [("unit", True, False, True), ("linear", True, True, False), ("sinusoidal", True, True, True)],
)
def test_the_criteria_of_positions(scheme, unique, consistent, bounded):
    short, long = table(scheme, 6), table(scheme, 2000)
    assert (torch.pdist(long[:200]).min() > 1e-6).item() == unique
    steps = [(rows[4] - rows[1]).norm().item() for rows in (short, long)]
    assert (steps[0] == pytest.approx(steps[1], rel=1e-6)) == consistent
    assert (long.abs().max() <= 1).item() == bounded
    assert torch.equal(table(scheme, 2000), long), "deterministic"


@pytest.mark.parametrize("name", ["linear", "unit"])
def test_the_schemes_add_these_numbers_along_a_direction(name):
    scheme = make_position(name, d_model=3, max_len=5)
    torch.nn.init.constant_(scheme.direction, 2.0)
    added = scheme.embed(torch.zeros(1, 5, 3), torch.arange(5))[0]
    numbers = torch.arange(5.0) if name == "linear" else torch.tensor([0, 0.25, 0.5, 0.75, 1])
    torch.testing.assert_close(added, 2 * numbers[:, None].expand(5, 3))


def test_the_input_of_bert(tmp_path, data):
    """[CLS] my dog is cute [SEP] he likes play ##ing [SEP]; BERT's own vocabulary keeps "playing" whole."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "my", "dog", "is", "cute", "he", "likes", "play", "##ing"]
    (tmp_path / "slide").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "slide" / "vocab.txt").write_text("\n".join(words) + "\n")
    (tmp_path / "real" / "vocab.txt").write_bytes((data / "vocab" / "bert-base-uncased-vocab.txt").read_bytes())
    expected = {
        "slide": ["[CLS]", "my", "dog", "is", "cute", "[SEP]", "he", "likes", "play", "##ing", "[SEP]"],
        "real": ["[CLS]", "my", "dog", "is", "cute", "[SEP]", "he", "likes", "playing", "[SEP]"],
    }
    for name, tokens in expected.items():
        tokenizer = read_tokenizer(tmp_path / name)
        ((ids, segments),) = rows(tokenizer, ["my dog is cute"], ["he likes playing"], 32)
        assert tokenizer.tokens(list(ids)) == tokens
        assert list(segments) == [0] * 6 + [1] * (len(tokens) - 6)
