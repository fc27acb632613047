"""Where the sentences of a document end, for models that read sentences of words (HAN).

A sentence ends after . ! ? … and closing quotes or brackets, where a space follows; after the full stops of Chinese and
Japanese; and at a line break, which may be an HTML <br>. It does not end after a common abbreviation (Mr.) or an
initial (J. S. Bach), nor after dots or a quoted exclamation that a small letter follows ("No!" he said).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from regard.core.errors import UsageError
from regard.data.text.rows import Row, kept
from regard.data.text.tokenizer import Tokenizer

_LINE = re.compile(r"(?:<br\s*/?>|[\r\n\u2028\u2029])+", re.IGNORECASE)
_END = re.compile(r"""[.!?…]+['"”’»)\]]*\s+|[。！？]+[”’」』）]*\s*""")
_ABBREVIATION = re.compile(r"\b(?:(?i:mr|mrs|ms|dr|prof|st|vs|jr|sr|e\.g|i\.e|cf)|[A-HJ-ZÀ-Þ])\.\s+$")
_GOES_ON = re.compile(r"""(?:\.{2,}|…|[!?]['"”’»)\]]+)\s+$""")


def sentences(text: str) -> list[str]:
    """The sentences of a text without the spaces between them; none if it has no words."""
    return [part.strip() for line in _LINE.split(text) for part in _of_line(line) if part.strip()]


def _of_line(line: str) -> Iterator[str]:
    begin = 0
    for match in _END.finditer(line):
        end, following = match.end(), line[match.end() : match.end() + 1]
        # The longest abbreviation with its full stop and a few spaces: a whole line would make this quadratic.
        before = line[max(begin, end - 12) : end]
        goes_on = _GOES_ON.search(before) and following.islower()
        if not goes_on and not _ABBREVIATION.search(before):
            yield line[begin:end]
            begin = end
    yield line[begin:]


def sentence_rows(tokenizer: Tokenizer, texts: Sequence[str], others: Sequence[str] | None, max_len: int) -> list[Row]:
    """The ids of each text, and for each token the number of its sentence, from 0.

    The sentences of a second text follow those of the first. An empty text becomes one padding token, so that the
    model has an input.
    """
    if others is not None and len(others) != len(texts):
        got = f"{len(texts)} first texts, {len(others)} second texts"
        raise UsageError("pairs need as many first as second texts", got=got, remedy="Give two lists of equal length.")
    firsts = _numbered(tokenizer, texts)
    seconds: list[Row] = [([], []) for _ in texts] if others is None else _numbered(tokenizer, others)
    made = []
    for (ids, numbers), (more, more_numbers) in zip(firsts, seconds, strict=True):
        first, second = kept(len(ids), len(more), max_len)
        after = numbers[-1] + 1 if numbers else 0
        row = [*ids[:first], *more[:second]], [*numbers[:first], *(after + n for n in more_numbers[:second])]
        made.append(row if row[0] else ([tokenizer.filler], [0]))
    return made


def _numbered(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Row]:
    split = [sentences(text) for text in texts]
    encoded = iter(tokenizer.encode_batch([sentence for document in split for sentence in document]))
    rows: list[Row] = []
    for document in split:
        parts = [part for part in (next(encoded) for _ in document) if part]
        rows.append(([id for part in parts for id in part], [n for n, part in enumerate(parts) for _ in part]))
    return rows
