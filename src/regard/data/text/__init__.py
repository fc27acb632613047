"""How text becomes tokens, and tokens rows.

kinds       tokenizers that learn a vocabulary from lines of text, one file a kind
tokenizer   what all of them become once they have learnt
specials    which tokens are special
formats     tokenizers that others made, opened from their files
rows        one or two texts as BERT reads them; layout: which way of making rows a model needs
"""

from regard.data.text.formats import read_llama2c_tokenizer, read_tokenizer
from regard.data.text.rows import bert_rows
from regard.data.text.specials import Specials
from regard.data.text.tokenizer import Tokenizer, make_tokenizer

__all__ = ["Specials", "Tokenizer", "bert_rows", "make_tokenizer", "read_llama2c_tokenizer", "read_tokenizer"]
