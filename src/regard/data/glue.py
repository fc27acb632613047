"""The tasks of GLUE (Wang et al. 2018): the files and columns of their folders, and their metrics.

A folder has `train.tsv` and `dev.tsv`, compressed (.gz) or not. STS-B may also be the STS benchmark, and MRPC its
original distribution. These have a test set with labels, which is used for evaluation. Every tenth training pair is
then the dev set, since GLUE's own dev set, of the same size, is not part of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regard.core.errors import DataError, UnknownName
from regard.core.lines import read_lines
from regard.data.tables import Column, Example, read_examples

_HELD_OUT = 10


@dataclass(frozen=True)
class GlueTask:
    """`classes` maps labels in the files to class names, in the order of the classes; empty for a regression."""

    name: str
    text: Column
    label: Column
    other: Column | None = None
    classes: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("accuracy",)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def regression(self) -> bool:
        return not self.classes

    def path(self, folder: Path, split: str) -> Path:
        """The file of the split `train`, `dev` or `test`."""
        path = self._file(folder, split)
        if path is None and split == "dev" and self.scored_split(folder) == "test":
            path = self._file(folder, "train")
        if path is None:
            names = " or ".join(self._names(split))
            remedy = f"Give the folder of {self.name} as GLUE's download creates it."
            raise DataError(f"{folder} lacks {names}", remedy=remedy)
        return path

    def scored_split(self, folder: Path) -> str:
        """The split to score a finished model on: dev, or the test set if it has labels."""
        return "dev" if self._file(folder, "test") is None else "test"

    def examples(self, folder: Path, split: str) -> list[Example]:
        """The examples of a split, with the names of their classes."""
        path = self.path(folder, split)
        text, other, label = self._columns(path)
        examples = read_examples(path, text=text, other=other, label=label)
        if split != "test" and self.scored_split(folder) == "test":
            examples = [example for row, example in enumerate(examples) if (row % _HELD_OUT == 0) == (split == "dev")]
        if self.regression:
            return examples
        for row, example in enumerate(examples, 1):
            if example.label not in self.classes:
                known = ", ".join(self.classes)
                raise DataError(f"row {row} of {path}: unknown class", got=repr(example.label[:40]), expected=known)
        return [Example(example.text, example.other, self.classes[example.label]) for example in examples]

    def _names(self, split: str) -> list[str]:
        # The test.tsv of GLUE's download has no labels.
        return [*([f"{split}.tsv"] if split != "test" else []), *self.files.get(split, ())]

    def _file(self, folder: Path, split: str) -> Path | None:
        if split == "test" and self._file(folder, "dev") is not None:
            return None  # GLUE's own dev set is used
        paths = [folder / (name + packed) for name in self._names(split) for packed in ("", ".gz")]
        return next((path for path in paths if path.is_file()), None)

    def _columns(self, path: Path) -> tuple[Column, Column | None, Column]:
        if self.name == "STS-B" and next(read_lines(path), "").startswith("index\t"):
            return "sentence1", "sentence2", "score"
        return self.text, self.other, self.label


TASKS = {
    task.name: task
    for task in (
        GlueTask("SST-2", "sentence", "label", classes={"0": "negative", "1": "positive"}),
        GlueTask("CoLA", 3, 1, classes={"0": "unacceptable", "1": "acceptable"}, metrics=("matthews",)),
        GlueTask(
            "MRPC",
            "#1 String",
            "Quality",
            "#2 String",
            classes={"0": "not_equivalent", "1": "equivalent"},
            metrics=("f1", "accuracy"),
            files={"train": ("msr_paraphrase_train.txt",), "test": ("msr_paraphrase_test.txt",)},
        ),
        GlueTask("STS-B", 5, 4, 6, metrics=("pearson", "spearman")),
        GlueTask(
            "RTE",
            "sentence1",
            "label",
            "sentence2",
            classes={"entailment": "entailment", "not_entailment": "not_entailment"},
        ),
    )
}


def glue_task(folder: Path) -> GlueTask:
    """The task that a folder is named after."""
    if folder.name not in TASKS:
        raise UnknownName("GLUE task (the folder's name)", folder.name, TASKS)
    return TASKS[folder.name]
