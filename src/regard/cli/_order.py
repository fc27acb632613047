"""Puts options before texts: argparse accepts no further text once an option has come between."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence


def options_first(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """The words of a verb with its options, and their values, before all others; what follows `--` stays last."""
    takes = {name: action.nargs != 0 for action in parser._actions for name in action.option_strings}
    several = {name for action in parser._actions for name in action.option_strings if action.nargs in ("+", "*", "?")}
    options, texts, waiting = list[str](), list[str](), list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            return [*options, "--", *texts, *waiting]
        name = word.partition("=")[0]
        known = name in takes or (word.startswith("--") and len(_named(takes, name)) == 1)
        if not known:
            texts.append(word)
            continue
        full = name if name in takes else _named(takes, name)[0]
        if full in several:  # the number of its values is not known here
            return [*options, *texts, word, *waiting]
        options.append(word)
        if takes[full] and "=" not in word and waiting:
            options.append(waiting.pop(0))
    return [*options, *texts]


def _named(names: Iterable[str], start: str) -> list[str]:
    """The options that an abbreviation may stand for."""
    return [name for name in names if name.startswith(start)]
