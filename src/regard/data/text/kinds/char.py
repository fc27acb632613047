"""Characters: every Unicode character of the text, composed if possible (NFC), is a token, also spaces and line ends.

Decoding joins them and returns the normalised text exactly.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.text._library import SPECIALS, UNK, fit

_ALL_OF_UNICODE = 0x110000


class Char:
    """The vocabulary holds the characters of the text, most frequent first."""

    def __init__(self, *, lowercase: bool = False) -> None:
        self.lowercase = lowercase

    def train(self, lines: Iterable[str]) -> Tokenizer:
        tokenizer = Tokenizer(models.WordLevel(unk_token=UNK))
        lower = [normalizers.Lowercase()] if self.lowercase else []
        tokenizer.normalizer = normalizers.Sequence([*lower, normalizers.NFC()])
        # "." would stop at line ends.
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        tokenizer.decoder = decoders.Fuse()
        trainer = trainers.WordLevelTrainer(
            vocab_size=_ALL_OF_UNICODE, min_frequency=0, special_tokens=list(SPECIALS), show_progress=False
        )
        return fit(tokenizer, trainer, lines)
