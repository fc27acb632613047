"""How text becomes tokens: one file a kind, found by its file name; each learns its vocabulary from lines of text.

Four are no kinds: `tokenizer.py` holds what all of them become once they have learnt, `specials.py` says which tokens
are marks, `foreign/` opens the tokenizers of others, `rows.py` lays one or two texts out as BERT reads them.
"""

from regard.data.text.foreign import read_llama2c_tokenizer, read_tokenizer
from regard.data.text.rows import bert_rows
from regard.data.text.specials import Specials
from regard.data.text.tokenizer import Tokenizer, make_tokenizer

__all__ = ["Specials", "Tokenizer", "bert_rows", "make_tokenizer", "read_llama2c_tokenizer", "read_tokenizer"]
