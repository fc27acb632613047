"""Words as the text separates them: at white space and nowhere else, for text that is split into words already.

The Penn Treebank's text for language models is of this kind: "mr. <unk> is chairman of <unk> n.v. …". The word
`<unk>` in it is the unknown token. Other special tokens that a text spells are unknown words. Decoding puts one space
between words.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from regard.data.text._library import SPECIALS, UNK, check_sizes, fit


class Space:
    """At most `vocab_size` tokens, special tokens included, and only words seen at least `min_count` times."""

    def __init__(self, vocab_size: int = 30_000, *, lowercase: bool = False, min_count: int = 1) -> None:
        check_sizes(vocab_size, min_count)
        self.vocab_size, self.lowercase, self.min_count = vocab_size, lowercase, min_count

    def train(self, lines: Iterable[str]) -> Tokenizer:
        tokenizer = _splitting(models.WordLevel(unk_token=UNK))
        if self.lowercase:
            tokenizer.normalizer = normalizers.Lowercase()
        trainer = trainers.WordLevelTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_count,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        # A text that holds the word <unk> would make it an ordinary word of the vocabulary.
        fit(tokenizer, trainer, (_without_specials(line) for line in lines))
        tokenizer.add_special_tokens(list(SPECIALS))
        return tokenizer


def of_words(words: Iterable[str]) -> Tokenizer:
    """A tokenizer of this kind that knows these words, after the special tokens."""
    vocabulary = {word: number for number, word in enumerate([*SPECIALS, *words])}
    tokenizer = _splitting(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.add_special_tokens(list(SPECIALS))
    return tokenizer


def _without_specials(line: str) -> str:
    return " ".join(word for word in line.split() if word not in SPECIALS) if "<" in line else line


def _splitting(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer
