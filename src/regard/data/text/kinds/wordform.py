"""Words with inner apostrophes and hyphens: "it'll" and "second-rate" are words. Other punctuation marks are words too.

This is how the words of a document are counted in the lexicon features of the lecture (Jurafsky & Martin, ch. 5, whose
example has 66 of them). Decoding puts one space between words.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from regard.data.text._library import SPECIALS, UNK, check_sizes, fit, normaliser

_WORD = r"\w+(?:['’\-]\w+)*|[^\w\s]"


class Wordform:
    """At most `vocab_size` tokens, special tokens included, and only words seen at least `min_count` times."""

    def __init__(self, vocab_size: int = 30_000, *, lowercase: bool = False, min_count: int = 1) -> None:
        check_sizes(vocab_size, min_count)
        self.vocab_size, self.lowercase, self.min_count = vocab_size, lowercase, min_count

    def train(self, lines: Iterable[str]) -> Tokenizer:
        tokenizer = Tokenizer(models.WordLevel(unk_token=UNK))
        tokenizer.normalizer = normaliser(self.lowercase)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(_WORD), "isolated")]
        )
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_count,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        return fit(tokenizer, trainer, lines)
