"""Generated trees of a small grammar, for the step on parsing.

    (S (NP (DT the) (NN man)) (VP (VBZ sees) (NP (NP (DT a) (NN bird)) (PP (IN with) (NP (DT a) (NN beak))))))
    (S (NP (DT the) (NN man)) (VP (VBZ sees) (NP (DT a) (NN bird)) (PP (IN with) (NP (DT a) (NN telescope)))))

What follows a preposition belongs to the noun or to the verb, and only the words say which: a parser has to learn that
for each noun. A clause may stand inside another one, so that sentences have from four to some twenty words.
"""

from __future__ import annotations

import random

_PEOPLE = ["man", "woman", "child", "teacher", "farmer", "singer", "doctor", "sailor"]
_ANIMALS = ["bird", "dog", "cat", "horse", "fox", "lion", "mouse", "cow"]
_ANIMAL_PARTS = ["beak", "tail", "mane", "coat", "paw", "whisker", "wing", "horn"]
_PERSON_PARTS = ["hat", "beard", "scarf", "smile", "coat", "limp", "moustache", "ring"]
_TOOLS = ["telescope", "camera", "lamp", "mirror", "drone", "lens", "torch", "radio"]
_ADJECTIVES = ["old", "young", "tired", "brown", "hungry", "wild", "small", "quiet"]
_SEES = ["sees", "watches", "finds", "follows", "films", "hears"]
_RUNS = ["sleeps", "runs", "waits", "sings", "falls", "rests"]
_SAYS = ["says", "thinks", "hopes", "fears", "knows"]


def trees(count: int, seed: int) -> list[str]:
    """`count` different trees, one per line; the same for the same seed."""
    dice, drawn = random.Random(seed), dict[str, None]()
    while len(drawn) < count:
        drawn[f"(S {_clause(dice, 1)} (. .))"] = None
    return list(drawn)


def _clause(dice: random.Random, deep: int) -> str:
    subject, kind = _noun(dice), dice.random()
    if deep and kind < 0.25:
        inner = f"(SBAR (IN that) (S {_clause(dice, deep - 1)}))"
        return f"{subject[0]} (VP (VBZ {dice.choice(_SAYS)}) {inner})"
    if kind < 0.45:
        return f"{subject[0]} (VP (VBZ {dice.choice(_RUNS)}))"
    verb, (thing, parts) = f"(VBZ {dice.choice(_SEES)})", _noun(dice)
    if kind < 0.6:
        return f"{subject[0]} (VP {verb} {thing})"
    if kind < 0.8:
        return f"{subject[0]} (VP {verb} (NP {thing} {_with(dice, parts)}))"
    return f"{subject[0]} (VP {verb} {thing} {_with(dice, _TOOLS)})"


def _with(dice: random.Random, nouns: list[str]) -> str:
    return f"(PP (IN with) (NP (DT a) {_adjective(dice)}(NN {dice.choice(nouns)})))"


def _noun(dice: random.Random) -> tuple[str, list[str]]:
    """A noun phrase, and the nouns that "with" may attach to it."""
    nouns, parts = dice.choice(((_PEOPLE, _PERSON_PARTS), (_ANIMALS, _ANIMAL_PARTS)))
    noun = f"(NP (DT {dice.choice(('the', 'a'))}) {_adjective(dice)}(NN {dice.choice(nouns)}))"
    if dice.random() < 0.15:
        noun = f"(NP {noun} (SBAR (WHNP (WDT that)) (S (VP (VBZ {dice.choice(_RUNS)})))))"
    return noun, parts


def _adjective(dice: random.Random) -> str:
    return f"(JJ {dice.choice(_ADJECTIVES)}) " if dice.random() < 0.4 else ""
