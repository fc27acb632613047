"""Parsing as translation: from the words of a sentence to the brackets of its tree (Vinyals et al. 2015)."""

from __future__ import annotations

from regard.tasks.translation import Translation


class Parsing(Translation):
    """The loss is that of the brackets, one token each."""
