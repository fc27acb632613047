"""Rows for BERT's pretraining: two text segments with some tokens masked (Devlin et al. 2019, §3.1, A.1).

A row is a run of sentences of one document that fits into `max_len` tokens. It is cut between two sentences (a single
sentence in its middle) into A and B. In half of the rows, B is replaced by sentences of another document. Then 15 % of
the tokens are chosen: 80 % of them become [MASK], 10 % a random token, 10 % stay, and the model predicts all of them.

Everything random about a row depends only on seed, epoch and the row's number. So each epoch masks other tokens
(dynamic masking, Liu et al. 2019), a resumed run gets the same rows, and batching changes nothing. Where we differ from
the published code: a single sentence is cut instead of always getting a random B, and B is not cut from the front.
"""

from __future__ import annotations

import numpy as np
import torch

from regard.core.batch import Batch, pad
from regard.core.errors import DataError
from regard.data.chance import Dice, Ints
from regard.data.documents import Sentences
from regard.data.epochs import Epochs
from regard.data.text import Tokenizer

NOT_ASKED = -100
CHOSEN, HIDDEN, REPLACED = 0.15, 0.8, 0.1
_POOL = 50


class MaskedRows(Epochs):
    """Batches with `input_ids`, `attention_mask`, `token_type_ids` and `labels` [B,T], −100 where nothing is predicted.

    With `pairs` also `pair_labels` [B]: 0 where B follows A, 1 where B is random. Without, a row is one text.
    Every row is in one batch of an epoch.
    """

    def __init__(
        self,
        text: Sentences,
        tokenizer: Tokenizer,
        *,
        max_len: int,
        rows: int,
        seed: int,
        pairs: bool = True,
        shuffle: bool = True,
    ) -> None:
        super().__init__(seed=seed, shuffle=shuffle)
        if pairs and text.documents < 2:
            raise DataError(
                "pairs of sentences need two documents or more",
                got=text.documents,
                remedy="Say how they are separated in data.documents, or set data.next_sentence to false.",
            )
        self.text, self.tokenizer, self.rows, self.pairs = text, tokenizer, rows, pairs
        self.room = max_len - (3 if pairs else 2)
        self._runs = _packed(text, self.room)
        special_ids = tokenizer.specials.non_text_ids()
        self._words = np.array(
            [i for i in range(tokenizer.vocab_size) if i not in special_ids and i != tokenizer.specials.unk]
        )

    def plan(self, number: int) -> list[Ints]:
        """Batches of rows with similar lengths, sorted within pools of some batches; the pools differ in each epoch."""
        lengths = self.text.starts[self._runs[:, 2]] - self.text.starts[self._runs[:, 1]]
        dice = Dice(self.seed, number)
        order = dice.order(len(lengths)) if self.shuffle else np.argsort(lengths, kind="stable")
        pools = [order[at : at + _POOL * self.rows] for at in range(0, len(order), _POOL * self.rows)]
        order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools])
        batches = [order[at : at + self.rows] for at in range(0, len(order), self.rows)]
        return [batches[k] for k in dice.order(len(batches))] if self.shuffle else batches

    def batch(self, rows: Ints, number: int) -> Batch:
        made = [self._row(row, Dice(self.seed, number, row)) for row in rows.tolist()]
        input_ids, attention_mask = pad([ids for ids, _, _, _ in made], value=self.tokenizer.pad)
        tensors = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": pad([segments for _, segments, _, _ in made], value=0)[0],
            "labels": pad([labels for _, _, labels, _ in made], value=NOT_ASKED)[0],
        }
        if self.pairs:
            tensors["pair_labels"] = torch.tensor([elsewhere for _, _, _, elsewhere in made])
        return Batch(tensors, tuple(rows.tolist()))

    def _row(self, row: int, dice: Dice) -> tuple[list[int], list[int], list[int], int]:
        """Ids, segments, labels, and whether B is random."""
        document, begin, end = self._runs[row].tolist()
        cls, sep, elsewhere = self.tokenizer.cls, self.tokenizer.sep, 0
        if not self.pairs:
            ids = [cls, *self.text.ids(begin, end), sep]
            segments = [0] * len(ids)
        else:
            first, second = self._halves(begin, end, dice)
            elsewhere = int(dice.share() < 0.5)
            if elsewhere:
                second = self._foreign(document, self.room - len(first), dice)
            ids = [cls, *first, sep, *second, sep]
            segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        hidden, labels = self._hidden(np.array(ids), dice)
        return hidden.tolist(), segments, labels.tolist(), elsewhere

    def _halves(self, begin: int, end: int, dice: Dice) -> tuple[list[int], list[int]]:
        if end - begin > 1:
            middle = begin + 1 + int(dice.below(end - begin - 1, 1)[0])
            return self.text.ids(begin, middle), self.text.ids(middle, end)
        ids = self.text.ids(begin, end)
        return ids[: len(ids) // 2], ids[len(ids) // 2 :]

    def _foreign(self, document: int, room: int, dice: Dice) -> list[int]:
        """Sentences of another document, starting at a random one, as many as fit."""
        other = int(dice.below(self.text.documents - 1, 1)[0])
        first, last = self.text.firsts[other + (other >= document) :][:2].tolist()
        begin = first + int(dice.below(last - first, 1)[0])
        end = begin + 1
        while end < last and self.text.starts[end + 1] - self.text.starts[begin] <= room:
            end += 1
        return self.text.ids(begin, end)[:room]

    def _hidden(self, ids: Ints, dice: Dice) -> tuple[Ints, Ints]:
        places = np.flatnonzero((ids != self.tokenizer.cls) & (ids != self.tokenizer.sep))
        count = max(1, round(CHOSEN * len(places)))
        chosen = places[dice.order(len(places))[:count]]
        share, random = dice.shares(count), self._words[dice.below(len(self._words), count)]
        kept = np.where(share < HIDDEN + REPLACED, random, ids[chosen])
        labels = np.full_like(ids, NOT_ASKED)
        labels[chosen] = ids[chosen]
        ids[chosen] = np.where(share < HIDDEN, self.tokenizer.mask, kept)
        return ids, labels


def _packed(text: Sentences, room: int) -> Ints:
    """(document, first sentence, end) of each row: as many sentences of a document as fit, in order."""
    runs, starts = [], np.asarray(text.starts)
    for document in range(text.documents):
        begin, last = text.firsts[document : document + 2].tolist()
        while begin < last:
            # The last sentence that ends within the limit; a single sentence always fits.
            end = int(np.searchsorted(starts, starts[begin] + room, side="right")) - 1
            end = min(max(end, begin + 1), last)
            runs.append((document, begin, end))
            begin = end
    return np.array(runs, dtype=np.int64)
