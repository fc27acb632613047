"""A trained model as a folder: what it is, its weights, its vocabulary, how it writes, a card, and sums of all of it.

    config.json               task, model, sizes
    model.safetensors         weights
    tokenizer.json            text ↔ ids (target_tokenizer.json where the target has its own)
    generation_config.json    beam, penalties
    README.md                 model card
    manifest.json             SHA-256 of each

Nothing in it can execute, and the names in it are looked up in folder listings of this package only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field
from torch import nn

import regard
from regard.core import config as configs
from regard.core import manifest, weights
from regard.core.config import Config
from regard.core.errors import ConfigError, DataError
from regard.data.text import Tokenizer
from regard.decoding import Search
from regard.models import config_of, make_model

FORMAT = 1
USES = {
    "translation": '`echo "…" | regard translate FOLDER`',
    "language_model": '`regard generate FOLDER --prompt "…"`',
    "masked_lm": '`regard fill FOLDER "… [MASK] …"`',
    "classification": '`echo "…" | regard classify FOLDER`',
    "image_classification": "`regard classify FOLDER image.png`",
    "question_answering": '`regard answer FOLDER --question "…" --context FILE`',
    "sentence_similarity": '`regard similar FOLDER "…" "…"`',
}


class FolderConfig(Config):
    """What config.json holds."""

    format: int = FORMAT
    regard: str
    task: str
    model: str
    config: dict[str, Any]
    extra: dict[str, Any] = Field(default_factory=dict)


@dataclass
class ModelFolder:
    """Everything that is stored with a model."""

    task: str
    name: str
    config: Config
    model: nn.Module
    source_tokenizer: Tokenizer | None = None
    """Text to ids; None where the model reads images, or came without one."""
    target_tokenizer: Tokenizer | None = None
    """That of what it writes, the same object where there is one for both."""
    search: Search = field(default_factory=Search)
    card: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    """What its task needs to know besides: the names of classes, how images are prepared."""
    notes: list[str] = field(default_factory=list)
    """What a user should hear about how it was opened."""


def save(folder: Path, stored: ModelFolder) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    described = FolderConfig(
        regard=regard.__version__,
        task=stored.task,
        model=stored.name,
        config=json.loads(configs.dump(stored.config)),
        extra=stored.extra,
    )
    texts = {
        "config.json": configs.dump(described),
        "generation_config.json": configs.dump(stored.search),
        "README.md": stored.card or card(stored),
    }
    # The manifest goes first and comes last, so that a half-written folder is never taken for a damaged one.
    (folder / manifest.NAME).unlink(missing_ok=True)
    for name, text in texts.items():
        with weights.replacing(folder / name) as file:
            file.write(text.encode())
    tokenizers = {"tokenizer.json": stored.source_tokenizer} if stored.source_tokenizer else {}
    if stored.target_tokenizer is not None and stored.target_tokenizer is not stored.source_tokenizer:
        tokenizers["target_tokenizer.json"] = stored.target_tokenizer
    written = [path.name for name, tokenizer in tokenizers.items() for path in tokenizer.save(folder / name)]
    weights.write(folder / weights.FILE, stored.model.state_dict(), metadata={"format": "pt"})
    manifest.write_manifest(folder, [*texts, *written, weights.FILE])


def load(folder: Path) -> ModelFolder:
    """A folder of ours or of Hugging Face, or a llama2.c checkpoint."""
    from regard import foreign

    if folder.is_file():
        return _load_file(folder)
    if not folder.is_dir():
        raise DataError(
            f"{folder} is no model folder", got="no such folder", remedy="Train one: regard train RECIPE.yaml"
        )
    if not (folder / "config.json").is_file():
        raise DataError(f"{folder} is no model folder", got="no config.json", remedy=_unfinished(folder))
    if (folder / manifest.NAME).exists():
        manifest.check_manifest(folder)
    written = configs.read(folder / "config.json")
    if "regard" not in written:
        if "model_type" in written:
            return foreign.load(folder, written)
        raise ConfigError(
            f"{folder / 'config.json'} says neither that regard wrote it nor a model_type",
            expected=f"a folder of ours, or a model_type of {', '.join(sorted(foreign.supported()))}",
        )
    described = FolderConfig.parse(written, str(folder / "config.json"))
    if described.format > FORMAT:
        raise ConfigError(f"{folder} is of a later format", got=described.format, expected=f"at most {FORMAT}")
    config = config_of(described.model, described.config, where=f"{folder / 'config.json'} config")
    model = make_model(described.model, config, empty=True)
    weights.load_into(model, weights.aligned(weights.read(folder / weights.FILE)))
    source = Tokenizer.load(folder / "tokenizer.json") if (folder / "tokenizer.json").exists() else None
    own = folder / "target_tokenizer.json"
    generation = folder / "generation_config.json"
    search = Search.parse(configs.read(generation), str(generation)) if generation.exists() else Search()
    target = Tokenizer.load(own) if own.exists() else source
    return ModelFolder(
        described.task, described.model, config, model.eval(), source, target, search, extra=described.extra
    )


def _load_file(path: Path) -> ModelFolder:
    from regard import foreign
    from regard.interop import llama2c

    if llama2c.is_checkpoint(path):
        return foreign.load_llama2c(path)
    raise DataError(
        f"{path} is no model",
        got="a file",
        expected="a model folder, or a llama2.c checkpoint",
        remedy="Give the folder it stands in; weights as a pickle (.bin, .pt) can run code and are not opened.",
    )


def card(stored: ModelFolder) -> str:
    """The model card that stands in for one that nobody wrote."""
    count = sum(parameter.numel() for parameter in stored.model.parameters())
    return (
        f"# {stored.task} model\n\nA `{stored.name}` with {count:,} parameters, trained with regard "
        f"{regard.__version__}.\n\nUse it: {USES.get(stored.task, '`regard.load(FOLDER)` in Python')}\n"
    )


def _unfinished(folder: Path) -> str:
    if (folder / "checkpoints").is_dir():
        return "It holds a run that has not been validated yet: run the same `regard train` command to go on."
    return "Give a folder that `regard train` made."
