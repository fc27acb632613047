"""Models and traces that an earlier version wrote: they open, and say what they said then.

`expected.safetensors` holds the inputs and what came of them; its metadata names the CPU and the version of torch. On
the same ones every bit is the same, elsewhere 1e-5. These folders are kept for good: never write them anew.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

import regard
from regard.explain import Trace

FOLDERS = sorted(path for path in (Path(__file__).parents[1] / "stored").glob("*/*") if path.is_dir())
VERBS = {
    "translate": lambda model, text: model.translate([text, "a dog ran to the house"], beam=3),
    "generate": lambda model, text: [written.text for written in model.generate(["the cat"], max_tokens=12)],
    "classify": lambda model, text: [
        [best.label, pytest.approx(best.score, abs=1e-5)] for best in model.classify([text])
    ],
    "fill": lambda model, text: [filling.text for filling in model.fill([text])[0][0]],
}


def this_machine() -> dict[str, str]:
    """What decides the last bits."""
    facts = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    bf16 = "avx512_bf16" in facts.get("flags", "").split()
    return {"cpu": facts.get("model name", ""), "bf16": str(bf16), "torch": torch.__version__}


def test_there_are_stored_models():
    assert len(FOLDERS) >= 12


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_stored_model_says_what_it_said(folder):
    with safe_open(folder / "expected.safetensors", "pt") as file:
        expected, facts = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    said = json.loads(facts.pop("said"))
    model = regard.load(folder)
    inputs = {name.removeprefix("inputs."): x for name, x in expected.items() if name.startswith("inputs.")}
    with torch.no_grad():
        output = model(**inputs)
    same_bits = Path("/proc/cpuinfo").is_file() and facts == this_machine() and torch.get_num_threads() == 1
    for name in ("hidden", "logits", "pooled"):
        if name in expected:
            torch.testing.assert_close(getattr(output, name), expected[name], rtol=0, atol=0 if same_bits else 1e-5)
    for verb in VERBS.keys() & said.keys():
        assert VERBS[verb](model, said["text"]) == said[verb]


@pytest.mark.parametrize(
    "path", [f / "run.trace" for f in FOLDERS if (f / "run.trace").exists()], ids=lambda p: p.parent.name
)
def test_a_stored_trace_opens(path):
    trace = Trace.load(path)
    assert trace.sites
    result = regard.explain.maps(trace)
    assert result.panels
    assert regard.explain.effective(trace).panels
