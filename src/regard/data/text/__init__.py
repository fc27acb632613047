"""How text becomes tokens, and tokens become rows.

kinds       tokenizers that learn a vocabulary from lines of text, one file per kind
tokenizer   the trained tokenizer, the same class for all kinds
specials    which tokens are special
formats     tokenizers from other libraries, read from their files
rows        one or two texts in BERT's layout; layout: which layout a model needs
"""

from regard.data.text._library import NoText
from regard.data.text.formats import read_llama2c_tokenizer, read_tokenizer
from regard.data.text.rows import bert_rows
from regard.data.text.specials import Specials
from regard.data.text.tokenizer import Tokenizer, make_tokenizer

__all__ = ["NoText", "Specials", "Tokenizer", "bert_rows", "make_tokenizer", "read_llama2c_tokenizer", "read_tokenizer"]
