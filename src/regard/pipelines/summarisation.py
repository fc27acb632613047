"""Summarises documents, one per line. A document that is longer than those of the training is cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.core.errors import UsageError
from regard.pipelines._verbs import verb
from regard.pipelines.translation import Translation, TranslationPipeline


class SummarisationPipeline(TranslationPipeline):
    usage = 'echo "…" | regard summarise FOLDER'
    doing = "summarise"
    n_cut: int = 0
    """How many of the documents read so far were too long and were cut."""

    @verb("a summarisation model")
    def summarise(self, documents: Sequence[str], **options: Any) -> list[str]:
        """The best summary of each document; options are those of `Search`, such as beam=5. An empty document has an
        empty summary."""
        if isinstance(documents, str):
            raise UsageError("summarise takes a list of documents", got="one string", remedy="Put it into a list.")
        return self.translate([" ".join(document.split()) for document in documents], **options)

    @property
    def reads_at_most(self) -> int | None:
        """The number of tokens after which a document is cut."""
        most = self.stored.extra.get("max_document")
        return most if isinstance(most, int) and most > 0 else None

    def translate_nbest(self, lines: Sequence[str], **options: Any) -> list[list[Translation]]:
        """The best summaries of each document. By default a document may be as long as those of the training."""
        return super().translate_nbest(lines, **{"max_source": self._usual_source, **options})

    @property
    def _usual_source(self) -> int:
        return max(self.stored.search.max_source, self.reads_at_most or 0)

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        rows, most = super().encode_source(lines), self.reads_at_most
        self.n_cut += sum(most is not None and len(row) > most for row in rows)
        return [row[:most] for row in rows]
