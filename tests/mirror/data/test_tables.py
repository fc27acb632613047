"""Tables of examples: named and numbered columns, quoting only in CSV, GLUE's folders as they come."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.core.errors import DataError, UnknownName
from regard.data.glue import TASKS, glue_task
from regard.data.tables import Example, read_examples


def test_tabs_without_quoting(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('label\ttext\n1\tsay "hi\n\n0\ta, b\r\n')
    assert read_examples(path, text="text", label="label") == [
        Example('say "hi', None, "1"),
        Example("a, b", None, "0"),
    ]
    assert len(read_examples(path, text=1)) == 3
    assert len(read_examples(path, text=1, header=True)) == 2


def test_commas_with_quoting(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'"3","one, ""two""","and\nmore"\n'))
    assert read_examples(path, text=1, other=2, label=0) == [Example('one, "two"', "and\nmore", "3")]


def test_what_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\nfine\t1\nnot\n")
    with pytest.raises(DataError, match=r"line 3 of .*a\.tsv lacks a column: got 1 columns, expected at least 2"):
        read_examples(path, text="text", label="label")
    with pytest.raises(UnknownName, match="Did you mean 'label'"):
        read_examples(path, text="text", label="lable")
    with pytest.raises(DataError, match="no column -1"):
        read_examples(path, text=-1)
    path.write_text("text\tlabel\n")
    with pytest.raises(DataError, match="holds no rows"):
        read_examples(path, text="text")
    path.write_text("")
    with pytest.raises(UnknownName):
        read_examples(path, text="text")
    bad = tmp_path / "b.csv"
    bad.write_text('"open\n')
    with pytest.raises(DataError, match=r"line 1 of .*b\.csv is no CSV"):
        read_examples(bad, text=0)


COUNTS = {"SST-2": (67_349, 872), "CoLA": (8_551, 1_043), "MRPC": (3_668, 408), "STS-B": (5_749, 1_500)}
COUNTS["RTE"] = (2_490, 277)


@pytest.mark.parametrize("name", TASKS)
def test_glue_as_it_is(name: str, data: Path) -> None:
    folder = data / "glue" / name
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    task = glue_task(folder)
    train, dev = task.examples(folder, "train"), task.examples(folder, "dev")
    assert (len(train), len(dev)) == COUNTS[name]
    assert task.scored_split(folder) == ("test" if name == "MRPC" else "dev")
    if name == "MRPC":
        assert not {(example.text, example.other) for example in train} & {
            (example.text, example.other) for example in dev
        }
        assert len(task.examples(folder, "test")) == 1_725
    assert all(example.text.strip() for example in train)
    assert (train[0].other is None) == (name in ("SST-2", "CoLA"))
    if task.regression:
        assert all(0 <= float(example.label) <= 5 for example in [*train, *dev])
    else:
        assert {example.label for example in train} == set(task.classes.values())


def test_glues_own_stsb_and_wrong_folders(tmp_path: Path) -> None:
    folder = tmp_path / "STS-B"
    folder.mkdir()
    with pytest.raises(DataError, match=r"lacks dev\.tsv"):
        TASKS["STS-B"].examples(folder, "dev")
    names = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    (folder / "dev.tsv").write_text(names + "0\tg\tf\ty\to\ts\ts\tone\ttwo\t2.5\n")
    assert TASKS["STS-B"].examples(folder, "dev") == [Example("one", "two", "2.5")]
    with pytest.raises(UnknownName, match="Did you mean 'SST-2'"):
        glue_task(tmp_path / "SST2")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nfine\t2\n")
    with pytest.raises(DataError, match="row 1 of .*: unknown class: got '2', expected 0, 1"):
        TASKS["SST-2"].examples(tmp_path, "dev")
