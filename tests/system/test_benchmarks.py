"""What the benchmarks compare: the same work on both sides, and pages that say how a number came about."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional

import regard
from regard.core.batch import Batch
from regard.layers.recurrent import Recurrent
from regard.pipelines import make_pipeline

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """A script of benchmarks/ as a module."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name):
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in ("_results", "_lengths_page"):
        sys.modules.pop(name, None)


def operations(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile, torch.no_grad():
        call()
    return {event.key for event in profile.key_averages()}


def test_the_two_ways_of_attention_are_timed_apart(benchmark):
    x = torch.randn(1, 24, 16)
    calls = benchmark("complexity").layers(x, Recurrent("elman", 16, 16))
    staged, fused = calls["self-attention, stage by stage"], calls["self-attention, fused"]
    assert not any("scaled_dot_product" in name for name in operations(staged))
    assert any("scaled_dot_product" in name for name in operations(fused))
    torch.testing.assert_close(staged(), fused())


@pytest.fixture
def batch():
    source, target = torch.randint(4, 40, (3, 7)), torch.randint(4, 40, (3, 6))
    target_mask = torch.ones(3, 6, dtype=torch.bool)
    target_mask[1, 4:] = False
    source_mask = torch.ones(3, 7, dtype=torch.bool)
    source_mask[2, 5:] = False
    return Batch({"source": source, "source_mask": source_mask, "target": target, "target_mask": target_mask})


def test_peers_are_trained_with_the_same_dropout(benchmark):
    script = benchmark("training")
    ours, marian, torchs = (make(40)[0] for make in (script.ours, script.marian, script.torchs))
    for model in (ours, marian):
        config = model.config
        assert {config.dropout, config.attention_dropout, config.activation_dropout} == {script.DROPOUT}
    attentions = [module for module in torchs.modules() if isinstance(module, torch.nn.MultiheadAttention)]
    assert {module.dropout for module in attentions} == {script.DROPOUT}
    assert {module.p for module in torchs.modules() if isinstance(module, torch.nn.Dropout)} == {script.DROPOUT}
    assert torchs.dropout.p == script.DROPOUT
    told = script.described({"regard": ours, "transformers (Marian)": marian, "torch.nn.Transformer": torchs})
    assert "use_cache=False" in told
    assert "Dropout 0.1" in told


def test_peers_work_out_the_same_kind_of_loss(benchmark, batch):
    script = benchmark("training")
    labels = batch["target"][:, 1:].masked_fill(~batch["target_mask"][:, 1:], -100)
    model, loss = script.marian(40)
    with torch.no_grad():
        logits = model.eval()(
            input_ids=batch["source"],
            attention_mask=batch["source_mask"].long(),
            decoder_input_ids=batch["target"][:, :-1],
        ).logits
        torch.testing.assert_close(loss(batch), functional.cross_entropy(logits.flatten(0, 1), labels.flatten()))
        model, loss = script.ours(40)
        logits = model.eval()(batch["source"], batch["source_mask"], batch["target"][:, :-1]).logits
        torch.testing.assert_close(loss(batch), functional.cross_entropy(logits.flatten(0, 1), labels.flatten()))


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_folders_to_open_are_written_by_the_other_library(benchmark, name, tmp_path):
    script = benchmark("loading")
    version = script.write(name, tmp_path / name, script.SMALL[name])
    assert json.loads((tmp_path / name / "config.json").read_text())["transformers_version"] == version
    assert regard.load(tmp_path / name) is not None


def test_an_estimated_baseline_says_so(benchmark):
    script = benchmark("explain")
    shape = dict(tokens=4, layers=(1,), d_model=8, n_layers=1, n_heads=2, d_ff=8, vocab_size=50)
    part, *others = script.attribution_rows(1, 8, **shape)
    assert part.endswith("| 8 of 32 measured, times 4.0 |")
    assert all(row.endswith("× faster than that estimate |") for row in others)
    whole, *others = script.attribution_rows(1, None, **shape)
    assert whole.endswith("| 32 of 32 measured |")
    assert all(row.endswith("× faster |") for row in others)


def test_a_section_is_replaced_and_the_others_stay(benchmark, tmp_path):
    put, page = benchmark("_results").put, tmp_path / "RESULTS.md"
    page.write_text("# Measured\n\nHead.\n\n## One\n\n| 1 |\n\n## Two\n\n| 2 |\n")
    put(page, "One", "| new |\n")
    assert page.read_text() == "# Measured\n\nHead.\n\n## One\n\n| new |\n\n## Two\n\n| 2 |\n"
    put(page, "Three", "| 3 |")
    assert page.read_text().endswith("## Two\n\n| 2 |\n\n## Three\n\n| 3 |\n")


@pytest.mark.parametrize("name", ["rotary_ntk", "rotary_llama3", "rotary_yarn"])
def test_stretched_positions_read_with_the_same_weights(benchmark, name, gpt2_pipeline):
    script, ids = benchmark("lengths"), torch.randint(0, 20, (1, 12))
    with torch.no_grad():
        plain = gpt2_pipeline.model(ids).logits
        same = script.stretched(gpt2_pipeline, name, 1).model(ids).logits
        other = script.stretched(gpt2_pipeline, name, 8).model(ids).logits
        again = gpt2_pipeline.model(ids).logits
    torch.testing.assert_close(same, plain)
    assert not torch.allclose(other, plain)
    assert torch.equal(again, plain)


@pytest.fixture
def gpt2_pipeline():
    from regard.data.text import make_tokenizer
    from regard.models import config_of, make_model
    from regard.store import StoredModel

    torch.manual_seed(0)
    tokenizer = make_tokenizer("char", ["abcdefghijklmnopqrstuvwxyz\n"])
    sizes = {"d_model": 32, "n_layers": 2, "n_heads": 2, "max_len": 8, "position": "rotary"}
    config = config_of("gpt2", {**sizes, "vocab_size": tokenizer.vocab_size})
    model = make_model("gpt2", config).eval()
    for parameter in model.parameters():  # large enough that attention is not even
        parameter.data.mul_(5)
    return make_pipeline(StoredModel("language_model", "gpt2", config, model, tokenizer, tokenizer))


def test_the_page_keeps_what_is_written_by_hand(benchmark, gpt2_pipeline, tmp_path):
    from regard.explain.methods.lengths import compare

    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 8)
    page, written = benchmark("_lengths_page"), tmp_path / "page.md"
    result = compare({"rotary": gpt2_pipeline}, text=str(text), longest=32, trained=8, windows=4, points=8)
    page.write(written, result, "About.", "Notes.", "Budget.")
    assert "| rotary |" in written.read_text()
    written.write_text(written.read_text().replace(page.SHOWN, f"{page.SHOWN}\n\nBy hand."))
    page.write(written, result, "About again.", "Notes.", "Budget.")
    said = written.read_text()
    assert said.count("By hand.") == said.count("| rotary |") == said.count("## Numbers") == 1
    assert "About again." in said
    page.draw(result, 8, tmp_path / "images" / "figure.svg")
    assert "trained on 8" in (tmp_path / "images" / "figure.svg").read_text()


def test_growth_is_measured_and_drawn(benchmark, tmp_path, monkeypatch, capsys):
    """The table has each model at each length; the tape of one is as long as the text, of the other 64."""
    growth = benchmark("growth")
    spans = {name: getattr(model.config, "span", None) for name, model in growth.models(128).items()}
    assert [span for span in spans.values() if span is not None] == [128, 64]
    arguments = ["growth.py", "--longest", "128", "--docs", tmp_path, "--results", tmp_path / "results.md"]
    monkeypatch.setattr(sys, "argv", list(map(str, arguments)))
    growth.main()
    table = capsys.readouterr().out
    assert (tmp_path / "images" / "growth.svg").is_file()
    assert table.strip() in (tmp_path / "results.md").read_text()
    assert all(f"| {name} |" in table for name in spans)
