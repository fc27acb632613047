"""Byte-pair encoding (Sennrich et al. 2016): frequent neighbours are merged, starting from characters.

Each word carries its space as "▁" at its start (Kudo & Richardson 2018), and the text as a whole gets one more, so
that a word is the same token at the start of a line and inside it. Decoding returns the normalised text exactly, with
every space. Pieces never span letters and punctuation, so "dog" is the same token in "dog" and "dog.", and no piece can
spell a special token such as "</s>".
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.text._library import SPECIALS, UNK, WORD_START, check_alphabet, check_sizes, fit, normaliser


class Bpe:
    """Pairs seen fewer than `min_count` times are not merged. An unseen character is one unknown token.

    `split_digits` makes every digit a token, so that what is learnt about numbers also holds for unseen ones.
    """

    def __init__(
        self,
        vocab_size: int = 10_000,
        *,
        lowercase: bool = False,
        min_count: int = 2,
        split_digits: bool = False,
    ) -> None:
        check_sizes(vocab_size, min_count)
        self.vocab_size, self.lowercase, self.min_count = vocab_size, lowercase, min_count
        self.split_digits = split_digits

    def train(self, lines: Iterable[str]) -> Tokenizer:
        tokenizer = Tokenizer(models.BPE(unk_token=UNK))
        # Metaspace could mark the start itself, but it would keep a leading space unchanged and so lose it.
        tokenizer.normalizer = normalizers.Sequence([normaliser(self.lowercase), normalizers.Prepend(" ")])
        word_starts = pre_tokenizers.Metaspace(WORD_START, prepend_scheme="never")
        digits = [pre_tokenizers.Digits(individual_digits=True)] if self.split_digits else []
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [word_starts, pre_tokenizers.Punctuation("contiguous"), *digits]
        )
        tokenizer.decoder = decoders.Metaspace(WORD_START, prepend_scheme="always")
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_count,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        fit(tokenizer, trainer, lines)
        check_alphabet(tokenizer.get_vocab_size(), self.vocab_size)
        return tokenizer
