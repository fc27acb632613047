"""How far a long command is: shown where standard error is a terminal, and nowhere else; and what was cut is told."""

import os
import pty
import re
import subprocess
import sys

import pytest
from tests.system.small_models import LINES, run

AT_ONCE = """
import sys
from regard.cli import _progress, main
_progress._DELAY = 0.0
sys.exit(main())
"""


def with_errors_in_a_terminal(words, stdin):
    """Exit code, standard output to a pipe, and what the terminal got, of a command that shows progress at once."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", AT_ONCE, *map(str, words)], stdin=stdin, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    with process.stdout as pipe:
        printed, seen = pipe.read(), b""
    try:
        while block := os.read(ours, 65536):
            seen += block
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return process.wait(timeout=60), printed.decode(), seen.decode()


@pytest.fixture
def many(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("cat dog red\n" * 600)
    return path


def test_translating_many_lines_shows_how_many_are_done(trained, many):
    with many.open("rb") as lines:
        code, printed, seen = with_errors_in_a_terminal(["translate", trained], lines)
    assert code == 0
    assert printed == "red dog cat\n" * 600, "standard output holds the translations and nothing else"
    assert re.search(r"translating .*\d+/600 lines", seen)
    assert seen.endswith("\x1b[2K"), "the line is gone at the end"
    with many.open("rb") as lines:
        done = subprocess.run(
            [sys.executable, "-c", AT_ONCE, "translate", trained], stdin=lines, capture_output=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, b""), "nothing where there is no terminal"
    assert done.stdout.decode() == printed


def test_embedding_and_writing(bert, gpt2, tmp_path):
    bert("none", "sentence_similarity").save(tmp_path / "encoder")
    gpt2.save(tmp_path / "writer")
    (tmp_path / "lines.txt").write_text("the cat\n" * 800)
    file = ["--file", tmp_path / "lines.txt"]
    words = ["embed", tmp_path / "encoder", *file, "--out", tmp_path / "v.npy"]
    code, printed, seen = with_errors_in_a_terminal(words, subprocess.DEVNULL)
    assert (code, printed) == (0, f"800 vectors of 24 numbers in {tmp_path / 'v.npy'}\n")
    assert re.search(r"embedding .*/800 lines, [\d,]+ tokens", seen)
    words = ["generate", tmp_path / "writer", "--prompt", LINES[0], "--max-tokens", "15", "--seed", "1"]
    code, printed, seen = with_errors_in_a_terminal(words, subprocess.DEVNULL)
    assert code == 0
    assert printed.startswith(LINES[0])
    assert re.search(r"writing .*/1 lines, \d+ tokens", seen), "one long text moves on token by token"


def test_a_long_explanation_shows_that_it_works(bert, tmp_path):
    bert("classes", "classification").save(tmp_path / "m")
    words = ["explain", tmp_path / "m", "the cat", "--method", "attribute", "--how", "integrated", "--steps", "400"]
    code, printed, seen = with_errors_in_a_terminal(words, subprocess.DEVNULL)
    assert code == 0
    assert "Integrated gradients" in printed
    assert re.search(r"explaining by attribute .*\d:\d\d:\d\d", seen)
    assert "lines" not in seen


def test_a_short_call_shows_nothing(trained, many):
    many.write_text("cat dog\n")
    ours, theirs = pty.openpty()
    with many.open("rb") as lines:
        words = [sys.executable, "-m", "regard", "translate", trained]
        done = subprocess.run(words, stdin=lines, stdout=subprocess.PIPE, stderr=theirs, check=False)
    os.close(theirs)
    try:
        seen = os.read(ours, 100)
    except OSError:
        seen = b""
    os.close(ours)
    assert (done.returncode, done.stdout, seen) == (0, b"dog cat\n", b"")


def test_a_question_that_is_cut_is_told(bert, tmp_path, capsys):
    bert("span", "question_answering").save(tmp_path / "m")
    (tmp_path / "page.txt").write_text("the cat sat on the mat\n")
    page = ["--context", tmp_path / "page.txt"]
    code, _, err = run(capsys, "answer", tmp_path / "m", "--question", "who saw the cat ? " * 20, *page)
    assert (code, err) == (0, "regard: note: 1 question was cut after 24 tokens\n")
    assert run(capsys, "answer", tmp_path / "m", "--question", "who saw the cat ?", *page)[2] == ""
