"""Documents with their summaries: two columns of a table (`tables.py`), as pairs for a model that reads one and writes
the other. Line breaks become spaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.core.errors import DataError
from regard.data.parallel import Report
from regard.data.tables import Column, read_table


@dataclass(frozen=True)
class Summaries:
    """The rows from `skip` on, at most `take` of them, so that one file can be split."""

    path: Path
    text: Column
    summary: Column
    header: bool | None = None
    skip: int = 0
    take: int | None = None

    def pairs(self, report: Report | None = None) -> Iterator[tuple[str, str]]:
        """Yield document and summary of each row that has both; the report also counts the others."""
        report = Report() if report is None else report
        rows = read_table(self.path, [self.text, self.summary], self.header)
        last = None if self.take is None else self.skip + self.take
        for row in islice(rows, self.skip, last):
            report.pairs += 1
            document, summary = (" ".join(cell.split()) for cell in row)
            if document and summary:
                report.kept += 1
                yield document, summary
            else:
                report.empty += 1
        if not report.pairs:
            raise DataError(f"{self.path} has no rows after row {self.skip}", remedy="Check the file, skip and take.")
