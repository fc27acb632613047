"""How text becomes tokens: one file a kind, found by its file name; each learns its vocabulary from lines of text.

`tokenizer.py` is no kind: it holds what all of them become once they have learnt.
"""

from regard.data.text.tokenizer import Tokenizer, make_tokenizer

__all__ = ["Tokenizer", "make_tokenizer"]
