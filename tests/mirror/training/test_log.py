"""What a run says: in a terminal of 80 columns, and where there is none."""

import io
import re
import time

import pytest
from rich.console import Console

from regard.training import log as logs
from regard.training.log import Log, duration

FACTS = {"loss": 4.1234, "lr": 0.000312, "gradient": 1.2345, "target_tokens_per_second": 12345.6}


@pytest.fixture
def wide(monkeypatch):
    """`wide(80)`: logs write to a terminal of so many columns."""

    def set_width(width):
        monkeypatch.setattr(
            logs, "Console", lambda **given: Console(file=io.StringIO(), width=width, force_terminal=True)
        )

    return set_width


def drawn(log):
    """The bar as it stands, without colours."""
    page = Console(file=io.StringIO(), width=log.console.width)
    page.print(log._bar.get_renderable())
    return page.file.getvalue().rstrip("\n")


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_bar_and_the_time_left_stay_beside_the_numbers(wide, width, tmp_path):
    wide(width)
    log = Log(tmp_path, total=20000, step=0)
    for step in range(1, 4):
        log.advance(step * 5000)
        time.sleep(0.01)
    log.write(15000, **FACTS)
    text = drawn(log)
    log.close()
    assert "\n" not in text
    assert len(text) <= width
    assert "15000/20000" in text
    assert re.search(r"0:00:0\d 0:00:0\d", text), "elapsed, and left"
    assert len(re.findall("[━╸╺]", text)) >= 5, "the part of the bar that is done"
    if width >= 80:
        assert "loss 4.123" in text


def test_lines_say_the_time_left_where_there_is_no_terminal(tmp_path, capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = Log(tmp_path, total=2000, step=20)
    now[0] += 5
    log.write(70, **FACTS)
    now[0] += 7.5
    log.advance(120)
    log.advance(121)
    now[0] += 11
    log.advance(122)
    log.write(122, validation_loss=3.5)
    log.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("step 120/2000  loss 4.123  lr 0.000312  ")
    assert lines[0].endswith("  4 min left"), "1880 updates at 8 a second"
    assert lines[1].startswith("step 122/2000  loss")
    assert lines[2] == "step 122/2000  validation_loss 3.5  7 min left"


def test_the_end_and_an_unknown_end_have_no_time_left(tmp_path, capsys):
    for total in (10, None):
        log = Log(tmp_path, total=total, step=0)
        log.write(10, validation_loss=1.0)
        log.close()
    assert capsys.readouterr().err.splitlines() == ["step 10/10  validation_loss 1", "step 10  validation_loss 1"]


def test_durations():
    assert [duration(seconds) for seconds in (3.4, 59.4, 60, 3570, 3599, 7800)] == [
        "3 s", "59 s", "1 min", "1 h 0 min", "1 h 0 min", "2 h 10 min",
    ]  # fmt: skip


def test_a_run_that_is_longer_than_expected_counts_on(tmp_path, capsys):
    """Epochs differ in length, so that the total is an estimate."""
    log = Log(tmp_path, total=3)
    for step, loss in enumerate([3.0, 2.0, 2.0, 1.0], 1):
        log.advance(step, loss)
    log.tell_loss(4)
    log.tell_loss(4)
    log.close()
    assert capsys.readouterr().err.splitlines() == ["step 4/4  loss 2"]
    assert not (tmp_path / "log.jsonl").read_text()
