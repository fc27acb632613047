"""Text to token ids and back, whatever the kind; kept on disk as the `tokenizer.json` of the `tokenizers` library.

The first four ids are the same for every tokenizer: 0 `<pad>`, 1 `<unk>`, 2 `<s>`, 3 `</s>`. They come from code only:
text that spells "</s>" is encoded as those four characters, so no input can end a sentence or hide a word.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers

from regard.core import lookup
from regard.core.errors import DataError, UnknownName, UsageError
from regard.core.weights import replacing
from regard.data.text._library import SPECIALS, guarded

_KINDS = "regard.data.text"
_REMEDY = "Give a tokenizer.json written by Tokenizer.save, or make one with make_tokenizer."


def kinds() -> tuple[str, ...]:
    """The kinds of tokenizer there are, by the listing of this folder."""
    return tuple(name for name in lookup.names(_KINDS) if name != "tokenizer")


def make_tokenizer(kind: str, lines: Iterable[str], **options: int | bool | None) -> Tokenizer:
    """A tokenizer of that kind, learnt from the lines: `make_tokenizer("bpe", lines, vocab_size=8000)`.

    One set of options serves every kind: those that this one does not ask for are left aside, as is None; what no kind
    asks for is refused.
    """
    if kind not in kinds():
        raise UnknownName("tokenizer", kind, kinds())
    known = {name for each in kinds() for name in inspect.signature(lookup.find(_KINDS, each)).parameters}
    for name in sorted(options.keys() - known):
        raise UnknownName("option of a tokenizer", name, known)
    return Tokenizer(lookup.build(_KINDS, kind, **options).train(lines))


class Tokenizer:
    """Wraps a trained `tokenizers.Tokenizer`; one without the four specials in their places is refused."""

    pad, unk, bos, eos = range(len(SPECIALS))

    def __init__(self, inner: tokenizers.Tokenizer, *, name: str = "the tokenizer") -> None:
        _check(inner, name)
        # None of these three is what a caller of encode_batch asked for, and the first is not kept in the file.
        inner.encode_special_tokens = True
        inner.no_padding()
        inner.no_truncation()
        self._inner = inner
        self.vocab_size: int = inner.get_vocab_size()

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        """The token ids of each line; no specials are added."""
        if isinstance(lines, str):
            raise UsageError("lines are given as a list", got="one str", remedy="Put it into a list.")
        with guarded("the text cannot be encoded", "Give a list of str of valid Unicode, and a sound tokenizer."):
            encoded = self._inner.encode_batch_fast(list(lines), add_special_tokens=False)
            return [encoding.ids for encoding in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        """The text; specials are left out."""
        known = self._known(ids)
        with guarded("the tokens cannot be decoded", _REMEDY):
            return self._inner.decode(known, skip_special_tokens=True)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """One label for each id, specials included; what does not show, such as a space or a line end, is spelt."""
        return [_visible(str(self._inner.id_to_token(i))) for i in self._known(ids)]

    def save(self, path: str | Path) -> None:
        """Write the file whole or not at all."""
        try:
            with replacing(path) as file:
                file.write(self._inner.to_str(pretty=True).encode())
        except OSError as error:
            raise DataError(f"{path} was not written", got=error, remedy="Make room, or write elsewhere.") from error

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read what `save` wrote."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path} cannot be read as a tokenizer", got=error, remedy=_REMEDY) from error
        with guarded(f"{path} is no usable tokenizer", _REMEDY):
            return cls(tokenizers.Tokenizer.from_str(text), name=str(path))

    def _known(self, ids: Sequence[int]) -> list[int]:
        known = [int(i) for i in ids]
        if bad := [i for i in known if not 0 <= i < self.vocab_size]:
            raise DataError("no token has this id", got=bad[0], expected=f"0 to {self.vocab_size - 1}")
        return known


def _check(inner: tokenizers.Tokenizer, name: str) -> None:
    added = inner.get_added_tokens_decoder()
    places = [str(added[i].content) if i in added and added[i].special else "(no special)" for i in range(4)]
    if tuple(places) != SPECIALS:
        wanted = f"{', '.join(SPECIALS)} as tokens 0 to 3"
        raise DataError(f"{name} is of another make", got=", ".join(places), expected=wanted, remedy=_REMEDY)
    if set(inner.get_vocab().values()) != set(range(inner.get_vocab_size())):
        raise DataError(f"{name} has gaps in its ids", expected="0, 1, 2, … for its tokens", remedy=_REMEDY)


def _visible(piece: str) -> str:
    return "".join("␣" if c == " " else c if c.isprintable() else ascii(c)[1:-1] for c in piece)
