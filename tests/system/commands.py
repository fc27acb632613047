"""The command as a program of its own, and the one line that it says when something is wrong."""

import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).parent / "regard"


def run(*words: object, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run([COMMAND, *map(str, words)], input=text, capture_output=True, text=True, timeout=300)


def one_line(done: subprocess.CompletedProcess, code: int) -> str:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("regard: ")
    return line
