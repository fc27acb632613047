"""What reaches the terminal: no control characters of models and files, one line for errors, none for signals."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from tests.system.small_models import fails, hf, run

REGARD = [sys.executable, "-m", "regard"]
EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202eb\r"


def in_a_terminal(*words):
    """What a command prints where its standard output is a terminal."""
    main, other = pty.openpty()
    process = subprocess.Popen([*REGARD, *map(str, words)], stdout=other, stderr=subprocess.PIPE)
    os.close(other)
    printed = b""
    try:
        while block := os.read(main, 65536):
            printed += block
    except OSError:  # the other end is closed
        pass
    errors = process.communicate()[1]
    os.close(main)
    assert process.returncode == 0, errors
    return printed.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_labels_do_not_steer_the_terminal(bert, tmp_path, capsys):
    labels = [EVIL + number for number in "012"]
    bert("classes", "classification", labels=labels).save(tmp_path / "m")
    for words in (["the cat"], ["the cat", "--json"], ["the \x1b[31mcat"]):
        printed = in_a_terminal("classify", tmp_path / "m", *words)
        assert not set(printed) & set("\x1b\x07\x9b\u202e\r"), repr(printed)
    assert "a␛]0;owned␇␛[2J" in in_a_terminal("classify", tmp_path / "m", "the cat")
    told = json.loads(in_a_terminal("classify", tmp_path / "m", "the cat", "--json"))
    assert set(told["scores"]) == set(labels), "JSON says the same, with escapes"
    assert run(capsys, "classify", tmp_path / "m", "the cat")[1].startswith(EVIL), "a pipe gets what there is"


def test_generated_text_keeps_its_lines_and_nothing_else(tmp_path):
    from tests.system.small_models import SIZES, stored

    from regard.data.text import make_tokenizer
    from regard.pipelines import make_pipeline

    tokenizer = make_tokenizer("char", ["\x1b\x9b\n\tab"])
    options = {**SIZES, "vocab_size": tokenizer.vocab_size, "max_len": 40}
    make_pipeline(stored("gpt2", "language_model", options, {}, tokenizer)).save(tmp_path / "m")
    for stream in ([], ["--stream"]):
        printed = in_a_terminal("generate", tmp_path / "m", "--prompt", "a\tb\x1b[2J", "--temperature", "2", *stream)
        assert not set(printed) & set("\x1b\x9b"), repr(printed)
        assert "␛" in printed
    assert "a" in in_a_terminal("explain", tmp_path / "m", "a\x1bb")


def test_an_error_is_one_line_whatever_a_file_holds(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "a\n\x1b[2Jb"}))
    assert "\x1b" not in fails(capsys, "classify", tmp_path, "x")
    assert "␛" in fails(capsys, "classify", tmp_path / "a\x1bb", "x")


def test_a_kind_that_is_not_supported_is_not_taken_for_another(tmp_path, capsys):
    """Opened as a BERT, a RoBERTa would give wrong numbers without a word."""
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    said = fails(capsys, "embed", tmp_path, "x", "--json")
    assert "Did you mean" not in said
    assert "not supported: got model_type 'roberta', expected one of bert, deit," in said


def test_a_gguf_file_is_named(tmp_path, capsys):
    (tmp_path / "m").mkdir()
    path = tmp_path / "m" / "model.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + bytes(200))
    for place in (path, path.parent):
        said = fails(capsys, "generate", place, "--prompt", "x")
        assert "is a GGUF file, the format of llama.cpp, which is not supported" in said
        assert "regard train" not in said


def test_weights_alone_are_named(gpt2, tmp_path, capsys):
    folder = hf(gpt2, tmp_path / "m")
    said = fails(capsys, "generate", folder / "model.safetensors", "--prompt", "x")
    assert "Give its folder, with config.json" in said


def test_what_the_system_refuses_has_a_name_and_a_remedy(trained, tmp_path, capsys):
    said = fails(capsys, "translate", trained, "--alignments", tmp_path / "absent" / "a.json")
    assert "[Errno" not in said
    assert "absent/a.json cannot be used: got No such file or directory. Check the path, and create its folder" in said
    said = fails(capsys, "translate", trained, "--alignments", tmp_path)
    assert "cannot be used: got Is a directory. Give a file, not a folder." in said


@pytest.mark.parametrize(("number", "codes"), [(signal.SIGINT, (130, -2)), (signal.SIGTERM, (143, -15))])
@pytest.mark.parametrize("wait", [0.02, 0.1, 0.3, 0.6, 0.9, 1.3])
def test_signals_in_the_first_second(trained, number, codes, wait):
    """From the moment on that the command begins; before that it is the interpreter that starts."""
    begun = "import sys; from regard.cli import main; print('begun', flush=True); sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", begun, "translate", str(trained)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    time.sleep(wait)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in codes, errors
    assert b"Traceback" not in errors, errors
    assert errors.decode() in ("", "regard: interrupted\n")


SIGNAL_IN_AN_IMPORT = """
import os, sys, time

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), int(os.environ["SIGNAL"]))
                time.sleep(0.1)
            except BaseException:  # as some modules do while they are imported
                pass

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_an_import_swallows_still_ends_the_command(trained, tmp_path, number, code):
    (tmp_path / "sitecustomize.py").write_text(SIGNAL_IN_AN_IMPORT)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*REGARD, "translate", str(trained)], input="", capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path, "SIGNAL": str(int(number))},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, "regard: interrupted\n")
