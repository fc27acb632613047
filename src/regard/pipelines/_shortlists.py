"""Shortlists of a translator: made from parallel text, stored in a file, checked before they are used."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.core.errors import DataError, UsageError, WeightsError
from regard.core.weights import metadata, read_tensors, write
from regard.data.text import Tokenizer
from regard.data.text.lexicon import best_translations, frequent_tokens
from regard.runtime.shortlist import Shortlist

if TYPE_CHECKING:
    from regard.pipelines.translation import TranslationPipeline

_KEY = "vocabularies"


def make(
    model: TranslationPipeline, source: Sequence[str], target: Sequence[str], *, best: int = 50, frequent: int = 200
) -> Shortlist:
    """The `best` translations of each source token, and the most `frequent` target tokens, from parallel lines."""
    if best < 1 or frequent < 0:
        raise UsageError("a shortlist needs tokens", got=f"best {best}, frequent {frequent}", expected="1 or more")
    if len(source) != len(target) or not source:
        raise DataError(
            "a shortlist is made from pairs of lines",
            got=f"{len(source):,} source and {len(target):,} target lines",
            expected="the same number of both",
        )
    sides = model.source_tokenizer, model.target_tokenizer
    n_source, n_target = (side.vocab_size for side in sides)
    rows = [side.encode_batch(list(lines)) for side, lines in zip(sides, (source, target), strict=True)]
    table = best_translations(*rows, n_source=n_source, n_target=n_target, best=best)
    special = [token for token in (model.first_token, model.end_token, sides[1].unk) if token >= 0]
    common = frequent_tokens(rows[1], n_target=n_target, count=frequent)
    return Shortlist(table, torch.cat([common, torch.tensor(special)]).unique())


def save(shortlist: Shortlist, model: TranslationPipeline, path: str | Path) -> None:
    tensors = {"best": shortlist.best_SC.int(), "frequent": shortlist.frequent_F.int()}
    write(path, tensors, metadata={_KEY: _vocabularies(model)})


def load(path: str | Path, model: TranslationPipeline) -> Shortlist:
    """A shortlist that was made for this model's vocabularies."""
    if metadata(path).get(_KEY) != _vocabularies(model):
        raise DataError(
            f"{path} is no shortlist for this model",
            got="a file for other vocabularies",
            remedy="Make one: regard shortlist MODEL --source FILE --target FILE --out FILE",
        )
    tensors = read_tensors(path)
    best, frequent = tensors.get("best"), tensors.get("frequent")
    n_source, n_target = model.source_tokenizer.vocab_size, model.target_tokenizer.vocab_size
    if (
        best is None or frequent is None or best.dim() != 2 or len(best) != n_source or frequent.dim() != 1
        or not _fits(best, -1, n_target) or not _fits(frequent, 0, n_target)
    ):  # fmt: skip
        raise WeightsError(f"{path} is damaged", remedy="Make the shortlist again.")
    return Shortlist(best.long(), frequent.long())


def _fits(tokens: Tensor, least: int, below: int) -> bool:
    whole = not tokens.is_floating_point() and tokens.dtype != torch.bool
    return whole and (not tokens.numel() or (int(tokens.min()) >= least and int(tokens.max()) < below))


def _vocabularies(model: TranslationPipeline) -> str:
    return " ".join(map(_digest, (model.source_tokenizer, model.target_tokenizer)))


def _digest(tokenizer: Tokenizer) -> str:
    return hashlib.sha256("\0".join(tokenizer.pieces()).encode("utf-8", "surrogatepass")).hexdigest()
