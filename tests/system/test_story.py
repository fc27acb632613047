"""The story: every step says what it is, runs offline through the command, and its page's numbers come out again."""

import csv
import json
import math
import re
from pathlib import Path

import pytest
from tests.system.commands import one_line, run

from regard import story

PAGES = Path(__file__).parents[2] / "docs" / "story"
REBUILT = {
    "recurrent": {"03_recurrent_factor_per_step.csv": 1e-3, "03_recurrent_gradient_by_distance.csv": 1e-3},
    # Counts are exact; what nets learn differs a little from CPU to CPU.
    "counts": {"02_counts_perplexity_by_order.csv": 0.05},
}


def test_steps_are_a_thread():
    steps = story.all_steps()
    numbers = [step.NUMBER for step in steps.values()]
    assert numbers == sorted(set(numbers))
    for step in steps.values():
        assert step.TITLE
        assert len(step.LECTURE.split()) > 30
        assert all(command.startswith(("regard ", "python ")) for command in step.COMMANDS)


@pytest.mark.parametrize("name", ["recurrent", pytest.param("counts", marks=pytest.mark.slow)])
def test_a_page_comes_out_again(name, tmp_path):
    done = run("story", name, "--out", tmp_path / "out", "--pages", tmp_path / "pages")
    assert done.returncode == 0, done.stderr
    assert story.find_step(name).TITLE in done.stdout
    assert any(verdict in done.stdout for verdict in ("HOLDS", "DOES NOT HOLD HERE"))
    for file, tolerance in REBUILT[name].items():
        stored, made = (
            list(csv.reader((folder / file).read_text().splitlines())) for folder in (PAGES, tmp_path / "pages")
        )
        assert [len(row) for row in made] == [len(row) for row in stored]
        for old, new in zip(stored, made, strict=True):
            for first, second in zip(old, new, strict=True):
                _same(first, second, tolerance)
    page = (tmp_path / "pages" / f"{story.find_step(name).NUMBER:02d}_{name}.md").read_text()
    assert f"regard story {name}" in page
    assert name in json.loads((tmp_path / "pages" / "claims.json").read_text())


def _same(first, second, tolerance):
    try:
        numbers = float(first), float(second)
    except ValueError:
        assert first == second
    else:
        if abs(numbers[0]) > 1e-3:  # below that stand standard deviations of numbers that are all but equal
            assert math.isclose(*numbers, rel_tol=tolerance), (first, second)


def test_every_page_has_its_figure_and_numbers():
    listed = json.loads((PAGES / "claims.json").read_text())
    steps = {name for name in listed if not name.endswith(" --full")}
    assert steps == set(story.all_steps()), "run `regard story --pages docs/story`"
    for entry in listed.values():
        text = (PAGES / entry["page"]).read_text()
        assert (PAGES / entry["page"].replace(".md", ".svg")).exists()
        for claim in entry["claims"]:
            assert claim["says"] in text
            assert claim["says"] in (PAGES / "index.md").read_text()
        assert "![" in text
        if not entry["name"].endswith(" --full"):
            trials = getattr(story.find_step(entry["name"]), "TRIALS", "").strip()
            assert trials in text
            assert bool(trials) == ("## Tried before" in text)


def test_each_table_of_a_page_has_a_file_of_its_own():
    for page in PAGES.glob("[0-9]*.md"):
        files = re.findall(r"\]\((\S+\.csv)\)", page.read_text(encoding="utf-8"))
        assert files
        assert len(set(files)) == len(files), page.name
        written = {file.name for file in PAGES.glob(f"{page.stem}_*.csv")}
        if not page.stem.endswith("_full"):
            written -= {name for name in written if name.startswith(f"{page.stem}_full_")}
        assert written == set(files)


def test_listing_and_unknown_steps():
    assert "Recurrent nets" in run("story", "--steps").stdout
    assert "recurrent" in one_line(run("story", "recurent"), 2)
