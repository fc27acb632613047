"""Summarisation as translation: from a document to its summary or title."""

from __future__ import annotations

from regard.tasks.translation import Translation


class Summarisation(Translation):
    """The loss is that of the summary's tokens."""
