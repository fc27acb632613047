"""WordPiece (Schuster & Nakajima 2012, as in BERT): a word is split greedily into the longest known pieces.

Pieces inside a word begin with "##". The pieces are learnt by byte-pair merges, as in the library's own trainer. But
that trainer numbers its first pieces in the order of a randomly seeded hash table, so two runs on the same text
disagree. Here the merges are learnt with "▁" at the start of each word, which is deterministic, and then renamed:
"▁the" begins a word and becomes "the"; "ing" is inside a word and becomes "##ing". Spacing is lost: decoding puts one
space between words, and punctuation marks are words.

With `marks="bert"` the tokenizer is BERT's own (Devlin et al. 2019) with a vocabulary learnt here: its five special
tokens come first, and text is cleaned and split as BERT does, so that a `vocab.txt` of the pieces describes it fully.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.core.errors import UnknownName
from regard.data.text._library import LOOKALIKE, SPECIALS, WORD_START, check_alphabet, check_sizes, fit, normaliser
from regard.data.text.specials import BERT, BERT_SPECIALS, OURS

_INSIDE = "##"
_SPECIAL_TOKENS = {"ours": SPECIALS, "bert": BERT}


class Wordpiece:
    """Pairs seen fewer than `min_count` times are not merged. A word with an unseen character is one unknown token."""

    def __init__(
        self, vocab_size: int = 10_000, *, lowercase: bool = False, min_count: int = 2, marks: str = "ours"
    ) -> None:
        check_sizes(vocab_size, min_count)
        if marks not in _SPECIAL_TOKENS:
            raise UnknownName("set of special tokens", marks, _SPECIAL_TOKENS)
        self.vocab_size, self.lowercase, self.min_count = vocab_size, lowercase, min_count
        self.special_tokens, self._as_bert = _SPECIAL_TOKENS[marks], marks == "bert"
        self.specials = BERT_SPECIALS if self._as_bert else OURS

    def train(self, lines: Iterable[str]) -> Tokenizer:
        pieces = self._vocabulary(self._merges(lines))
        tokenizer = Tokenizer(
            models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token=self.special_tokens[1])
        )
        tokenizer.normalizer = self._normaliser()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(self._words())
        # Cleaning up would also change the text itself: "do not" would become "don't".
        tokenizer.decoder = decoders.WordPiece(_INSIDE, cleanup=False)
        tokenizer.add_special_tokens(list(self.special_tokens))
        if self._as_bert:
            # For other programs that read the file; here `rows.py` adds the special tokens.
            tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        return tokenizer

    def _merges(self, lines: Iterable[str]) -> list[str]:
        """Characters, then merged pieces, most frequent first; "▁" marks the start of each word."""
        learner = Tokenizer(models.BPE(unk_token=self.special_tokens[1]))
        learner.normalizer = normalizers.Sequence([self._normaliser(), normalizers.Replace(WORD_START, LOOKALIKE)])
        word_starts = pre_tokenizers.Metaspace(WORD_START, prepend_scheme="always", split=False)
        learner.pre_tokenizer = pre_tokenizers.Sequence([*self._words(), word_starts])
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab_size,
            min_frequency=self.min_count,
            special_tokens=list(self.special_tokens),
            show_progress=False,
        )
        vocab = fit(learner, trainer, lines).get_vocab()
        return sorted(vocab, key=vocab.__getitem__)[len(self.special_tokens) :]

    def _vocabulary(self, merges: list[str]) -> list[str]:
        """Special tokens, each character at the start of and inside a word, then as many merges as fit."""
        letters = [piece for piece in merges if len(piece) == 1 and piece != WORD_START]
        first = [*self.special_tokens, *letters, *(_INSIDE + letter for letter in letters)]
        check_alphabet(len(first), self.vocab_size)
        longer = [piece for piece in merges if len(piece) > 1]
        named = [piece[1:] if piece.startswith(WORD_START) else _INSIDE + piece for piece in longer]
        return list(dict.fromkeys([*first, *named]))[: self.vocab_size]

    def _normaliser(self) -> normalizers.Normalizer:
        return normalizers.BertNormalizer(lowercase=self.lowercase) if self._as_bert else normaliser(self.lowercase)

    def _words(self) -> list[pre_tokenizers.PreTokenizer]:
        if self._as_bert:
            return [pre_tokenizers.BertPreTokenizer()]
        return [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
