"""A llama2.c checkpoint, with its tokenizer at the end of the file or beside it as tokenizer.bin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core import weights
from regard.core.search import Search
from regard.data.text import read_llama2c_tokenizer
from regard.models import config_of
from regard.store.llama2c_file import is_checkpoint, read_llama2c
from regard.store.sizes import Extent, empty_model
from regard.store.stored_model import StoredModel


def recognises(path: Path, config: Mapping[str, Any] | None) -> bool:
    return path.is_file() and is_checkpoint(path)


def load(path: Path, config: Mapping[str, Any] | None) -> StoredModel:
    checkpoint = read_llama2c(path)
    model_config = config_of("llama", checkpoint.options, where=str(path))
    model = empty_model("llama", model_config, Extent(len(checkpoint.tensors), path.stat().st_size), str(path))
    weights.load_into(model, checkpoint.tensors)
    beside = path.with_name("tokenizer.bin")
    data = checkpoint.rest or (beside.read_bytes() if beside.is_file() else b"")
    tokenizer = read_llama2c_tokenizer(data, checkpoint.options["vocab_size"]) if data else None
    # Training joined stories with the beginning token between them, so it is also the end token.
    extra = {"tokens": {"bos": 1, "eos": 1, "pad": 1}, "begin": True}
    return StoredModel(
        "language_model", "llama", model_config, model.eval(), tokenizer, tokenizer, Search(beam=1), extra=extra
    )
