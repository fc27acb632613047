"""Text to token ids and back, for all kinds; stored as the `tokenizer.json` of the `tokenizers` library.

The first four ids are the same for every tokenizer made here: 0 `<pad>`, 1 `<unk>`, 2 `<s>`, 3 `</s>`. Other tokenizers
have the special tokens that their files name (see `specials.py`), stored beside `tokenizer.json` in
`tokenizer_config.json`. In both cases only code adds special tokens: text that spells "</s>" is encoded as those four
characters, so no input can end a sentence or mask a word. `transformers` differs: it reads such text as special.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, processors

from regard.core import lookup
from regard.core.errors import DataError, UnknownName, UsageError
from regard.core.weights import replacing
from regard.data.text import _bytes
from regard.data.text._library import SPECIALS, guarded
from regard.data.text._limits import check_length, checked_growth
from regard.data.text.specials import OURS, Specials, id_limit, named, specials_of
from regard.data.text.words import WordMarks

_KINDS = "regard.data.text.kinds"
_REMEDY = "Give a tokenizer.json written by Tokenizer.save, or make one with make_tokenizer."
Offsets = list[tuple[int, int]]


def kinds() -> tuple[str, ...]:
    """The names of all kinds of tokenizers, from the listing of `kinds/`."""
    return lookup.names(_KINDS)


def make_tokenizer(kind: str, lines: Iterable[str], **options: int | bool | str | None) -> Tokenizer:
    """Train a tokenizer of that kind on the lines: `make_tokenizer("bpe", lines, vocab_size=8000)`.

    The same options serve every kind: options that this kind does not take are ignored, as is None; options that no
    kind takes are refused.
    """
    if kind not in kinds():
        raise UnknownName("tokenizer", kind, kinds())
    known = {name for each in kinds() for name in inspect.signature(lookup.find(_KINDS, each)).parameters}
    for name in sorted(options.keys() - known):
        raise UnknownName("option of a tokenizer", name, known)
    made = lookup.build(_KINDS, kind, **options)
    return Tokenizer(made.train(lines), getattr(made, "specials", None))


class Tokenizer:
    """Wraps a trained `tokenizers.Tokenizer`; without `specials` it must hold our four special tokens as ids 0 to 3.

    Ids of `size` and above are unknown: a sentencepiece model may hold pieces that the vocabulary of its translation
    model lacks.
    """

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        specials: Specials | None = None,
        *,
        size: int | None = None,
        name: str = "the tokenizer",
        growth: int = 1,
    ) -> None:
        self.specials = OURS if specials is None else specials
        names_ours = tuple(named(inner, self.specials).values()) == SPECIALS
        self._ours = specials is None or (specials == OURS and names_ours)
        if self._ours:
            _check(inner, name)
        # Callers of encode_batch want none of these three, and the first is not stored in the file.
        inner.encode_special_tokens = True
        inner.no_padding()
        inner.no_truncation()
        self._inner, self._growth = inner, growth
        top = id_limit(inner)
        self.vocab_size: int = top if size is None else min(size, top)
        self._spare, self._special_ids = self.vocab_size < top, self.specials.non_text_ids()
        self._bytes = isinstance(inner.decoder, decoders.ByteLevel)

    @property
    def pad(self) -> int:
        return self.specials.need("pad")

    @property
    def unk(self) -> int:
        return self.specials.need("unk")

    @property
    def bos(self) -> int:
        return self.specials.need("bos")

    @property
    def eos(self) -> int:
        return self.specials.need("eos")

    @property
    def cls(self) -> int:
        return self.specials.need("cls")

    @property
    def sep(self) -> int:
        return self.specials.need("sep")

    @property
    def mask(self) -> int:
        return self.specials.need("mask")

    @property
    def filler(self) -> int:
        """The id that pads rows where a mask hides it: pad, or a substitute if there is none."""
        return next((id for id in (self.specials.pad, self.specials.eos) if id is not None), 0)

    @property
    def begins(self) -> bool:
        """Whether its file says that a text begins with bos; `encode_batch` leaves that to its caller."""
        with guarded("the tokenizer cannot encode", _REMEDY):
            return self.specials.bos is not None and self._inner.encode("a").ids[:1] == [self.specials.bos]

    def beginning(self) -> Tokenizer:
        """A copy whose file says that a text begins with bos."""
        bos, inner = str(self._inner.id_to_token(self.bos)), tokenizers.Tokenizer.from_str(self._inner.to_str())
        inner.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, self.bos)]
        )
        return Tokenizer(inner, self.specials, size=self.vocab_size, growth=self._growth)

    def ending(self) -> Tokenizer:
        """A copy whose file says that a text ends with eos."""
        eos, inner = str(self._inner.id_to_token(self.eos)), tokenizers.Tokenizer.from_str(self._inner.to_str())
        inner.post_processor = processors.TemplateProcessing(
            single=f"$A {eos}", pair=f"$A {eos} $B {eos}", special_tokens=[(eos, self.eos)]
        )
        return Tokenizer(inner, self.specials, size=self.vocab_size)

    def as_data(self) -> dict[str, Any]:
        """The contents of its file, as a copy that the caller may change."""
        data: dict[str, Any] = json.loads(self._inner.to_str())
        return data

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        """The token ids of each line, without special tokens."""
        self._check_lines(lines)
        with guarded("the text cannot be encoded", "Give a list of str of valid Unicode, and an intact tokenizer."):
            encoded = self._inner.encode_batch_fast(list(lines), add_special_tokens=False)
            return [self._text_only(encoding.ids) for encoding in encoded]

    def offsets_batch(self, lines: Sequence[str]) -> list[Offsets]:
        """For each token of `encode_batch`, its first character in the line and the one after its last."""
        self._check_lines(lines)
        with guarded("the text cannot be encoded", "Give a list of str of valid Unicode, and an intact tokenizer."):
            return [encoding.offsets for encoding in self._inner.encode_batch(list(lines), add_special_tokens=False)]

    def decode(self, ids: Sequence[int], *, unknown: bool = False) -> str:
        """The text, without special tokens; if `unknown`, whole words that are unknown are shown, as <unk>."""
        known = self._known(ids)
        with guarded("the tokens cannot be decoded", _REMEDY):
            if unknown and self.specials.unk in known and isinstance(self._inner.model, models.WordLevel):
                text = [i for i in known if i == self.specials.unk or i not in self._hidden_ids]
                return self._inner.decode(text, skip_special_tokens=False)
            return self._inner.decode(known, skip_special_tokens=True)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """One label for each id, special tokens included; invisible characters, such as spaces, are spelt out."""
        pieces = [str(self._inner.id_to_token(i) or "") for i in self._known(ids)]
        return [_visible(_bytes.text(piece) if self._bytes else piece) for piece in pieces]

    def pieces(self) -> list[str]:
        """The spelling of every id, as it is in the vocabulary; "" for an id without a token."""
        spellings = [""] * self.vocab_size
        for piece, number in self._inner.get_vocab().items():
            if number < self.vocab_size:
                spellings[number] = piece
        return spellings

    def whole_words(self) -> dict[int, str]:
        """The text, by id, of tokens that are a whole word or begin one, without word markers; no special tokens."""
        special = self._special_ids | {self.specials.unk}
        spelt = ((number, self._word_marks.begun(piece)) for number, piece in enumerate(self.pieces()))
        return {number: word for number, word in spelt if word and number not in special}

    def words(self, ids: Sequence[int]) -> list[tuple[str, list[int]]]:
        """The words that the ids form: the text of each and the indices of its tokens, in order."""
        known, labels = self._known(ids), self.tokens(ids)
        groups = self._word_marks.groups([str(self._inner.id_to_token(i) or "") for i in known])
        return [(self._word([known[n] for n in group], [labels[n] for n in group]), group) for group in groups]

    @functools.cached_property
    def _word_marks(self) -> WordMarks:
        return WordMarks.of(self._inner)

    @functools.cached_property
    def _hidden_ids(self) -> set[int]:
        """The tokens that are not text, by the tokenizer's own file."""
        return {number for number, token in self._inner.get_added_tokens_decoder().items() if token.special}

    def _word(self, ids: list[int], labels: list[str]) -> str:
        """The text of these ids, or their labels if they have no text, like a special token or a single space."""
        if self._word_marks == WordMarks():
            return labels[0]
        joined = "".join(labels)
        if self.specials.unk in ids or not self._special_ids.isdisjoint(ids):
            return joined.strip("▁") or joined
        return self.decode(ids).strip() or joined

    def save(self, path: str | Path) -> list[Path]:
        """Write the file, all or nothing, and beside it the names of its special tokens if they are not ours.

        Return the paths of the files.
        """
        path, beside = Path(path), _beside(path)
        texts = {path: self._inner.to_str(pretty=True)}
        if not self._ours:
            texts[beside] = json.dumps(self.described(), indent=2, ensure_ascii=False) + "\n"
        try:
            beside.unlink(missing_ok=True)  # a file of another tokenizer would be read as this one's
            for place, text in texts.items():
                with replacing(place) as file:
                    file.write(text.encode())
        except OSError as error:
            raise DataError(f"{path} was not written", got=error, remedy="Make room, or write elsewhere.") from error
        return list(texts)

    def described(self) -> dict[str, Any]:
        """Its `tokenizer_config.json` for Hugging Face's libraries."""
        size = {"vocab_size": self.vocab_size} if self._spare else {}
        names = named(self._inner, self.specials)
        return {"tokenizer_class": "PreTrainedTokenizerFast", **names, **size, "clean_up_tokenization_spaces": False}

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read the files that `save` wrote."""
        path, beside = Path(path), _beside(Path(path))
        try:
            text = path.read_text(encoding="utf-8")
            config = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else None
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{path} cannot be read as a tokenizer", got=error, remedy=_REMEDY) from error
        if config is not None and not isinstance(config, dict):
            raise DataError(f"{beside} is not a mapping", got=type(config).__name__, remedy=_REMEDY)
        growth = checked_growth(text, str(path))
        with guarded(f"{path} is not a usable tokenizer", _REMEDY):
            inner = tokenizers.Tokenizer.from_str(text)
            if config is None:
                return cls(inner, name=str(path), growth=growth)
            size = config.get("vocab_size")
            known = size if type(size) is int and size > 0 else None
            return cls(inner, specials_of(inner, config), size=known, name=str(path), growth=growth)

    def _check_lines(self, lines: Sequence[str]) -> None:
        if isinstance(lines, str):
            raise UsageError("lines must be a list", got="one str", remedy="Put it into a list.")
        if self._growth > 1:
            for line in lines:
                check_length(line, self._growth, "a text")

    def _text_only(self, ids: list[int]) -> list[int]:
        """Replace ids of spare pieces, and of special tokens that a foreign vocabulary treats as text."""
        if not self._spare and self._special_ids.isdisjoint(ids):
            return ids
        unk = self.specials.unk
        kept = [unk if i >= self.vocab_size or i in self._special_ids else i for i in ids]
        return [i for i in kept if i is not None]

    def _known(self, ids: Sequence[int]) -> list[int]:
        known = [int(i) for i in ids]
        if bad := [i for i in known if not 0 <= i < self.vocab_size]:
            raise DataError("no token has this id", got=bad[0], expected=f"0 to {self.vocab_size - 1}")
        return known


def _beside(path: Path) -> Path:
    """tokenizer.json → tokenizer_config.json, target_tokenizer.json → target_tokenizer_config.json."""
    return path.with_name(f"{path.stem}_config.json")


def _check(inner: tokenizers.Tokenizer, name: str) -> None:
    added = inner.get_added_tokens_decoder()
    places = [str(added[i].content) if i in added and added[i].special else "(not special)" for i in range(4)]
    if tuple(places) != SPECIALS:
        wanted = f"{', '.join(SPECIALS)} as tokens 0 to 3"
        raise DataError(f"{name} was not made by regard", got=", ".join(places), expected=wanted, remedy=_REMEDY)
    if set(inner.get_vocab().values()) != set(range(inner.get_vocab_size())):
        raise DataError(f"{name} has gaps in its ids", expected="0, 1, 2, … for its tokens", remedy=_REMEDY)


def _visible(piece: str) -> str:
    return "".join("␣" if c == " " else c if c.isprintable() else ascii(c)[1:-1] for c in piece)
