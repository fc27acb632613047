"""`regard explain` as a user meets it: the terminal, files, traces, and everything that can be given wrongly."""

import io
import json
import struct
import sys
from pathlib import Path

import pytest
import torch
from tests.conformance.explained import made
from tests.system.small_models import fails, run

import regard
from regard import store
from regard.core import weights

TEXT, TARGET = "the cat sat on the mat", "a dog ran"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """`models(name)`: the folder of one of the small models of every kind."""
    root = tmp_path_factory.mktemp("models")

    def path(name):
        if not (root / name).exists():
            store.save_model(root / name, made(name)[0].stored)
        return root / name

    return path


@pytest.fixture
def translator(models):
    return models("transformer")


@pytest.fixture
def image(tmp_path):
    made("vit")[1].save(tmp_path / "x.png")
    return tmp_path / "x.png"


@pytest.fixture
def trace(translator, tmp_path, capsys):
    path = tmp_path / "x.trace"
    assert run(capsys, "explain", translator, TEXT, TARGET, "--out", path)[0] == 0
    return path


def told(capsys, *words):
    """What a call prints; it must go well and say nothing else."""
    code, out, err = run(capsys, "explain", *words)
    assert (code, err) == (0, "")
    return out


def as_json(capsys, *words):
    return json.loads(told(capsys, "--json", *words))


