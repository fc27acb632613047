"""Compiling the kernels: what may be missing or broken, and that nothing is then lost."""

import multiprocessing
import os
import shutil
import stat
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from regard.core import native
from regard.runtime.native import Missing, kernels

pytestmark = pytest.mark.skipif(isinstance(kernels(), Missing), reason="no C compiler to build the kernels with")

FORK = multiprocessing.get_context("fork")


class Asked:
    """A process that asks for compiled code, and says what it got. It is a fork, so it need not import torch again."""

    def __init__(self, cache: Path, *, build: bool = True, **environment: str) -> None:
        # A source of one line is compiled as the kernels are, in less time.
        source = cache.parent / "small.c"
        if not source.exists():
            source.write_text("long number(void) { return 1; }\n")
        self._answer, send = FORK.Pipe(duplex=False)
        self._process = FORK.Process(
            target=_say, args=(send, source, build, {"REGARD_CACHE": str(cache), **environment})
        )
        self._process.start()
        send.close()

    def answer(self) -> str:
        said: str = self._answer.recv()
        self._process.join()
        return said


def _say(answer: Connection, source: Path, build: bool, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    result = native.library(source, build=build)
    answer.send(result.reason if isinstance(result, Missing) else "kernels")


def tell(cache: Path, *, build: bool = True, **environment: str) -> str:
    """What a new process says of its kernels."""
    return Asked(cache, build=build, **environment).answer()


def test_they_are_compiled_once_and_then_opened(tmp_path):
    assert tell(tmp_path, build=False) == "the kernels are not compiled yet"
    assert tell(tmp_path) == "kernels"
    (file,) = (tmp_path / "native").iterdir()
    before = file.stat().st_mtime_ns
    assert tell(tmp_path, build=False) == tell(tmp_path) == "kernels"
    assert file.stat().st_mtime_ns == before


def test_without_a_compiler_there_is_a_reason(tmp_path):
    assert tell(tmp_path, PATH=str(tmp_path)) == "there is no C compiler (cc, gcc or clang)"


def test_a_compiler_that_fails_is_quoted_in_one_line(tmp_path):
    broken = tmp_path / "bin" / "cc"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'no room\non the disk' >&2\nexit 1\n")
    broken.chmod(0o755)
    said = tell(tmp_path / "cache", CC=str(broken))
    assert said == "the kernels could not be compiled: no room on the disk"


def test_a_cache_that_cannot_be_written_is_a_reason(tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    said = tell(tmp_path / "cache")
    assert said.startswith("the kernels could not be compiled: ")
    assert "\n" not in said


def test_a_damaged_file_is_compiled_again(tmp_path):
    tell(tmp_path)
    (file,) = (tmp_path / "native").iterdir()
    file.write_bytes(b"no library")
    assert tell(tmp_path, build=False) == "the kernels are not compiled yet"
    assert tell(tmp_path) == "kernels"


def test_what_others_may_write_is_not_opened(tmp_path):
    tell(tmp_path)
    (file,) = (tmp_path / "native").iterdir()
    file.chmod(file.stat().st_mode | stat.S_IWOTH)
    assert tell(tmp_path, build=False) == "the kernels are not compiled yet"
    file.chmod(0o700)
    file.parent.chmod(0o777)
    assert "others may write" in tell(tmp_path)


def test_two_processes_may_compile_at_once(tmp_path):
    both = [Asked(tmp_path), Asked(tmp_path)]
    assert [asked.answer() for asked in both] == ["kernels", "kernels"]
    assert len(list((tmp_path / "native").iterdir())) == 1


def test_another_cpu_or_compiler_gets_a_file_of_its_own(tmp_path):
    tell(tmp_path)
    other = tmp_path / "bin" / "cc"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo other; else exec {shutil.which("cc")} "$@"; fi\n')
    other.chmod(0o755)
    assert tell(tmp_path, CC=str(other)) == "kernels"
    assert len(list((tmp_path / "native").iterdir())) == 2


def test_they_can_be_switched_off(tmp_path):
    assert tell(tmp_path, REGARD_NATIVE="0") == "REGARD_NATIVE is 0"
