"""Whole words, as in the first attention models (Bahdanau et al. 2015): only the most frequent ones are known.

Text is split at white space, and each punctuation mark is a word. Spacing is lost: decoding puts one space between
words.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from regard.data.text._library import SPECIALS, UNK, check_sizes, fit, normaliser


def known_words(words: Iterable[str]) -> Tokenizer:
    """A tokenizer of given words, in their order after the special tokens; repetitions are left out."""
    tokenizer = Tokenizer(
        models.WordLevel({word: n for n, word in enumerate(dict.fromkeys([*SPECIALS, *words]))}, unk_token=UNK)
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = normaliser(False), pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(list(SPECIALS))
    return tokenizer


class Word:
    """At most `vocab_size` tokens, special tokens included, and only words seen at least `min_count` times."""

    def __init__(self, vocab_size: int = 30_000, *, lowercase: bool = False, min_count: int = 1) -> None:
        check_sizes(vocab_size, min_count)
        self.vocab_size, self.lowercase, self.min_count = vocab_size, lowercase, min_count

    def train(self, lines: Iterable[str]) -> Tokenizer:
        tokenizer = Tokenizer(models.WordLevel(unk_token=UNK))
        tokenizer.normalizer = normaliser(self.lowercase)
        apart = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(apart)
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_count,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        return fit(tokenizer, trainer, lines)
