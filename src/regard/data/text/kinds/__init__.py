"""Tokenizers that can be learnt, one file per kind."""
