"""Decoding: from a model that gives the next token's logits to whole outputs, by greedy or beam search or sampling."""

from regard.core.search import Search
from regard.decoding.batches import decode
from regard.decoding.decoder import Decoder
from regard.decoding.event import Event
from regard.decoding.request import Request, SpecialTokens
from regard.decoding.result import Hypothesis

__all__ = ["Decoder", "Event", "Hypothesis", "Request", "Search", "SpecialTokens", "decode"]
