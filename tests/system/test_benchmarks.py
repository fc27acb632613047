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
    sys.modules.pop("_results", None)


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
