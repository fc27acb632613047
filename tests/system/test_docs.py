"""Every command and Python block of README.md and docs/explain.md runs as it is written, in order.

They run in a folder with small stand-ins for what they name. A block of no known kind, a command that is neither run
nor excepted, a stand-in that nobody named: each fails.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.system import doc_models
from tests.system.doc_blocks import Block, blocks, commands

from regard.cli import main

ROOT = Path(__file__).parents[2]
PAGES = {name: blocks((ROOT / name).read_text(encoding="utf-8")) for name in ("README.md", "docs/explain.md")}

EXCEPTED = {
    "make quickstart": "it trains for minutes; tests/system/test_quickstart.py runs `regard quickstart` (slow)",
    "make test": "it runs these tests",
}
FOLDERS = {
    "out/multi30k_en_de": "translator",
    "out/multi30k_de_en_bahdanau": "bahdanau",
    "out/mnist_vit": "images",
    "out/sst2_minilm": "classes",
    "out/shakespeare_char": "writer",
    "out/sst2_bow": "bag",
    "out/ptb_ngram": "counted",
    "out/imdb_han": "document",
    "out/ptb_elman": "elman",
    "out/ptb_lstm": "lstm",
    "out/ptb_lstmn": "tape",
    "out/sst2_elmo_500": "spelling",
    "out/ntm_copy": "machine",
    "all-MiniLM-L6-v2": "sentences",
    "llama2.data": "llama",
}
"""Models that the pages name."""
FOLDER = {
    r"regard generate ": "writer",
    r"regard fill ": "gaps",
    r"regard classify ": "classes",
    r"regard answer ": "spans",
    r"regard (similar|embed|evaluate) ": "sentences",
    r"regard convert ": "translator",
    r"regard (neighbours|analogy) ": "words",
    r"regard explain FOLDER picture.png": "images",
    r'regard explain FOLDER "a film': "classes",
}
"""What kind of model FOLDER stands for, by the command."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    doc_models.write_files(tmp_path)
    for name, kind in FOLDERS.items():
        doc_models.save(kind, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STORY", doc_models.STORY)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    return tmp_path


@pytest.mark.parametrize(
    "page", ["README.md", *(pytest.param(name, marks=pytest.mark.slow) for name in PAGES if name != "README.md")]
)
def test_a_page_does_what_it_says(page, place, capfd):
    torch.manual_seed(0)
    # Names that the README takes for granted.
    names = {name: torch.randn(2, 4, 20, 16) for name in ("query", "keys", "values")} | {"__name__": "page"}
    for block in PAGES[page]:
        where = f"{page}:{block.line}"
        if block.kind == "file":
            (place / block.text.split()[1]).write_text(block.text)
        elif block.kind == "python":
            exec(compile(block.text, where, "exec"), names)
        elif block.kind == "commands":
            for command in commands(block):
                if command not in EXCEPTED:
                    code = run(command, place)
                    said = capfd.readouterr()
                    assert code == 0, f"{where}: {command}\n{said.out}{said.err}"
                    assert said.out, f"{where}: {command} says nothing"
    if "received" in names:  # the method of one's own
        assert names["received"](names["trace"]).panels


def run(command, place):
    """The exit code. What needs a shell gets one; the rest runs in this process, which has imported torch already."""
    if "FOLDER" in command:
        link = place / "FOLDER"
        link.unlink(missing_ok=True)
        (kind,) = {kind for pattern, kind in FOLDER.items() if re.match(pattern, command)}
        if not (place / "models" / kind).exists():
            doc_models.save(kind, place / "models" / kind)
        link.symlink_to(place / "models" / kind)
    if "|" in command:
        return subprocess.run(["bash", "-o", "pipefail", "-c", command], check=False).returncode
    words = shlex.split(os.path.expandvars(command))
    assert words[0] == "regard", f"{command} is neither run nor excepted"
    return main(words[1:])


def test_what_is_excepted_and_stood_in_for_is_named():
    text = "\n".join(block.text for page in PAGES.values() for block in page)
    every = [command for page in PAGES.values() for b in page if b.kind == "commands" for command in commands(b)]
    assert set(EXCEPTED) <= set(every)
    assert [name for name in FOLDERS if name not in text] == []
    for pattern in FOLDER:
        assert any(re.match(pattern, command) and "FOLDER" in command for command in every), pattern
    kinds = [block.kind for page in PAGES.values() for block in page]
    assert {kind: kinds.count(kind) >= least for kind, least in (("commands", 16), ("python", 7), ("file", 1))} == {
        "commands": True, "python": True, "file": True,
    }  # fmt: skip


def test_a_block_of_no_known_kind_is_refused():
    assert blocks("a\n\n    regard train x   # go\n") == [Block("commands", "regard train x   # go", 3)]
    assert commands(blocks('```\nregard fill F "a # b"     # words\n\nmake test\n```')[0])[1] == "make test"
    for text in ("```\ncurl x\n```", "```json\n{}\n```", "```yaml\na: b\n```", "    pip install x", "```\n```"):
        with pytest.raises(ValueError, match="no known kind"):
            blocks(text)
    with pytest.raises(AssertionError, match="neither run nor excepted"):
        run("make bench", Path())
