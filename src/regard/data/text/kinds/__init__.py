"""Tokenizers that can be learnt, one file a kind."""
