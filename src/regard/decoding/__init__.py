"""Decoding: from a model that gives the next token's logits to whole outputs, by greedy or beam search or sampling."""

from regard.core.search import Search
from regard.decoding.loop import decode
from regard.decoding.result import Hypothesis

__all__ = ["Hypothesis", "Search", "decode"]
