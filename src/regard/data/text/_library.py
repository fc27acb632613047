"""What all kinds of tokenizers need of the `tokenizers` library, and guards against two of its problems.

The library is written in Rust and may panic; Python sees a `BaseException` that `except Exception` does not catch. And
after a fork it prints a warning unless a setting says whether to use threads: a child must not, because the thread pool
does not survive the fork; the parent may.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tokenizers import Tokenizer, normalizers

from regard.core.errors import DataError, RegardError, UsageError

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
UNK = SPECIALS[1]
# Marks the start of a word in a vocabulary; in text, this character is replaced by a similar one.
WORD_START, LOOKALIKE = "▁", "_"
_THREADS = "TOKENIZERS_PARALLELISM"
_ours: list[bool] = []


class NoText(DataError):
    """There is nothing to learn a vocabulary from."""


def _before_fork() -> None:
    _ours.append(_THREADS not in os.environ)
    os.environ.setdefault(_THREADS, "false")


def _after_fork_in_parent() -> None:
    if _ours.pop():
        os.environ.pop(_THREADS, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent)


@contextmanager
def guarded(what: str, remedy: str) -> Iterator[None]:
    """Turn the library's exceptions and panics into a DataError; other errors pass."""
    try:
        yield
    except RegardError:
        raise
    except BaseException as error:
        # It raises plain `Exception`s, and these three if an argument cannot be converted for Rust.
        theirs = type(error) is Exception or isinstance(error, (UnicodeEncodeError, TypeError, OverflowError))
        if not theirs and type(error).__name__ != "PanicException":
            raise
        raise DataError(what, got=str(error).partition("\n")[0][:200], remedy=remedy) from error


def normaliser(lowercase: bool) -> normalizers.Sequence:
    """Composed characters (NFC), lower-cased if requested, and without "▁"."""
    lower = [normalizers.Lowercase()] if lowercase else []
    return normalizers.Sequence([*lower, normalizers.NFC(), normalizers.Replace(WORD_START, LOOKALIKE)])


def fit(tokenizer: Tokenizer, trainer: Any, lines: Iterable[str]) -> Tokenizer:
    """Learn from the lines; an empty text is an error, since every token would be unknown."""
    with guarded("the tokenizer cannot learn from this text", "Give an iterable of str, each a line of valid Unicode."):
        tokenizer.train_from_iterator(iter(lines), trainer)
    if tokenizer.get_vocab_size() <= len(SPECIALS):
        raise NoText("no text to learn a vocabulary from", remedy="Check that there is text; check min_count.")
    return tokenizer


def check_sizes(vocab_size: int, min_count: int) -> None:
    if vocab_size <= len(SPECIALS):
        raise UsageError("vocab_size is too small", got=vocab_size, expected=f"more than {len(SPECIALS)}")
    if min_count < 1:
        raise UsageError("min_count is too small", got=min_count, expected="1 or more")


def check_alphabet(needed: int, vocab_size: int) -> None:
    """Refuse a vocabulary size that cannot hold all characters, instead of silently exceeding it."""
    if needed > vocab_size:
        raise DataError(
            "the vocabulary cannot hold every character of the text",
            got=f"vocab_size {vocab_size}",
            expected=f"at least {needed}",
            remedy="Raise vocab_size, or clean the text of stray characters.",
        )
