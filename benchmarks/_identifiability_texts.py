"""The texts of `identifiability.py`: pairs of MRPC, stories that a model tells, sentences joined to a length."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.data.glue import TASKS

SEED = 1
STORIES, STORY = 48, 255  # stories told, and the tokens of each at most


def mrpc(data: Path) -> list[Any]:
    """The pairs of MRPC's test set."""
    found = TASKS["MRPC"].examples(data / "glue" / "MRPC", "test")
    random.Random(SEED).shuffle(found)
    return found


def told(model: Any, work: Path) -> list[str]:
    """Stories that the model tells, sampled once."""
    path = work / "stories.json"
    if not path.is_file():
        found = model.generate([""] * STORIES, max_tokens=STORY, temperature=1.0, seed=SEED)
        path.write_text(json.dumps([one.text.strip() for one in found]))
    return list(json.loads(path.read_text()))


def story_sentences(model: Any, work: Path) -> list[str]:
    """The different sentences of those stories, in any order; the end of a story that was cut off is left out."""
    found = dict.fromkeys(
        part.strip()
        for text in told(model, work)
        for part in re.findall(r"[^.!?]+[.!?]", text)
        if len(part.split()) > 5
    )
    return random.Random(SEED).sample(list(found), len(found))


def sizes(model: Any, texts: list[str]) -> list[int]:
    """Tokens of each, without marks."""
    return [len(row) for row in model.tokenizer.encode_batch(texts)]


def joined(model: Any, sentences: list[str], target: int) -> Iterator[str]:
    """Texts of several sentences, as long as fits into `target` tokens."""
    text, size = "", 2
    for sentence, more in zip(sentences, sizes(model, sentences), strict=True):
        if text and size + more > target:
            yield text
            text, size = "", 2
        text, size = f"{text} {sentence}".strip(), size + more
