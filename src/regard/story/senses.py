"""Generated sentences with words of two senses, for the step on pretrained models.

    the lender owned  the bank  in the morning .      words before it decide
    the man saw       the bank  near the boat .       words after it decide
    the rower reached the bank  near the boat .       both do

All sentences have nine words, and the word of two senses is always the fifth: its position says nothing. Sentences of
the third kind are only in the training text: they make it useful to know the topic on both sides of the word.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

PLACE = 4
"""The position of the word of two senses, counted from 0."""
WORDS = {"bank": ("money", "river"), "bat": ("game", "cave"), "seal": ("palace", "sea")}
_TOPICS = {
    "money": ("clerk lender banker", "owned funded audited", "loan vault office",
              ("with the cash", "by the contract", "for the interest")),
    "river": ("fisher swimmer rower", "washed flooded reached", "stream shore reed",
              ("near the boat", "under the willow", "above the water")),
    "game": ("player coach pitcher", "swung gripped broke", "ball glove helmet",
             ("behind the goal", "during the match", "across the pitch")),
    "cave": ("keeper ranger biologist", "woke fed banded", "owl moth mouse",
             ("inside the cave", "within the forest", "at the dusk")),
    "palace": ("notary queen scribe", "stamped melted signed", "wax stamp letter",
               ("upon the paper", "from the palace", "beside the ink")),
    "sea": ("diver sailor captain", "trained spotted tagged", "whale fish otter",
            ("through the waves", "off the coast", "beyond the ice")),
}  # fmt: skip
_NEUTRAL = ("man woman child", "saw found liked", ("in the morning", "on the monday", "after the summer"))


@dataclass(frozen=True)
class Use:
    """A sentence with a word of two senses, and whether the words before or after it decide which is meant."""

    word: str
    topic: str
    side: str
    text: str


def held_out() -> list[Use]:
    """Sentences that are not in the training text: a third of those in which one side decides."""
    return _split()[0]


def training_lines(count: int) -> list[str]:
    """`count` sentences: half with a word of two senses, half with other objects. Both sides give the topic in half."""
    dice, (_, uses) = random.Random(1), _split()
    senses = [(word, topic) for word, topics in WORDS.items() for topic in topics]
    plain = [(word, topic) for topic, parts in _TOPICS.items() for word in parts[2].split()]
    lines = []
    for _ in range(count):
        word, topic = dice.choice(senses if dice.random() < 0.5 else plain)
        side = "both" if dice.random() < 0.5 else dice.choice(SIDES)
        known = [use.text for use in uses if (use.word, use.topic, use.side) == (word, topic, side)]
        lines.append(dice.choice(known or _texts(word, topic, side)))
    return lines


def minimal_pairs(side: str) -> list[tuple[str, str]]:
    """Pairs of sentences that use a word in its two senses and differ only on the given side of it."""
    return [
        pair
        for word, topics in WORDS.items()
        for pair in zip(*(_texts(word, topic, side) for topic in topics), strict=True)
    ]


SIDES = ("before", "after")


def _split() -> tuple[list[Use], list[Use]]:
    uses = [
        Use(word, topic, side, text)
        for word, topics in WORDS.items()
        for topic in topics
        for side in SIDES
        for text in _texts(word, topic, side)
    ]
    random.Random(2).shuffle(uses)
    return uses[: len(uses) // 3], uses[len(uses) // 3 :]


def _texts(word: str, topic: str, side: str) -> list[str]:
    """All sentences with this object in which the given side (or "both") gives the topic."""
    people, verbs, _, ends = _TOPICS[topic]
    if side == "before":
        ends = _NEUTRAL[2]
    elif side == "after":
        people, verbs = _NEUTRAL[:2]
    return [
        f"the {person} {verb} the {word} {end} ."
        for person, verb, end in itertools.product(people.split(), verbs.split(), ends)
    ]
