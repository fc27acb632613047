"""How results are shown: as a page, a picture, terminal output, or data. Imports `core` only."""

from regard.views.result import Curves, Heads, HeadSite, Matrix, Panel, Result, Table, Words

__all__ = ["Curves", "HeadSite", "Heads", "Matrix", "Panel", "Result", "Table", "Words"]