def test_the_terminal_names_the_tokens_the_answer_and_the_heads(translator, capsys):
    text = told(capsys, translator, TEXT, TARGET)
    assert "Attention of transformer: the cat sat on the mat\n" in text
    assert f"• The target: {TARGET}" in text
    assert "18 heads in 6 sites" in text
    assert "decoder.*.cross, mean of 6 heads" in text
    assert "\x1b[" not in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_wide_terminal_is_used_and_colours_only_where_they_are_wanted(translator, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert "\x1b[" in told(capsys, translator, TEXT)
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    text = told(capsys, translator, TEXT)
    assert "\x1b[" not in text
    assert max(len(line) for line in text.splitlines()) > 80


@pytest.mark.parametrize("order", [
    ["{model}", TEXT, "--method", "attribute", "--probes", "2"],
    ["{model}", TEXT, "--method=attribute", "--probes=2"],
    ["--method", "attribute", "--probes", "2", "{model}", TEXT],
    ["{model}", "--probes", "2", TEXT, "--method", "attribute"],
    ["{model}", "--method", "attribute", "--probes=2", "--", TEXT],
])  # fmt: skip
def test_options_and_texts_in_any_order(translator, order, capsys):
    found = as_json(capsys, *[word.format(model=translator) for word in order])
    assert found["method"] == "attribute"
    assert found["data"]["how"] == "probes"


def test_a_value_with_spaces_and_a_text_with_a_dash(models, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("the cat sat on the mat 7 " * 40)
    options = ["--text", tmp_path / "text.txt", "--canary", "the mat 7", "--prompts", "2", "--length", "4"]
    found = as_json(capsys, models("gpt2"), "--method", "memorised", *options)
    assert found["data"]["exposure"]["canary"] == "the mat 7"
    assert as_json(capsys, models("gpt2"), "--", "-the cat")["heads"]


def test_json_has_the_numbers(models, capsys):
    found = as_json(capsys, models("bert-classes"), TEXT, "--method", "attribute", "--how", "integrated")
    assert abs(found["data"]["completeness_error"]) < 0.05
    assert found["statements"][0].startswith("The answer is '")
    assert found["panels"][0]["labels"][0] == "[CLS]"


def test_an_input_of_the_other_side(translator, capsys):
    """`--inputs` is an option of a method and the name of what a model reads."""
    options = ["--method", "attribute", "--probes", "2", "--inputs", "encoder.input"]
    (panel,) = as_json(capsys, translator, TEXT, TARGET, *options)["panels"]
    assert panel["columns"] == [*TEXT.split(), "</s>"]
    assert panel["rows"][0] == "<s>"


@pytest.mark.parametrize("suffix", ["html", "svg", "png", "json"])
def test_files_of_every_kind(translator, suffix, tmp_path, capsys):
    path = tmp_path / f"x.{suffix}"
    assert told(capsys, translator, TEXT, TARGET, "--out", path).strip() == str(path)
    content = path.read_bytes()
    assert content.startswith({"html": b"<!doctype html>", "svg": b"<?xml", "png": b"\x89PNG", "json": b"{"}[suffix])
    if suffix == "html":  # a page shows everything there is
        assert b'"kinds":["raw","effective","attribution"]' in content


def test_lines_of_a_file_and_of_standard_input(translator, tmp_path, monkeypatch, capsys):
    (tmp_path / "lines.txt").write_text("the cat sat\n\na dog ran to the house\n", encoding="utf-8")
    assert "a dog ran to the house" in told(capsys, translator, "--file", tmp_path / "lines.txt", "--row", "1")
    monkeypatch.setattr(sys, "stdin", io.StringIO("the cat sat\na dog ran\n"))
    assert told(capsys, translator, "--file", "-", "--row=1").splitlines()[0].endswith(": a dog ran")
    monkeypatch.setattr(sys, "stdin", io.StringIO("the old house\n"))
    assert told(capsys, translator, "-").splitlines()[0].endswith(": the old house")


def test_a_trace_is_looked_at_without_the_model(trace, translator, tmp_path, capsys):
    for method in ("maps", "effective", "rollout"):
        before = as_json(capsys, translator, TEXT, TARGET, "--method", method)
        assert as_json(capsys, trace, "--method", method) == before
    assert told(capsys, trace, "--out", tmp_path / "x.html")
    said = fails(capsys, "explain", trace, "--method", "ablate")
    assert "runs the model again" in said
    assert "already contains its text" in fails(capsys, "explain", trace, TEXT)
    assert "no such row" in fails(capsys, "explain", trace, "--row", "3")
    assert "needs a model" in fails(capsys, "explain", trace, "--method", "lengths", "--text", "x")


def test_an_image_is_shown_as_an_image(models, image, capsys):
    for options in ([], ["--method", "attribute", "--probes", "2"], ["--method", "rollout"], ["--method", "effective"],
                    ["--method", "attribute", "--how", "occlusion"]):  # fmt: skip
        panel = as_json(capsys, models("vit"), image, *options)["panels"][0]
        assert (len(panel["rows"]), len(panel["columns"]), panel["square"]) == (4, 4, True)
        assert panel["note"].startswith("[CLS] is ")
    assert "an image of 4 × 4 patches" in told(capsys, models("vit"), image)


def test_the_picture_is_the_class_token_s_row(models, image):
    model = regard.load(models("vit"))
    trace = regard.trace(model, image)
    panel = regard.explain.maps(trace, sites="encoder.1").panels[0]
    row = trace.heads("encoder.1.self").mean(0)[0, 1:]
    torch.testing.assert_close(torch.tensor(panel.values).flatten(), row)


def test_every_method_says_its_options(capsys):
    text = told(capsys, "--methods")
    assert "attribute  " in text
    assert "--how probes" in text
    assert "cost" in text


def test_a_method_without_a_model(capsys):
    assert "n = d = 8" in told(capsys, "--method", "cost", "--d-model", "8", "--longest", "64", "--repeats", "1")


def test_any_script_can_be_asked(translator, models, capsys):
    for text in ("مرحبا بالعالم", "שלום", "🙂👩‍👩‍👧", "日本語", "a\tb", "\u202etxt"):
        assert told(capsys, translator, text, TARGET)
        assert told(capsys, models("gpt2"), text)


WRONG = {
    "an unknown method": (["{t}", "x", "--method", "nonsense"], "unknown method"),
    "a method without its name": (["{t}", "x", "--method"], "--method needs a value"),
    "an unknown option": (["{t}", "x", "--nonsense", "4"], "unknown option of maps"),
    "a short option": (["{t}", "x", "-q"], "not an option"),
    "a word for a number": (["{t}", "x", "--row", "two"], "--row has an invalid value"),
    "no such site": (["{t}", "x", "--sites", "encoder.9"], "encoder.1.self"),
    "no such layer": (["{t}", "x", "--method", "attribute", "--layer", "encoder.9"], "unknown layer"),
    "no such input": (["{t}", "x", "--method", "attribute", "--inputs", "nowhere"], "unknown input"),
    "inputs after the layer": (
        ["{t}", "x", "--method", "attribute", "--layer", "encoder.0", "--inputs", "decoder.input"],
        "does not depend on",
    ),
    "no such head": (["{t}", "x", "--sites", "encoder.0", "--head", "9"], "no such head"),
    "a head of many sites": (["{t}", "x", "--head", "1"], "Name one"),
    "no such row": (["{t}", "x", "--row", "4"], "no such row"),
    "no such row, ablated": (["{t}", "x", "--method", "ablate", "--row", "4"], "no such row"),
    "no such row, read": (["{t}", "x", "--method", "lens", "--row", "-1"], "no such row"),
    "no probes": (["{t}", "x", "--method", "attribute", "--probes", "0"], "probes must be positive"),
    "fewer than none": (["{t}", "x", "--method", "gradients", "--probes", "-1"], "probes"),
    "no steps": (["{t}", "x", "--method", "attribute", "--how", "integrated", "--steps", "0"], "steps"),
    "no words": (["{t}", "x", "--method", "lens", "--top", "-1"], "top must be positive"),
    "no heads": (["{t}", "x", "--method", "ablate", "--most", "0"], "most must be positive"),
    "an unknown way": (["{t}", "x", "--method", "attribute", "--how", "magic"], "unknown way"),
    "nothing": ([], "no model was given"),
    "no text": (["{t}"], "needs a text"),
    "an empty text": (["{t}", ""], "empty"),
    "an empty target": (["{t}", "x", " "], "target is empty"),
    "three texts": (["{t}", "a", "b", "c"], "too many texts"),
    "an empty file": (["{t}", "--file", "{dir}/empty.txt"], "is empty"),
    "no file": (["{t}", "--file", "{dir}/nothing.txt"], "cannot be read"),
    "a file for a text": (["{t}", "{dir}/lines.txt"], "--file"),
    "an image for a text": (["{t}", "{image}"], "this model reads text"),
    "a text for an image": (["{v}", "a cat"], "a cat does not exist: expected an image file"),
    "a text file for an image": (["{v}", "{dir}/lines.txt"], "is not an image"),
    "two images": (["{v}", "{image}", "{image}"], "--file takes several"),
    "too long": (["{g}", TEXT * 9], "longer than this model can read"),
    "no attention": (["{n}", TEXT, TARGET], "no attention to look at"),
    "no self-attention": (["{s}", TEXT, TARGET, "--method", "rollout"], "no self-attention"),
    "no output layer": (["{b}", TEXT, "--method", "lens"], "no output layer"),
    "one sentence": (["{t}", TEXT, "--method", "identify"], "Give more texts"),
    "not a model folder": (["{dir}/nothing", "x"], "not a model folder"),
    "no trace": (["{dir}/nothing.trace"], "no file"),
    "no folder to write to": (["{t}", "x", "--out", "{dir}/nothing/x.html"], "there is no folder"),
    "no folder for a trace": (["{t}", "x", "--out", "{dir}/nothing/x.trace"], "there is no folder"),
    "an unknown suffix": (["{t}", "x", "--out", "x.pdf"], ".html, .svg, .png, .json, .trace"),
    "a needed option": (["{g}", "--method", "lengths"], "needs --text"),
    "not a language model": (["{t}", "--method", "memorised", "--text", "{dir}/lines.txt"], "needs a language model"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_line(case, models, image, tmp_path, capsys):
    (tmp_path / "lines.txt").write_text("the cat sat\n")
    (tmp_path / "empty.txt").write_text("\n\n")
    names = {"t": "transformer", "v": "vit", "g": "gpt2", "n": "seq2seq-none", "s": "seq2seq", "b": "bert-none"}
    words, expected = WRONG[case]
    places = {"dir": tmp_path, "image": image, **{key: models(name) for key, name in names.items()}}
    assert expected in fails(capsys, "explain", *[word.format(**places) for word in words])


def test_a_model_without_attention_can_still_be_asked(models, capsys):
    text = told(capsys, models("seq2seq-none"), TEXT, TARGET, "--method", "gradients", "--probes", "2")
    assert "untrained: the gradient" in text


def _header(path: Path, change) -> None:
    """Rewrite the words of a trace, the tensors as they are."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    entries = json.loads(raw[8 : 8 + size])
    words = json.loads(entries["__metadata__"]["regard.trace"])
    entries["__metadata__"]["regard.trace"] = change(words) or json.dumps(words)
    text = json.dumps(entries).encode()
    text = text.ljust(len(text) + -(8 + len(text)) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + size :])


@pytest.mark.parametrize("change", [
    lambda words: words.pop("sides") and None,
    lambda words: words["hidden"].append("encoder.77"),
    lambda words: words["sides"].update(source=[["a"]]),
    lambda words: words.update(sites="x"),
    lambda words: words.update(sites=[], sides={}),
    lambda words: words.update(version=3),
    lambda _: "{broken",
    lambda _: "[]",
])  # fmt: skip
def test_a_trace_with_other_words_in_it(trace, change, capsys):
    _header(trace, change)
    assert "trace" in fails(capsys, "explain", trace)


def test_damaged_traces(trace, tmp_path, capsys):
    whole = trace.read_bytes()
    for length in (0, 4, 5000, len(whole) - 100):
        trace.write_bytes(whole[:length])
        assert "damaged" in fails(capsys, "explain", trace)
    trace.write_text("a text that is no trace")
    assert "damaged" in fails(capsys, "explain", trace)
    weights.write(tmp_path / "weights.safetensors", {"a": torch.ones(2)})
    (tmp_path / "weights.safetensors").rename(trace)
    assert "is not a trace" in fails(capsys, "explain", trace)
