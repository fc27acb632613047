"""Which parts of a text a language model reproduces word for word when it is given their beginning."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any

from regard.core.errors import UsageError
from regard.explain.language_models import begin_ids, token_ids

_TOKENS = 2**14
_WORD = re.compile(r"(?<=[\w,] )[^\W\d_]{2,}|\b\d+(?:[.,:/-]\d+)*\b")


@dataclass(frozen=True)
class Continuation:
    """One prompt, and how many of the generated tokens equal the text before the first difference."""

    prompt: str
    written: str
    agreed: int
    whole: bool
    names: list[str]
    """Numbers, and capitalised words inside a sentence, that were reproduced and were not in the prompt."""


def continuations(
    model: Any, text: str, *, prompts: int, prompt: int, length: int, seed: int = 0
) -> list[Continuation]:
    """Continue the text from the beginnings of random parts of it, and compare with the text itself."""
    ids, begin = token_ids(model, text), begin_ids(model)
    longest = getattr(model.model, "longest", None)
    if longest is not None and len(begin) + prompt + length > longest:
        raise UsageError(
            "prompt and length together exceed the model's positions",
            got=f"{prompt} + {length} tokens",
            expected=f"at most {longest - len(begin)} together",
            remedy="Give a smaller prompt or length.",
        )
    room = len(ids) - prompt - length
    if room < 0:
        raise UsageError("the text is too short", got=f"{len(ids)} tokens", expected=f"at least {prompt + length}")
    starts = sorted(random.Random(seed).sample(range(room + 1), min(prompts, room + 1)))
    search = model.stored.search.model_copy(
        update={"beam": 1, "nbest": 1, "sample": False, "max_length": None, "max_ratio": 1.0, "max_extra": length,
                "min_length": 0, "no_repeat_ngram": 0, "repetition_penalty": 1.0, "forbidden": ()}
    )  # fmt: skip
    stretches = []
    at_once = max(1, _TOKENS // (prompt + length))
    for first in range(0, len(starts), at_once):
        chosen = starts[first : first + at_once]
        rows = [[*begin, *ids[start : start + prompt]] for start in chosen]
        for start, (written, _, _) in zip(chosen, model.decode_ids(rows, search), strict=True):
            stretches.append(_compared(model, ids, start, prompt, length, written))
    return stretches


def _compared(model: Any, ids: list[int], start: int, prompt: int, length: int, written: list[int]) -> Continuation:
    given, real = ids[start : start + prompt], ids[start + prompt : start + prompt + length]
    agreed = next((i for i, (a, b) in enumerate(zip(real, written, strict=False)) if a != b), min(length, len(written)))
    decode = model.tokenizer.decode
    before = decode(given)
    low, high = len(before), len(decode([*given, *real[:agreed]]))
    # Some text after the end shows whether the last word is complete.
    around = decode(ids[start : start + prompt + length + 4])
    words = [match[0] for match in _WORD.finditer(around) if match.start() >= low and match.end() <= high]
    new = list(dict.fromkeys(word for word in words if (word.istitle() or word[0].isdigit()) and word not in before))
    return Continuation(before, decode(written), agreed, agreed == length, new)
