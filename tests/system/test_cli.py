"""The command as a user meets it: help, wrong input, pipes."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import regard
from regard.cli import main

COMMAND = Path(sys.executable).parent / "regard"


def run(*words: str, **rest) -> subprocess.CompletedProcess:
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=120, **rest)


def test_help_answers_within_half_a_second():
    times = []
    for _ in range(3):
        start = time.perf_counter()
        done = run("--help")
        times.append(time.perf_counter() - start)
    assert done.returncode == 0
    assert "quickstart" in done.stdout
    assert min(times) < 0.5


@pytest.mark.parametrize("statement", ["import regard", "import regard.cli; regard.cli._verbs()"])
def test_importing_does_not_load_torch(statement):
    code = f"import sys; {statement}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_version():
    assert run("--version").stdout.strip() == f"regard {regard.__version__}"


def test_no_verb_shows_help():
    done = run()
    assert done.returncode == 0
    assert "usage: regard" in done.stdout


def test_unknown_verb_is_one_line_with_a_suggestion():
    done = run("quikstart")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Did you mean 'quickstart'?" in done.stderr


def test_help_speaks_of_what_a_verb_reads_and_makes(capsys):
    said = {}
    for verb in ("translate", "caption", "parse", "summarise"):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        said[verb] = " ".join(capsys.readouterr().out.split())
    assert "number of translations per line" in said["translate"]
    assert "number of captions per image" in said["caption"]
    assert "parts of the image that got no attention" in said["caption"]
    assert "tokens per sentence" in said["parse"]
    assert "tokens per document" in said["summarise"]
    for verb in ("caption", "parse", "summarise"):
        assert "translation" not in said[verb]
        assert ("--max-source" in said[verb]) == (verb != "caption")


def test_debug_shows_the_traceback():
    done = run("--debug", "quikstart")
    assert "Traceback" in done.stderr


def test_unknown_option_is_a_usage_error():
    done = run("quickstart", "--frobnicate")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("parse", "x"), ("summarise", "x"), ("align", "x", "a text")], ids=" ".join)
def test_a_verb_with_one_output_a_line_has_no_nbest(words):
    done = run(*words, "--beam", "3", "--nbest", "3")
    assert done.returncode == 2
    assert f"{words[0]} does not know --nbest" in done.stderr
    assert "--nbest" not in run(words[0], "--help").stdout
    assert "--nbest" in run("translate", "--help").stdout


def test_public_names_all_exist():
    for name in regard.__all__:
        assert getattr(regard, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'atend'"):
        regard.atend  # noqa: B018


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_is_one_line(capsys):
    # Where the tests run in the background the signal may be ignored from the start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        code = main(["explain", "--method", "cost", "--longest", "256", "--repeats", "3000"])
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert code == 130
    assert capsys.readouterr().err == "regard: interrupted\n"


def test_loading_a_model_does_not_import_what_explains_it():
    code = "import sys, regard.api; print([name for name in sys.modules if name.startswith('regard.explain.methods')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
