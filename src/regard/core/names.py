"""Makes names distinct: several classes of a model may have the same name (ImageNet has two cranes)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def distinct(names: Sequence[str]) -> list[str]:
    """The names; those that occur more than once get their index: a, b, a → a (0), b, a (2)."""
    counts = Counter(names)
    taken = {name for name, count in counts.items() if count == 1}
    made = []
    for number, name in enumerate(names):
        if counts[name] > 1:
            name = f"{name} ({number})"
            while name in taken:
                name += "'"
            taken.add(name)
        made.append(name)
    return made
