"""Decoding: generates whole outputs from a model's next-token logits, by greedy search, beam search or sampling."""

from regard.core.search import Search
from regard.decoding.batches import decode
from regard.decoding.decoder import Decoder
from regard.decoding.event import Event
from regard.decoding.request import Request, SpecialTokens
from regard.decoding.result import Hypothesis

__all__ = ["Decoder", "Event", "Hypothesis", "Request", "Search", "SpecialTokens", "decode"]
