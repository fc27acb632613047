"""How results are shown: one page, a picture, the terminal, or data. Sees `core` only."""

from regard.views.result import Curves, Heads, HeadSite, Matrix, Panel, Result, Table, Words

__all__ = ["Curves", "HeadSite", "Heads", "Matrix", "Panel", "Result", "Table", "Words"]
