"""Documents as sentences on disk, for pretraining on pairs of sentences (Devlin et al. 2019, §3.1).

    tokens       the ids of all sentences, one after the other
    sentences    the offset of each sentence's first token, and the end
    documents    the number of each document's first sentence, and the end

A line may hold several sentences. A sentence ends at ".", "!" or "?" before a space and a character that can begin
another sentence. Errors at abbreviations do no harm here. Headings between sections (" = = Title = = ") are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.core.errors import DataError
from regard.data import arrays
from regard.data.arrays import Array
from regard.data.running_text import RunningText
from regard.data.text import Tokenizer

KIND = "regard.documents"
_TOGETHER = 4096
_END = re.compile(r"""(?:(?<=[.!?])|(?<=[.!?]["')\]]))\s+(?=["'(\[]?\s?[A-Z0-9])""")
_SECTION = re.compile(r" ?(= )+.*( =)+ ?$")


def sentences(text: RunningText) -> Iterator[str | None]:
    """Yield the sentences of the text, and None at the end of each document."""
    for line in text.lines():
        if line is None:
            yield None
        elif not (text.documents == "headings" and _SECTION.match(line.rstrip("\n"))):
            yield from (sentence for part in _END.split(line) if (sentence := part.strip()))


def encode_documents(text: RunningText, tokenizer: Tokenizer, folder: Path, *, longest: int) -> Sentences:
    """Write the text's sentences as token ids into the folder; sentences over `longest` tokens are split."""
    types = {"tokens": arrays.id_type(tokenizer.vocab_size), "sentences": "<i8", "documents": "<i8"}
    stream = sentences(text)
    with arrays.writing(folder, KIND, types, {}) as files:
        tokens, starts, firsts = files["tokens"], files["sentences"], files["documents"]
        firsts.write([0])
        begun = 0
        while chunk := list(islice(stream, _TOGETHER)):
            encoded = iter(tokenizer.encode_batch([sentence for sentence in chunk if sentence is not None]))
            for sentence in chunk:
                ids = next(encoded) if sentence is not None else []
                for at in range(0, len(ids), longest):
                    starts.write([tokens.items])
                    tokens.write(ids[at : at + longest])
                if sentence is None and starts.items > begun:
                    firsts.write([starts.items])
                    begun = starts.items
        if starts.items > begun:
            firsts.write([starts.items])
        if not starts.items:
            raise DataError(f"{', '.join(map(str, text.sources))} holds no sentences", remedy="Give files with text.")
        starts.write([tokens.items])
    return Sentences.open(folder)


@dataclass(frozen=True)
class Sentences:
    """Encoded documents, memory-mapped."""

    tokens: Array
    starts: Array
    firsts: Array

    @classmethod
    def open(cls, folder: Path) -> Sentences:
        files, _ = arrays.opened(folder, KIND)
        return cls(files["tokens"], files["sentences"], files["documents"])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def documents(self) -> int:
        return len(self.firsts) - 1

    def ids(self, begin: int, end: int) -> list[int]:
        """The tokens of sentences `begin` to `end`."""
        ids: list[int] = self.tokens[self.starts[begin] : self.starts[end]].tolist()
        return ids
