"""The gallery's commands run as they are written, and every picture that it shows is drawn by one of them.

Real weights come from `.weights`, word vectors from the data folder; where these are absent the command is skipped. A
model that would have to be trained has a small stand-in, so its command runs but its picture is another.
"""

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.system import doc_models
from tests.system.doc_blocks import blocks, commands

from regard.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
COMMANDS = [command for block in blocks(PAGE) if block.kind == "commands" for command in commands(block)]
STAND_INS = {
    "out/tatoeba_en_fr_aligner": "bahdanau",
    "out/multi30k_en_de": "translator",
    "out/cifar_vit": "images",
    "out/flickr8k_soft": "captions",
}
PICTURES = re.findall(r"!\[(.*?)\]\((images/.*?)\)", PAGE, re.DOTALL)


@pytest.fixture
def place(tmp_path, monkeypatch):
    (tmp_path / "docs" / "images").mkdir(parents=True)
    for name in ("gallery_bank.txt", "gallery_photo.jpg"):
        shutil.copy(ROOT / "docs" / "images" / name, tmp_path / "docs" / "images")
    weights = Path(os.environ.get("REGARD_WEIGHTS", ROOT / ".weights"))
    (tmp_path / ".weights").symlink_to(weights.resolve())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_what_it_says(command, place, capfd, monkeypatch, request):
    if "$REGARD_DATA" in command:
        monkeypatch.setenv("REGARD_DATA", str(request.getfixturevalue("data")))
    words = shlex.split(os.path.expandvars(command))
    model = words[2]
    if model.startswith("out/"):
        doc_models.save(STAND_INS[model], place / model)
    elif not Path(model).exists():
        pytest.skip(f"no {model}: make weights fetches it")
    code = main(words[1:])
    said = capfd.readouterr()
    assert code == 0, said.out + said.err
    assert said.out
    if "--out" in words:
        assert (place / words[words.index("--out") + 1]).stat().st_size > 1000


def test_every_picture_is_there_with_words_for_it_and_one_command():
    drawn = [command.split("--out docs/")[1] for command in COMMANDS if "--out docs/" in command]
    assert sorted(drawn) == sorted(path for _, path in PICTURES)
    for words, path in PICTURES:
        assert len(words) > 60, path
        assert (ROOT / "docs" / path).is_file()


def test_every_stand_in_is_named():
    named = {shlex.split(command)[2] for command in COMMANDS}
    assert {name for name in named if name.startswith("out/")} <= set(STAND_INS)
