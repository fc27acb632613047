"""A result is headed by the text that was looked at, from a model and from a file."""

import json
import re

from tests.system.small_models import fails
from tests.system.test_explain import TARGET, TEXT, as_json, models, told, trace, translator  # noqa: F401 (fixtures)

from regard.core import weights


def test_titles_show_the_text(models, translator, trace, tmp_path, capsys):  # noqa: F811
    for words, shown in (
        ([translator, TEXT, TARGET], TEXT),
        ([trace], TEXT),
        ([models("bert-classes"), TEXT, TARGET], f"{TEXT} / {TARGET}"),
        ([models("gpt2"), "the cat", "sat"], "the cat / sat"),
    ):
        assert as_json(capsys, *words)["title"].endswith(f": {shown}")
    told(capsys, models("gpt2"), f"the   cat\x1b\n{'sat on the mat ' * 2}", "--out", tmp_path / "x.html")
    heading = re.search("<h1[^>]*>(.*?)</h1>", (tmp_path / "x.html").read_text())[1]
    assert heading.endswith(": the cat␛ sat on the mat sat on the mat")


def test_a_trace_without_its_text_shows_tokens(trace, tmp_path, capsys):  # noqa: F811
    """Files of earlier versions hold no text; a text for each row is needed where there is any."""
    tensors, notes = weights.read_tensors(trace), json.loads(weights.metadata(trace)["regard.trace"])
    assert notes["texts"] == [TEXT]
    for texts, expected in ((None, f"{TEXT} </s>"), ([TEXT, TEXT], None), ("x", None), ([1], None)):
        words = {**notes, "texts": texts} if texts is not None else {k: v for k, v in notes.items() if k != "texts"}
        path = tmp_path / "old.trace"
        weights.write(path, {name: tensor.clone() for name, tensor in tensors.items()},
              metadata={"regard.trace": json.dumps(words)})  # fmt: skip
        if expected is None:
            assert "is a damaged trace" in fails(capsys, "explain", path)
        else:
            assert as_json(capsys, path)["title"].endswith(f": {expected}")
