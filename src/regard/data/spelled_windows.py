"""Windows of running text with the characters of every word, for language models that read in both directions."""

from __future__ import annotations

import torch

from regard.core.batch import Batch
from regard.data.arrays import Array
from regard.data.chance import Ints
from regard.data.text.spelling import SpellingTokenizer
from regard.data.windows import Windows


class SpelledWindows(Windows):
    """Batches of `input_ids` [B,T] and `characters` [B,T,50]. A window ends with the word that begins the next, so that
    in an epoch in order every word but the first is predicted forwards, and every word but the last backwards."""

    def __init__(
        self, tokens: Array, tokenizer: SpellingTokenizer, *, context: int, rows: int, seed: int, shuffle: bool = True
    ) -> None:
        super().__init__(tokens, context=context, rows=rows, seed=seed, shuffle=shuffle)
        self.tokenizer = tokenizer

    def batch(self, rows: Ints, number: int) -> Batch:
        pair = super().batch(rows, number)
        ids = torch.cat([pair["input_ids"][:, :1], pair["labels"]], 1)
        return Batch({"input_ids": ids, "characters": self.tokenizer.characters(ids)}, pair.rows)
