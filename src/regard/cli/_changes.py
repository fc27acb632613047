"""Dotted changes of a recipe on the command line."""

from __future__ import annotations

from regard.core.errors import UsageError


def changes(words: list[str]) -> dict[str, str]:
    """`--training.lr 0.1` or `--training.lr=0.1` → {"training.lr": "0.1"}."""
    changed, queue = {}, list(words)
    while queue:
        word = queue.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not (equals or queue):
            raise UsageError(f"cannot read {word!r}", expected="--name value, with a name such as training.lr")
        changed[name] = value if equals else queue.pop(0)
    return changed
