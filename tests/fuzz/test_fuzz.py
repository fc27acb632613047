"""Spoiled files of every kind: an error that says what is wrong, or a result; nothing else, and never for long.

Cases follow from their number alone. One that fails is run again by `replay(target, number)`.
"""

import signal
import time
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from tests.fuzz.targets import TARGETS, Sound

from regard.core.errors import RegardError

FEW, MANY = 50, 2000
SECONDS = 2.0


class TooLong(BaseException):
    """Stops a case that would go on for ever."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Sound:
    return Sound(tmp_path_factory.mktemp("sound"))


@contextmanager
def stopped_after(seconds: float):
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def replay(sound: Sound, target: str, number: int, place: Path) -> str | None:
    """What is wrong with one case."""
    started = time.process_time()
    try:
        with stopped_after(4 * SECONDS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TARGETS[target](sound, place, Random(f"{target} {number}"))
    except RegardError:
        pass
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{number}: {type(error).__name__} {str(error)[:100]} at {Path(last.filename).name}:{last.lineno}"
    took = time.process_time() - started
    return f"{number}: {took:.1f} s" if took > SECONDS else None


def faults(sound: Sound, target: str, numbers: range, tmp_path: Path) -> list[str]:
    listed = []
    for number in numbers:
        place = tmp_path / str(number)
        place.mkdir()
        if fault := replay(sound, target, number, place):
            listed.append(fault)
    return listed


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_few_spoiled_files(sound, target, tmp_path):
    assert faults(sound, target, range(FEW), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_many_spoiled_files(sound, target, tmp_path):
    assert faults(sound, target, range(FEW, MANY), tmp_path) == []
