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


class FolderConfig(Config):
    """What config.json holds."""

    format: int = FORMAT
    regard: str
    task: str
    model: str
    config: dict[str, Any]


@dataclass
class ModelFolder:
    """Everything that is stored with a model."""

    task: str
    name: str
    config: Config
    model: nn.Module
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    search: Search = field(default_factory=Search)
    card: str = ""


def save(folder: Path, stored: ModelFolder) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    described = FolderConfig(
        regard=regard.__version__,
        task=stored.task,
        model=stored.name,
        config=json.loads(configs.dump(stored.config)),
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
    tokenizers = {"tokenizer.json": stored.source_tokenizer}
    if stored.target_tokenizer is not stored.source_tokenizer:
        tokenizers["target_tokenizer.json"] = stored.target_tokenizer
    for name, tokenizer in tokenizers.items():
        tokenizer.save(folder / name)
    weights.write(folder / weights.FILE, stored.model.state_dict(), metadata={"format": "pt"})
    manifest.write_manifest(folder, [*texts, *tokenizers, weights.FILE])


def load(folder: Path) -> ModelFolder:
    if not folder.is_dir():
        raise DataError(
            f"{folder} is no model folder", got="no such folder", remedy="Train one: regard train RECIPE.yaml"
        )
    if not (folder / "config.json").is_file():
        raise DataError(f"{folder} is no model folder", got="no config.json", remedy=_unfinished(folder))
    if (folder / manifest.NAME).exists():
        manifest.check_manifest(folder)
    described = FolderConfig.parse(configs.read(folder / "config.json"), str(folder / "config.json"))
    if described.format > FORMAT:
        raise ConfigError(f"{folder} is of a later format", got=described.format, expected=f"at most {FORMAT}")
    config = config_of(described.model, described.config, where=f"{folder / 'config.json'} config")
    model = make_model(described.model, config, empty=True)
    weights.load_into(model, weights.aligned(weights.read(folder / weights.FILE)))
    source = Tokenizer.load(folder / "tokenizer.json")
    own = folder / "target_tokenizer.json"
    generation = folder / "generation_config.json"
    search = Search.parse(configs.read(generation), str(generation)) if generation.exists() else Search()
    target = Tokenizer.load(own) if own.exists() else source
    return ModelFolder(described.task, described.model, config, model.eval(), source, target, search)


def card(stored: ModelFolder) -> str:
    """The model card that stands in for one that nobody wrote."""
    count = sum(parameter.numel() for parameter in stored.model.parameters())
    return (
        f"# {stored.task} model\n\nA `{stored.name}` with {count:,} parameters, trained with regard "
        f'{regard.__version__}.\n\nUse it: `echo "…" | regard translate FOLDER`\n'
    )


def _unfinished(folder: Path) -> str:
    if (folder / "checkpoints").is_dir():
        return "It holds a run that has not been validated yet: run the same `regard train` command to go on."
    return "Give a folder that `regard train` made."
