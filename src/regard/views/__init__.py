"""How results are shown: as a page, a picture, terminal output, or data. Imports `core` only."""

from regard.views.result import Curves, Document, Heads, HeadSite, Matrix, Panel, Result, Table, Words

__all__ = ["Curves", "Document", "HeadSite", "Heads", "Matrix", "Panel", "Result", "Table", "Words"]
