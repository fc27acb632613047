"""Loss by position past the trained length, on tiny random models of every position scheme."""

import math

import pytest
import torch

from regard.attention import positions
from regard.attention.positions import is_bounded
from regard.core import lookup
from regard.core.errors import DataError, UsageError
from regard.data.text import make_tokenizer
from regard.explain import language_models
from regard.explain.language_models import read_text, token_ids
from regard.explain.methods.lengths import compare, edges, lengths
from regard.models import config_of, make_model
from regard.pipelines import make_pipeline
from regard.store import StoredModel

SCHEMES = lookup.names(positions.__name__)
TRAINED, LONGEST = 8, 32
LINES = [f"{n} crows sat on wall number {n * n}, and {n + 1} flew away" for n in range(40)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("\n".join(LINES) + "\n")
    return file


def loaded(position="alibi", **extra):
    torch.manual_seed(0)
    tokenizer = make_tokenizer("char", ["\n".join(LINES) + "\n"])
    sizes = {"d_model": 16, "n_layers": 1, "n_heads": 2, "max_len": TRAINED, "position": position}
    config = config_of("gpt2", {**sizes, "vocab_size": tokenizer.vocab_size})
    model = make_model("gpt2", config).eval()
    return make_pipeline(StoredModel("language_model", "gpt2", config, model, tokenizer, tokenizer, extra=extra))


@pytest.mark.parametrize("position", SCHEMES)
def test_each_scheme_goes_as_far_as_it_can(position, path):
    result = lengths(loaded(position), text=str(path), longest=LONGEST, windows=6, points=8)
    (points,) = result.panels[0].series.values()
    (band,) = result.panels[0].bands.values()
    assert len(points) == len(band) == (2 if is_bounded(position) else 8)
    assert all(math.isfinite(y) and low <= y <= high for (_, y), (_, low, high) in zip(points, band, strict=True))
    assert points[0][0] == 2.5
    (facts,) = result.data["models"].values()
    assert len(facts["loss_by_position"]) == (TRAINED if is_bounded(position) else LONGEST)
    stopped = [statement for statement in result.statements if f"cannot read more than its {TRAINED}" in statement]
    assert len(stopped) == (is_bounded(position))
    assert result.panels[1].rows[0][0] == position
    assert (result.panels[1].rows[0][-1] is None) == (is_bounded(position))


@pytest.mark.parametrize("extra", [{}, {"begin": True, "tokens": {"bos": 1}}])
def test_loss_is_that_of_a_plain_computation(path, extra):
    model = loaded("rotary", **extra)
    facts = lengths(model, text=str(path), longest=20, windows=3, points=5).data["models"]["rotary"]
    ids, begin = token_ids(model, path.read_text()), [1] if extra else []
    size = 21 - len(begin)
    losses = []
    for start in (0, (len(ids) - size) // 2, 2 * ((len(ids) - size) // 2)):
        row = [*begin, *ids[start : start + size]]
        losses.append([])
        for t in range(20):
            with torch.no_grad():
                logs = model.model(torch.tensor([row[: t + 1]])).logits[0, -1].log_softmax(-1)
            losses[-1].append(-logs[row[t + 1]].item())
    by_position = torch.tensor(losses).mean(0)
    assert facts["loss_by_position"] == pytest.approx(by_position.tolist(), abs=1e-5)
    assert facts["buckets"] == [[1, 4], [5, 8], [9, 12], [13, 16], [17, 20]]
    assert facts["loss"] == pytest.approx(by_position.view(5, 4).mean(1).tolist(), abs=1e-5)
    error = torch.tensor(losses).view(3, 5, 4).mean(2).std(0) / math.sqrt(3)
    assert facts["standard_error"] == pytest.approx(error.tolist(), abs=1e-5)


def test_several_models_in_one_figure(path):
    models = {name: loaded(name) for name in ("learned", "alibi", "none")}
    result = compare(models, text=str(path), longest=LONGEST, windows=4, points=8)
    assert list(result.panels[0].series) == list(models)
    alone = lengths(models["alibi"], text=str(path), longest=LONGEST, windows=4, points=8)
    assert result.data["models"]["alibi"] == alone.data["models"]["alibi"]
    assert result.panels[1].columns == ["model", "1–4", "5–8", "9–16", "17–32"]
    assert sum("past the trained 8 tokens" in statement for statement in result.statements) == 2
    assert result.as_dict()["data"]["longest"] == LONGEST


def test_a_break_past_the_trained_length_is_seen(path):
    """A stand-in that knows nothing up to position 8, and after it is sure of what never comes."""
    model = loaded("alibi")

    class Broken(torch.nn.Module):
        config = model.config
        longest = None

        def forward(self, input_ids):
            logits = torch.zeros(*input_ids.shape, self.config.vocab_size)
            logits[:, TRAINED:, 0] = 5.0
            return type("Output", (), {"logits": logits})

    model.model = Broken()
    result = lengths(model, text=str(path), longest=LONGEST, windows=4)
    uniform = math.log(model.config.vocab_size)
    losses = result.data["models"]["alibi"]["loss_by_position"]
    assert losses[:TRAINED] == pytest.approx([uniform] * TRAINED, abs=1e-5)
    assert min(losses[TRAINED:]) > uniform + 0.5
    assert "loss rises past the trained 8 tokens" in result.statements[0]


def test_buckets_never_lie_across_the_trained_length():
    for trained, longest, points in [(64, 512, 32), (60, 500, 7), (60, 500, 12), (7, 100, 3), (256, 1000, 1000)]:
        buckets = edges(trained, longest, points, longest)
        assert [place for first, last in buckets for place in range(first, last + 1)] == list(range(1, longest + 1))
        assert any(last == trained for _, last in buckets)
        assert len(buckets) >= min(points, longest)
    assert edges(8, 32, 8, 6) == [(1, 4), (5, 6)]


def test_packed_text_is_read_like_plain_text(path, tmp_path):
    import gzip

    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(path.read_bytes().replace(b"\n", b"\r\n")))
    assert read_text(str(packed)) == read_text(str(path)) == path.read_text()
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"text\.txt\.gz is damaged or cut short"):
        read_text(str(packed))


def test_the_beginning_of_a_text_is_read_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.setattr(language_models, "LIMIT", 9)
    file = tmp_path / "text.txt"
    file.write_bytes("é\r\nb\rc\u2028".encode() + b"\xff" + b"d" * 20)
    assert read_text(str(file)) == "é\nb\rc\u2028\ufffdd"
    file.write_text(" \n")
    with pytest.raises(DataError, match="holds no text"):
        read_text(str(file))


def test_long_text_is_encoded_in_pieces_without_a_seam(path):
    model, text = loaded(), path.read_text() * 60
    assert len(text) > 100_000
    assert token_ids(model, text) == model.tokenizer.encode_batch([text])[0]


def test_errors_are_one_line_with_a_remedy(path, tmp_path):
    (tmp_path / "short.txt").write_text("1 crow")
    for options, error, words in [
        ({"text": str(tmp_path / "none.txt")}, DataError, "cannot be read"),
        ({"text": str(tmp_path)}, DataError, "cannot be read"),
        ({"text": str(tmp_path / "short.txt")}, UsageError, "too short"),
        ({"text": str(path), "windows": 0}, UsageError, "positive"),
    ]:
        with pytest.raises(error, match=words) as caught:
            lengths(loaded(), **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="needs a language model"):
        lengths(torch.nn.Linear(1, 1), text=str(path))
