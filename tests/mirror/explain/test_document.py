"""A document with its sentences' weights in the margin, for a network over sentences of words."""

import html
import io
import json

import pytest
import torch
from rich.console import Console
from tests.conformance.explained import LINES, made
from tests.system.small_models import stored

import regard
from regard.core.errors import RegardError, UsageError
from regard.data.text import make_tokenizer
from regard.explain import find_method, method_names
from regard.pipelines import make_pipeline
from regard.views.terminal import panels_for_terminal

TEXT = "the cat sat on the mat . a dog ran ! the house"


@pytest.fixture(scope="module")
def model():
    tokenizer = make_tokenizer("word", [*LINES, ". !"], vocab_size=80)
    sizes = {"vocab_size": tokenizer.vocab_size, "d_embedding": 8, "d_hidden": 5, "n_labels": 3}
    return make_pipeline(stored("han", "classification", sizes, {"labels": ["x", "y", "z"]}, tokenizer))


def printed(result):
    file = io.StringIO()
    console = Console(width=100, file=file)
    for part in panels_for_terminal(result, 100):
        console.print(part)
    return file.getvalue()


def test_weights_are_those_of_the_sites(model):
    trace = regard.trace(model, TEXT)
    result = regard.explain.document(trace)
    sentences = result.data["sentences"]
    assert [" ".join(sentence["words"]) for sentence in sentences] == [
        "the cat sat on the mat .", "a dog ran !", "the house",
    ]  # fmt: skip
    assert sum(sentence["weight"] for sentence in sentences) == pytest.approx(1, abs=1e-5)
    for number, sentence in enumerate(sentences):
        assert sum(sentence["weights"]) == pytest.approx(1, abs=1e-5)
        expected = trace["word_attention"].weights[number, 0, 0, : len(sentence["words"])]
        torch.testing.assert_close(torch.tensor(sentence["weights"]), expected)
    panel = result.panels[0]
    assert panel.margin == [sentence["weight"] for sentence in sentences]
    scaled = [w * sentences[1]["weight"] ** 0.5 for w in sentences[1]["weights"]]
    assert panel.values[1] == pytest.approx(scaled)
    assert regard.explain.document(trace, plain=True).panels[0].values[1] == pytest.approx(sentences[1]["weights"])


def test_in_the_terminal_and_in_files(model, tmp_path):
    result = model.explain(TEXT, method="document")
    text = printed(result)
    weights = [sentence["weight"] for sentence in result.data["sentences"]]
    line = next(line for line in text.splitlines() if line.strip().endswith("a dog ran !"))
    assert f"{weights[1]:.3g}" in line.split("a dog")[0]
    for suffix in ("html", "svg", "png", "json"):
        result.save(tmp_path / f"doc.{suffix}")
    svg = (tmp_path / "doc.svg").read_text()
    assert svg.count(">dog<") == 1
    assert f">{weights[1]:.3f}<" in svg
    page = html.unescape((tmp_path / "doc.html").read_text())
    assert "drawDocument" in page
    assert json.loads((tmp_path / "doc.json").read_text())["panels"][0]["kind"] == "document"


def test_a_row_of_a_stored_batch(model, tmp_path):
    trace = regard.trace(model, ["the cat", TEXT])
    trace.save(tmp_path / "x.trace")
    back = regard.Trace.load(tmp_path / "x.trace")
    assert len(regard.explain.document(back, row=1).data["sentences"]) == 3
    assert len(regard.explain.document(back, row=0).data["sentences"]) == 1


def test_other_models_are_refused_in_a_line():
    other, text, _ = made("lstmn-classes")
    with pytest.raises(UsageError, match="looks at sentences and at the words of each: got an lstmn") as caught:
        other.explain(text, method="document")
    assert "\n" not in str(caught.value)


def test_every_method_takes_a_document_of_several_sentences_or_says_why_not(model, tmp_path):
    applied = set()
    for name in method_names():
        method = find_method(name)
        if method.looks_at != "trace":
            continue
        options = {key: value for key, value in {"probes": 2, "steps": 2}.items() if key in method.options}
        try:
            result = model.explain([TEXT, "the cat . a dog"], method=name, row=1, **options)
        except RegardError as error:
            if "\n" in str(error):
                raise
            continue
        assert result.panels
        result.save(tmp_path / f"{name}.json")
        applied.add(name)
    assert {"document", "maps", "effective", "overview", "ablate", "words", "attribute", "gradients", "lens"} <= applied


def test_one_word_has_nothing_to_look_back_at():
    for name in ("lstmn", "lstmn-classes"):
        with pytest.raises(UsageError, match="too short to look back in: got one token"):
            made(name)[0].explain("the")


def test_a_window_of_keys_stands_where_it_belongs():
    """With a span of 3, the fourth looker-back sees entries 1 to 3, and no weight lands elsewhere."""
    model, text, target = made("lstmn")
    trace = regard.trace(model, text, target, value_path=True)
    site, n = trace["decoder.0.tape"], len(trace.labels("earlier"))
    heads = trace.heads("decoder.0.tape")[0]
    assert n > 4
    assert heads.shape == (n, n)
    for query in range(n):
        seen = torch.zeros(n, dtype=torch.bool)
        seen[max(0, query - 2) : query + 1] = True
        assert not heads[query, ~seen].any()
        assert (heads[query, seen] > 0).all()
        assert torch.equal(site.allowed[0, 0, query], seen)
        assert not site.path[0, 0, query, ~seen].any()
