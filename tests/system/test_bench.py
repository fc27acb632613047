"""`regard bench`: every engine on this machine, as a table, as JSON and as a picture."""

import json
import re
from xml.etree import ElementTree

import pytest
from PIL import Image
from tests.system.small_models import SIZES, fails, run, stored
from tests.system.test_progress import with_errors_in_a_terminal

from regard import api
from regard.pipelines import make_pipeline
from regard.runtime.native import Missing, kernels

LOW = not isinstance(kernels(), Missing) and kernels().has_low_products
ENGINES = ("plain", "float32", *(["bfloat16"] if LOW else []), "int8")
QUICK = ("--tokens", 3, "--rounds", 2, "--threads", 1)
SMALL = {"d_model": 24, "n_heads": 3, "d_ff": 40, "n_encoder_layers": 1, "n_decoder_layers": 2}
needs_kernels = pytest.mark.skipif(isinstance(kernels(), Missing), reason="no C compiler to build the kernels with")


def folder(place, name, task, options):
    """A model folder without a tokenizer."""
    make_pipeline(stored(name, task, options)).save(place)
    return place


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    options = {"source_vocab": 30, "target_vocab": 40, "share": "target", **SMALL}
    return folder(tmp_path_factory.mktemp("model") / "translator", "transformer", "translation", options)


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    options = {**SIZES, "vocab_size": 50, "max_len": 24}
    return folder(tmp_path_factory.mktemp("model") / "writer", "gpt2", "language_model", options)


@needs_kernels
@pytest.mark.slow
def test_a_translator_as_json_and_as_a_picture(translator, tmp_path, capsys):
    code, out, _ = run(capsys, "bench", translator, *QUICK, "--json", "--out", tmp_path / "bench.svg")
    assert code == 0
    facts = json.loads(out)
    assert (facts["threads"], facts["n_input"], facts["n_tokens"], facts["rounds"]) == (1, 16, 3, 2)
    assert facts["auto"] == {"engine": "float32", "reason": None}
    assert {name: facts["engines"][name] for name in ENGINES} == {n: {"runs": True, "reason": None} for n in ENGINES}
    assert LOW or "no products of bfloat16" in facts["engines"]["bfloat16"]["reason"]
    assert all(facts["limits"][name] > 0 for name in ("read_gb_s", "float32_gflop_s", "int8_gop_s"))
    assert 0 < facts["step_bytes"]["int8"] < facts["step_bytes"]["float32"] == facts["step_bytes"]["plain"]
    works = [(1, 1), (8, 1), (32, 1), (1, 5), (8, 5)]
    measured = [(speed["batch"], speed["beam"], speed["engine"]) for speed in facts["speeds"]]
    assert measured == [(*work, engine) for work in works for engine in ENGINES]
    for speed in facts["speeds"]:
        assert 0 < speed["low"] <= speed["tokens_per_s"] <= speed["high"]
        assert speed["share"] == pytest.approx(speed["tokens_per_s"] / speed["limit"])
    first = facts["speeds"][0]
    assert first["limit"] == pytest.approx(facts["limits"]["read_gb_s"] * 1e9 / facts["step_bytes"]["plain"])
    picture = "".join(ElementTree.parse(tmp_path / "bench.svg").getroot().itertext())
    assert all(text in picture for text in ("Greedy search", "Beam 5", "limit, int8", "32 inputs, greedy"))


@needs_kernels
def test_a_language_model_as_a_table(language_model, tmp_path, capsys):
    code, out, _ = run(capsys, "bench", language_model, *QUICK, "--out", tmp_path / "bench.png")
    assert code == 0
    assert "auto runs float32 here" in out
    assert len(re.findall(r"1 input, greedy +(?:plain|float32|bfloat16|int8)", out)) == len(ENGINES)
    assert "beam" not in out.lower()
    with Image.open(tmp_path / "bench.png") as picture:
        assert picture.width > 500


def test_without_kernels_the_reason_is_said(language_model, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("REGARD_NATIVE", "0")
    code, out, _ = run(capsys, "bench", language_model, *QUICK, "--out", tmp_path / "bench.html")
    assert code == 0
    assert "auto runs plain here: REGARD_NATIVE is 0" in out
    assert "float32 and bfloat16 and int8 cannot run here: REGARD_NATIVE is 0" in out
    assert "limit, float32" in (tmp_path / "bench.html").read_text()


def test_a_model_that_is_not_made_of_blocks(tmp_path, capsys):
    options = {"source_vocab": 30, "target_vocab": 40, "d_embedding": 16, "d_hidden": 16}
    place = folder(tmp_path / "recurrent", "seq2seq", "translation", options)
    code, out, _ = run(capsys, "bench", place, *QUICK, "--json")
    assert code == 0
    facts = json.loads(out)
    assert facts["auto"]["engine"] == "plain"
    assert "Transformer blocks" in facts["engines"]["int8"]["reason"]
    assert {speed["engine"] for speed in facts["speeds"]} == {"plain"}


def test_the_number_of_threads_is_set_back(language_model):
    import torch

    before = torch.get_num_threads()
    assert api.bench(api.load(language_model), tokens=2, rounds=1, threads=before + 1).threads == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.slow
def test_progress_counts_runs(language_model):
    code, printed, seen = with_errors_in_a_terminal(["bench", language_model, *QUICK, "--json"], None)
    assert code == 0
    assert json.loads(printed)
    assert re.search(rf"measuring .*\d+/{6 * len(ENGINES)} runs", seen)


def test_wrong_calls_are_one_line(language_model, bert, tmp_path, capsys):
    bert("classes", "classification").save(tmp_path / "bert")
    assert "generates text: got a bert for classification" in fails(capsys, "bench", tmp_path / "bert")
    assert "nothing" in fails(capsys, "bench", tmp_path / "nothing")
    assert "tokens must be at least 1" in fails(capsys, "bench", language_model, "--tokens", 0)
    assert "rounds must be at least 1" in fails(capsys, "bench", language_model, "--rounds", 0)
    assert "threads must be at least 1" in fails(capsys, "bench", language_model, "--threads", -1)
    assert "expected at most 23" in fails(capsys, "bench", language_model, "--tokens", 24)
    assert ".svg" in fails(capsys, "bench", language_model, "--out", tmp_path / "bench.pdf")
    assert "no folder" in fails(capsys, "bench", language_model, "--out", tmp_path / "missing" / "bench.svg")
