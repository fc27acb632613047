"""The Transformer on one page runs as it is printed, learns to copy, and fits on a page."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "one_page.md"


@pytest.mark.slow
def test_the_page_runs_and_learns_to_copy(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert program.count("\n") <= 100
    exec(compile(program, str(PAGE), "exec"), {"__name__": "page"})
    printed = capsys.readouterr().out
    share = re.search(r"([\d.]+) % of the digits are copied", printed)
    assert share is not None
    assert float(share[1]) > 90, printed
    assert len(re.findall(r"update \d+: loss", printed)) == 4
