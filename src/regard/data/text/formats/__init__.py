"""Tokenizers of other libraries, read from their files. Nothing in them is executed; a broken file is one error.

detect          which files a folder holds, and the entry point `read_tokenizer`
vocabulary      vocab.txt (BERT), vocab.json and merges.txt (GPT-2)
spm             a sentencepiece model file, read without its library
sentencepiece   such a model as a tokenizer: Llama's, T5's, and the two of a Marian folder
llama2c         the tokenizer.bin of llama2.c
"""

from regard.data.text.formats.detect import read_tokenizer
from regard.data.text.formats.llama2c import read_llama2c_tokenizer

__all__ = ["read_llama2c_tokenizer", "read_tokenizer"]
