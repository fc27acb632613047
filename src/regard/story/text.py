"""Generated English for the story: short sentences of a small grammar, so that every step runs without data.

Verbs agree with their subject, also across a clause ("the dogs that saw the cat run"), and adjectives choose nouns:
there is something to learn from the last word, from several words, and from words further away.
"""

from __future__ import annotations

import random

_PEOPLE = ["man", "woman", "child", "teacher", "doctor", "farmer", "king", "singer"]
_ANIMALS = ["dog", "cat", "horse", "bird", "cow", "fox", "mouse", "lion"]
_KINDS = {"old": _PEOPLE, "young": _PEOPLE, "tired": _PEOPLE, "wild": _ANIMALS, "brown": _ANIMALS, "hungry": _ANIMALS}
_SEES = [("sees", "see"), ("hears", "hear"), ("likes", "like"), ("follows", "follow"), ("feeds", "feed")]
_RUNS = [("runs", "run"), ("sleeps", "sleep"), ("waits", "wait"), ("sings", "sing"), ("falls", "fall")]
_PAST = ["saw", "heard", "liked", "followed", "fed"]
_PLACES = ["in the house", "near the river", "on the hill", "behind the tree", "at the market"]


def sentences(count: int, seed: int = 1) -> list[str]:
    """`count` sentences, the same for the same seed."""
    dice = random.Random(seed)
    return [_sentence(dice) for _ in range(count)]


def _sentence(dice: random.Random) -> str:
    subject, plural = _noun(dice)
    clause = f" that {dice.choice(_PAST)} {_noun(dice)[0]}" if dice.random() < 0.3 else ""
    seen = f"{dice.choice(_SEES)[plural]} {_noun(dice)[0]}"
    rest = seen if dice.random() < 0.5 else dice.choice(_RUNS)[plural]
    place = f" {dice.choice(_PLACES)}" if dice.random() < 0.5 else ""
    return f"{subject}{clause} {rest}{place} ."


def _noun(dice: random.Random) -> tuple[str, bool]:
    plural, kind = dice.random() < 0.5, dice.choice(sorted(_KINDS)) if dice.random() < 0.6 else None
    noun = dice.choice(_PEOPLE + _ANIMALS if kind is None else _KINDS[kind])
    many = {"man": "men", "woman": "women", "child": "children", "fox": "foxes", "mouse": "mice"}.get(noun, f"{noun}s")
    article = "the" if plural or dice.random() < 0.5 else "a"
    words = [article, *([kind] if kind else []), many if plural else noun]
    return " ".join(words), plural
