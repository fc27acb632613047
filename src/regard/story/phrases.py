"""English and French sentences of a small grammar, with the English word that each French word translates.

As in "the European Economic Area", "la zone économique européenne", adjectives stand before the noun in English and
after it in French, in the opposite order; the French article needs the noun's gender. Other words keep their order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_MALE = {"dog": "chien", "cat": "chat", "king": "roi", "doctor": "médecin", "horse": "cheval", "boy": "garçon"}
_FEMALE = {"girl": "fille", "woman": "femme", "queen": "reine", "cow": "vache", "mouse": "souris", "aunt": "tante"}
_ADJECTIVES = {"young": "jeune", "sad": "triste", "calm": "calme", "fast": "rapide", "wild": "sauvage"}
_ADJECTIVES |= {"rich": "riche", "poor": "pauvre", "strange": "étrange", "honest": "honnête"}
_ADJECTIVES |= {"brave": "brave", "huge": "énorme"}
_VERBS = {"sees": "voit", "hears": "entend", "follows": "suit", "likes": "aime", "feeds": "nourrit"}
_VERBS |= {"finds": "trouve"}
_PLACES = {"behind": "derrière", "before": "devant", "with": "avec", "without": "sans"}
_ARTICLES = {"the": ("le", "la"), "a": ("un", "une")}
KINDS = ("article", "noun", "adjective", "verb", "preposition")


@dataclass(frozen=True)
class Phrase:
    """A sentence pair; `links[t]` is the source word of target word t, `kinds[t]` is its kind."""

    source: list[str]
    target: list[str]
    links: list[int]
    kinds: list[str]


def phrases(count: int, seed: int) -> list[Phrase]:
    """`count` sentences, the same for the same seed."""
    dice = random.Random(seed)
    return [_sentence(dice) for _ in range(count)]


def _sentence(dice: random.Random) -> Phrase:
    parts = [_noun(dice), _word(dice, _VERBS, "verb"), _noun(dice)]
    if dice.random() < 0.4:
        parts += [_word(dice, _PLACES, "preposition"), _noun(dice)]
    whole = Phrase([], [], [], [])
    for part in parts:
        whole.links.extend(len(whole.source) + link for link in part.links)
        whole.source.extend(part.source)
        whole.target.extend(part.target)
        whole.kinds.extend(part.kinds)
    return whole


def _word(dice: random.Random, words: dict[str, str], kind: str) -> Phrase:
    english = dice.choice(sorted(words))
    return Phrase([english], [words[english]], [0], [kind])


def _noun(dice: random.Random) -> Phrase:
    adjectives = dice.sample(sorted(_ADJECTIVES), dice.choice((0, 1, 1, 2, 2)))
    noun, article = dice.choice(sorted(_MALE | _FEMALE)), dice.choice(sorted(_ARTICLES))
    after = [_ADJECTIVES[word] for word in reversed(adjectives)]
    french = [_ARTICLES[article][noun in _FEMALE], (_MALE | _FEMALE)[noun], *after]
    last = len(adjectives) + 1
    kinds = ["article", "noun", *["adjective"] * len(adjectives)]
    return Phrase([article, *adjectives, noun], french, [0, *range(last, 0, -1)], kinds)
