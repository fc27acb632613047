"""Token identifiability on hidden states that are made here, so that the answer is known."""

from types import SimpleNamespace

import pytest
import torch

import regard
from regard.core.errors import UnknownName, UsageError
from regard.data.text import make_tokenizer
from regard.explain.methods.identify import identify
from regard.explain.neighbours import DISTANCES, nearest
from regard.explain.sentences import divide
from regard.explain.shares import wilson
from regard.explain.traces import Trace
from regard.models import config_of, make_model
from regard.pipelines import make_pipeline
from regard.store import StoredModel

WIDTH, VOCABULARY, PADDED = 12, 40, 14


def made(through, sentences=60, seed=0, embedding=True, side="encoder", **more):
    """A trace whose hidden states are `through(layer, x)` of its inputs, in rows of unequal length."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(VOCABULARY, WIDTH, generator=generator)
    places = 0.5 * torch.randn(PADDED, WIDTH, generator=generator)
    ids = torch.randint(VOCABULARY, (sentences, PADDED), generator=generator)
    lengths = torch.randint(5, PADDED + 1, (sentences,), generator=generator).tolist()
    x = table[ids] + places
    hidden = {f"{side}.input": x, **{f"{side}.{layer}": through(layer, x) for layer in range(2)}}
    labels = [[f"w{i}" for i in row[:n]] for row, n in zip(ids.tolist(), lengths, strict=True)]
    subject = SimpleNamespace(token_embedding=table) if embedding else None
    trace = Trace("made", "masked_lm", {"input": labels}, hidden=hidden, ids={"input": ids}, subject=subject)
    return trace, lengths


def shares(result, **wanted):
    """Shares by layer of the one combination that is asked for."""
    rows = [row for row in result.data["shares"] if all(row[key] == value for key, value in wanted.items())]
    assert len({(row["among"], row["map"], row["distance"]) for row in rows}) == 1
    return [row["share"] for row in rows]


def turned(layer, x):
    """Each layer turns all vectors by a matrix of its own."""
    generator = torch.Generator().manual_seed(10 + layer)
    return x @ torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=generator)).Q


def bent(layer, x):
    """Invertible, and no straight way leads back: the sign of the first feature decides that of all others."""
    return torch.cat([x[..., :1], x[..., 1:] * torch.where(x[..., :1] > 0, 1.0, -1.0)], dim=-1)


def noise(layer, x):
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(99 + layer))


def test_a_turned_vector_is_led_back_by_a_linear_map():
    result = identify(made(turned)[0])
    assert shares(result, among="sequence", map="linear") == [1.0, 1.0]
    assert min(shares(result, among="vocabulary", map="linear")) > 0.9
    chance = result.data["chance"]
    assert max(shares(result, among="sequence", map="none")) < chance["sequence"] + 0.12
    assert max(shares(result, among="vocabulary", map="none")) < 0.12
    assert chance["vocabulary"] == 1 / VOCABULARY


def test_an_untouched_vector_needs_no_map():
    result = identify(made(lambda _, x: x)[0], map="none", distance="all")
    for by in DISTANCES:
        assert shares(result, among="sequence", distance=by) == [1.0, 1.0]


def test_an_mlp_undoes_what_a_linear_map_cannot():
    result = identify(made(bent, sentences=200)[0], map="all", among="sequence", layers="encoder.1", width=64)
    (linear,), (bending,) = (shares(result, map=kind) for kind in ("linear", "mlp"))
    assert bending > linear + 0.2
    assert bending > 0.9


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_noise_is_not_recovered(kind):
    result = identify(made(noise, sentences=100)[0], map=kind, epochs=10)
    chance = result.data["chance"]
    assert max(shares(result, among="sequence", map=kind)) < chance["sequence"] + 0.1
    assert max(shares(result, among="vocabulary", map=kind)) < chance["commonest token"] + 0.06


def test_no_sentence_is_on_both_sides():
    trace, _ = made(turned, sentences=40)
    parts = identify(trace, map="none").data["sentences"]
    rows = [set(parts[name]) for name in ("train", "held", "test")]
    assert set.union(*rows) == set(range(40))
    assert sum(map(len, rows)) == 40
    assert len(rows[2]) == 12


def test_equal_sentences_stay_together():
    sentences = [f"s{number % 10}" for number in range(50)]
    parts = divide(sentences, 0.3, seed=4)
    seen = [{sentences[row] for row in rows} for rows in (parts.train, parts.held, parts.test)]
    assert not (seen[0] & seen[1])
    assert not (seen[0] & seen[2])
    assert not (seen[1] & seen[2])
    assert len(parts.train) + len(parts.held) + len(parts.test) == 50


def test_what_is_remembered_of_single_sentences_does_not_count():
    """States that name their sentence and place but not their token: a split by token would recover them."""

    def by_sentence(layer, x):
        generator = torch.Generator().manual_seed(layer)
        return torch.randn(len(x), 1, WIDTH, generator=generator) + 0.01 * torch.randn(x.shape, generator=generator)

    result = identify(made(by_sentence)[0], map="linear", among="vocabulary")
    assert max(shares(result, map="linear")) < 0.12


def test_padding_never_counts():
    trace, lengths = made(turned)
    clean = identify(trace)
    for tensor in trace.hidden.values():
        for row, n in enumerate(lengths):
            tensor[row, n:] = float("nan")
    for row, n in enumerate(lengths):
        trace.ids["input"][row, n:] = VOCABULARY - 1
    spoilt = identify(trace)
    assert spoilt.data == clean.data
    assert clean.data["shares"][0]["tokens"] == sum(lengths[row] for row in clean.data["sentences"]["test"])


def test_the_seed_decides():
    trace, _ = made(bent)
    options = {"map": "mlp", "epochs": 5}
    torch.manual_seed(1)
    first = identify(trace, **options)
    torch.manual_seed(2)
    assert identify(trace, **options).data == first.data
    assert identify(trace, **options, seed=1).data["sentences"] != first.data["sentences"]


@pytest.mark.parametrize("by", DISTANCES)
def test_neighbours_are_those_of_a_plain_loop(by, monkeypatch):
    monkeypatch.setattr("regard.explain.neighbours._AT_ONCE", 100)  # several blocks
    x, candidates = 3 + torch.randn(23, 7), 3 + 2 * torch.randn(31, 7)

    def far(a, b):
        if by == "cosine":
            return 1 - float(a @ b / (a.norm() * b.norm()))
        return float((a - b).abs().sum() if by == "l1" else (a - b).square().sum())

    expected = [min(range(31), key=lambda j, row=row: far(row, candidates[j])) for row in x]
    assert nearest(x, candidates, by).tolist() == expected


def test_distances_differ_where_they_should():
    """Twice as long a vector has the same direction; L2 then prefers another."""
    candidates = torch.tensor([[1.0, 0.0], [3.0, 1.0]])
    x = torch.tensor([[4.0, 0.0]])
    assert [nearest(x, candidates, by).item() for by in ("cosine", "l2", "l1")] == [0, 1, 1]


def test_equal_vectors_at_two_places_are_not_a_mistake():
    trace, _ = made(lambda _, x: x)
    for tensor in trace.hidden.values():
        tensor[:, 1] = tensor[:, 0]
    assert shares(identify(trace, map="none", among="sequence")) == [1.0, 1.0]


def test_shares_have_intervals_and_curves():
    result = identify(made(bent)[0], distance="all")
    assert [panel.name for panel in result.panels][:2] == [
        "Own token nearest, within the sentence",
        "Own token nearest, within the vocabulary",
    ]
    assert set(result.panels[0].series) == {f"{kind}, {by}" for kind in ("no map", "linear") for by in DISTANCES}
    for row in result.data["shares"]:
        low, high = row["interval"]
        assert 0 <= low <= row["share"] <= high <= 1
        assert row["share"] == row["recovered"] / row["tokens"]
    assert any("Distances within the vocabulary, best first" in statement for statement in result.statements)
    assert any("commonest token" in statement for statement in result.statements)
    assert result.as_dict()["data"]["layers"] == ["encoder.0", "encoder.1"]


def test_wilson_by_known_values():
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)


def test_without_embeddings_tokens_are_looked_for_in_their_sentence():
    trace, _ = made(turned, embedding=False)
    result = identify(trace)
    assert {row["among"] for row in result.data["shares"]} == {"sequence"}
    assert any("no token embeddings" in statement for statement in result.statements)
    with pytest.raises(UsageError, match="no token embeddings.*among=sequence"):
        identify(trace, among="vocabulary")


def test_the_decoder_of_two_sides_reads_its_prefix():
    trace, lengths = made(turned, side="decoder")
    labels = trace.sides.pop("input")
    trace.sides.update(source=[["x"]] * len(labels), target=[["y"]] * len(labels), prefix=labels)
    trace.ids["prefix"] = trace.ids.pop("input")
    trace.axes["decoder.input"] = "prefix"
    result = identify(trace, layers="decoder")
    assert {row["among"] for row in result.data["shares"]} == {"sequence"}
    assert result.data["shares"][0]["tokens"] == sum(lengths[row] for row in result.data["sentences"]["test"])


def test_a_model_as_it_starts_keeps_its_tokens():
    """A real trace: at the start the residual stream is little changed, so that states are still the embeddings."""
    texts = [f"{n} crows sat on wall {n * n}" for n in range(12)]
    tokenizer = make_tokenizer("char", texts)
    sizes = {"d_model": 24, "n_layers": 2, "n_heads": 3, "max_len": 40, "vocab_size": tokenizer.vocab_size}
    config = config_of("gpt2", sizes)
    model = make_pipeline(
        StoredModel("language_model", "gpt2", config, make_model("gpt2", config), tokenizer, tokenizer)
    )
    trace = regard.trace(model, texts, weights=False)
    result = identify(trace, map="none")
    assert result.data["layers"] == ["decoder.0", "decoder.1"]
    assert result.data["shares"][0]["tokens"] == sum(len(texts[row]) for row in result.data["sentences"]["test"])
    assert min(shares(result, among="sequence")) > 0.9
    assert result.data["chance"]["vocabulary"] == 1 / tokenizer.vocab_size


def test_errors_are_one_line_with_a_remedy():
    few, trace = made(turned, sentences=3)[0], made(turned)[0]
    for given, options, error, words in [
        (few, {}, UsageError, "too few sentences.*3 different.*Give more texts"),
        (trace, {"map": "liner"}, UnknownName, "Did you mean 'linear'"),
        (trace, {"distance": "l3"}, UnknownName, "unknown distance"),
        (trace, {"among": "all"}, UnknownName, "both"),
        (trace, {"layers": "encoder.7"}, UnknownName, "encoder.0, encoder.1"),
        (trace, {"layers": "nowhere"}, UnknownName, "side or layer"),
        (trace, {"test_share": 1.0}, UsageError, "between 0 and 1"),
        (Trace("m", "t", {"input": [["a"]]}), {}, UsageError, "hidden=True"),
    ]:
        with pytest.raises(error, match=words) as caught:
            identify(given, **options)
        assert "\n" not in str(caught.value)
