"""The quickstart reaches what it promises (slow), and its corpus holds back what it tests with (quick)."""

import subprocess
import sys
from pathlib import Path

import pytest

from regard.data.datasets import expressions
from regard.runs import quickstart
from regard.runs.parsing import parse_recipe

COMMAND = Path(sys.executable).parent / "regard"


def test_its_recipe_is_a_recipe_like_any_other(tmp_path):
    assert parse_recipe(quickstart.recipe(tmp_path)).model.name == "transformer"


def test_what_it_is_tested_with_occurs_nowhere_in_training():
    trained = expressions.pairs(20000, split="train", seed=1, languages=quickstart.LANGUAGES, kinds=quickstart.KINDS)
    tested = {example.value for example in quickstart.held_out(2000)}
    assert not tested & {example.value for example in trained}
    assert len(quickstart.LANGUAGES) >= 12


@pytest.mark.slow
def test_it_learns_and_shows(tmp_path):
    """95 % of unseen dates and numbers exactly right, no language under 90 %."""
    done = subprocess.run([COMMAND, "quickstart", "--out", tmp_path / "q"], capture_output=True, text=True, check=True)
    assert "dimanche 15 novembre 2026" in done.stdout
    from regard import api

    found = quickstart.evaluate(api.load(tmp_path / "q"))
    assert found.all >= 0.95
    assert min(found.by_language.values()) >= 0.90
    again = subprocess.run(
        [COMMAND, "quickstart", "--out", tmp_path / "q"], capture_output=True, text=True, timeout=120
    )
    assert again.returncode == 0, "a second run finds everything done"
