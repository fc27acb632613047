"""Which tokens are special: always the same four in our own vocabularies, in others those that their files name.

The files are those of Hugging Face: `tokenizer_config.json` and `special_tokens_map.json` give a special token's text
(`"pad_token": "[PAD]"`, or a mapping with its `content`), a model's `config.json` gives its id (`"pad_token_id": 0`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import tokenizers

from regard.core.errors import UsageError


@dataclass(frozen=True)
class Specials:
    """The ids of the special tokens; None if there is no such token."""

    pad: int | None = None
    unk: int | None = None
    bos: int | None = None
    eos: int | None = None
    cls: int | None = None
    sep: int | None = None
    mask: int | None = None

    def need(self, name: str) -> int:
        """The id of a special token that the caller needs."""
        token_id = getattr(self, name)
        if token_id is None:
            have = ", ".join(key for key, value in asdict(self).items() if value is not None) or "none"
            raise UsageError(
                f"the tokenizer has no {name} token",
                got=f"special tokens: {have}",
                remedy="Use a model whose tokenizer has one.",
            )
        assert isinstance(token_id, int)
        return token_id

    def non_text_ids(self) -> frozenset[int]:
        """The ids that no text may become. The unknown token is not among them, since unknown text becomes it."""
        return frozenset(id for name, id in asdict(self).items() if id is not None and name != "unk") - {self.unk}


NAMES = tuple(field.name for field in fields(Specials))
OURS = Specials(pad=0, unk=1, bos=2, eos=3)
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BERT_SPECIALS = Specials(pad=0, unk=1, cls=2, sep=3, mask=4)


def specials_of(inner: tokenizers.Tokenizer, *sources: Mapping[str, Any]) -> Specials:
    """The special tokens that the files name. For each, the first file that names a token of the vocabulary counts."""
    size = id_limit(inner)
    ids: dict[str, int] = {}
    for source in sources:
        for name in NAMES:
            text, number = spelt(source.get(f"{name}_token")), source.get(f"{name}_token_id")
            # Llama 3 has several ids that end a text; the first is the one to generate.
            number = number[0] if isinstance(number, list) and number else number
            id = inner.token_to_id(text) if text is not None else number
            if name not in ids and type(id) is int and 0 <= id < size:
                ids[name] = id
    return Specials(**ids)


def spelt(entry: Any) -> str | None:
    """The text of a token, which is given as text or as a mapping."""
    entry = entry.get("content") if isinstance(entry, Mapping) else entry
    return entry if isinstance(entry, str) else None


def named(inner: tokenizers.Tokenizer, specials: Specials) -> dict[str, str]:
    """`{"pad_token": "[PAD]", …}`, which `specials_of` can read."""
    known = {name: id for name, id in asdict(specials).items() if id is not None}
    return {f"{name}_token": str(inner.id_to_token(id)) for name, id in known.items()}


def id_limit(inner: tokenizers.Tokenizer) -> int:
    """The highest id plus one; a foreign vocabulary may have gaps below it."""
    return max(inner.get_vocab().values(), default=-1) + 1
