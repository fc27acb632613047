"""Bytes: every byte of the text in UTF-8 is a token, also spaces and line ends.

The vocabulary is the 256 bytes and the special tokens, whatever the text; nothing is ever unknown. Decoding returns the
normalised text exactly; bytes that are no UTF-8, which a model may write, become U+FFFD.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.data.text._library import SPECIALS, NoText, fit


class Byte:
    """There is nothing to learn, but an empty text is refused, since it must be a mistake."""

    def __init__(self, *, lowercase: bool = False) -> None:
        self.lowercase = lowercase

    def train(self, lines: Iterable[str]) -> Tokenizer:
        tokenizer = Tokenizer(models.BPE())
        lower = [normalizers.Lowercase()] if self.lowercase else []
        tokenizer.normalizer = normalizers.Sequence([*lower, normalizers.NFC()])
        # The library writes each byte as a printable character.
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        # The vocabulary is full before any merge, so there are none. The text is read to find broken lines.
        trainer = trainers.BpeTrainer(
            vocab_size=len(SPECIALS) + len(alphabet),
            initial_alphabet=alphabet,
            special_tokens=list(SPECIALS),
            show_progress=False,
        )
        counted = _Counted(lines)
        fit(tokenizer, trainer, counted)
        if not counted.characters:
            raise NoText("no text to learn a vocabulary from", remedy="Check that the files hold text.")
        return tokenizer


class _Counted:
    """Lines that count their characters as they are read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines, self.characters = lines, 0

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.characters += len(line)
            yield line
