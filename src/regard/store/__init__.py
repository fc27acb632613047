"""Reads and writes models on disk. `formats/` has one file per format; nothing in a model folder is ever executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from regard.core import manifest
from regard.core.config import read_config
from regard.core.errors import ConfigError, DataError, RegardError, UnknownName
from regard.core.paths import check_links
from regard.store.formats import WritableFormat, formats
from regard.store.formats.hf import supported
from regard.store.formats.regard import FILES as OWN_FILES
from regard.store.stored_model import StoredModel

_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")

__all__ = ["StoredModel", "load_model", "save_model", "unsaid", "writable_formats"]


def load_model(path: Path) -> StoredModel:
    """The model at a path: a folder of ours or of Hugging Face, a llama2.c checkpoint, an ARPA file, word vectors."""
    config = _config(path)
    for candidate in formats().values():
        if candidate.recognises(path, config):
            return candidate.load(path, config)
    raise _refusal(path, config)


def save_model(path: Path, stored: StoredModel, *, form: str = "regard") -> None:
    """Write a model as a folder of that format."""
    if form not in writable_formats():
        raise UnknownName("format to convert to", form, writable_formats())
    cast(WritableFormat, formats()[form]).save(path, stored)


def unsaid(stored: StoredModel, form: str) -> list[str]:
    """What a folder of that format cannot store of a model, one line each."""
    lines: list[str] = getattr(formats()[form], "unsaid", lambda _: [])(stored)
    return lines


def writable_formats() -> tuple[str, ...]:
    return tuple(name for name, candidate in formats().items() if hasattr(candidate, "save"))


def _config(path: Path) -> dict[str, Any] | None:
    if path.is_dir():
        check_links(path)
    if not (path / "config.json").is_file():
        return None
    summed = path / manifest.NAME
    if summed.exists():  # before anything in the folder is used
        manifest.check_manifest(path)
    config = read_config(path / "config.json")
    if "regard" in config:
        manifest.check_names(path, OWN_FILES)
    return config


def _refusal(path: Path, config: dict[str, Any] | None) -> RegardError:
    if (kind := _foreign_kind(path)) is not None:
        return kind
    if path.is_file():
        return DataError(
            f"{path} is not a model",
            got="a file",
            expected="a model folder, a llama2.c checkpoint, an ARPA file, or word vectors (word2vec, GloVe)",
            remedy="Weights as a pickle can run code and are not opened: give a folder with safetensors."
            if path.suffix in _PICKLES
            else "Check the path.",
        )
    if not path.is_dir():
        return DataError(
            f"{path} is not a model folder",
            got="no such file" if path.suffix else "no such folder",
            remedy="Check the path, or train a model: regard train RECIPE.yaml.",
        )
    if config is None:
        begun = (path / "checkpoints").is_dir()
        remedy = "It holds a run that has not been validated yet: run the same `regard train` command to resume it."
        return DataError(
            f"{path} is not a model folder",
            got="no config.json",
            remedy=remedy
            if begun
            else "Give a folder that `regard train` made, or a Hugging Face folder with its config.json.",
        )
    return ConfigError(
        f"{path / 'config.json'} was not written by regard and has no supported model_type",
        expected=f"a folder of ours, or a model_type of {', '.join(sorted(supported()))}",
    )


def _foreign_kind(path: Path) -> RegardError | None:
    """The error for weights in the format of another program, recognised by the first bytes of the file."""
    files = sorted(path.glob("*.gguf")) if path.is_dir() else [path]
    if not files or (path / "config.json").is_file():
        return None
    try:
        with files[0].open("rb") as file:
            head = file.read(8)
    except OSError:
        return None
    if head[:4] == b"GGUF":
        return DataError(
            f"{files[0]} is a GGUF file, the format of llama.cpp, which is not supported",
            expected="the Hugging Face folder that it was made from (config.json and safetensors), or a llama2.c file",
        )
    if files[0].suffix == ".safetensors":
        return DataError(
            f"{files[0]} holds the weights of a model without its configuration",
            remedy="Give its folder, with config.json.",
        )
    return None
