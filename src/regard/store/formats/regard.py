"""regard's own model folder:

    config.json               task, model, sizes
    model.safetensors         weights
    tokenizer.json            text ↔ ids (target_tokenizer.json if the target has its own)
    generation_config.json    beam, penalties
    README.md                 model card
    manifest.json             SHA-256 of each

Nothing in it can execute, and its names are looked up only in folder listings of this package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from regard.core import config as configs
from regard.core import manifest, weights
from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.search import Search
from regard.core.version import VERSION
from regard.data.text import Tokenizer
from regard.models import config_of
from regard.store.sizes import Extent, check_tokens, empty_model
from regard.store.stored_model import StoredModel

FORMAT = 1
FILES = (
    "config.json",
    weights.FILE,
    "tokenizer.json",
    "tokenizer_config.json",
    "target_tokenizer.json",
    "target_tokenizer_config.json",
    "generation_config.json",
)
"""The files that determine what the model does; the manifest names those that exist."""
RECIPE = "recipe.json"


class FolderConfig(Config):
    """The contents of config.json."""

    format: int = FORMAT
    regard: str
    task: str
    model: str
    config: dict[str, Any]
    extra: dict[str, Any] = Field(default_factory=dict)


def recognises(path: Path, config: Mapping[str, Any] | None) -> bool:
    return config is not None and "regard" in config


def save(folder: Path, stored: StoredModel) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    described = FolderConfig(
        regard=VERSION,
        task=stored.task,
        model=stored.name,
        config=json.loads(configs.dump(stored.config)),
        extra=stored.extra,
    )
    texts = {
        "config.json": configs.dump(described),
        "generation_config.json": configs.dump(stored.search),
        "README.md": stored.card,
    }
    # The manifest is removed first and written last, so that an incomplete folder is not reported as damaged.
    (folder / manifest.NAME).unlink(missing_ok=True)
    for name, text in texts.items():
        with weights.replacing(folder / name) as file:
            file.write(text.encode())
    tokenizers = {"tokenizer.json": stored.source_tokenizer} if stored.source_tokenizer else {}
    if stored.target_tokenizer is not None and stored.target_tokenizer is not stored.source_tokenizer:
        tokenizers["target_tokenizer.json"] = stored.target_tokenizer
    written = [path.name for name, tokenizer in tokenizers.items() for path in tokenizer.save(folder / name)]
    weights.write(folder / weights.FILE, stored.model.state_dict(), metadata={"format": "pt"})
    beside = [RECIPE] if (folder / RECIPE).is_file() else []
    manifest.write_manifest(folder, [*texts, *written, weights.FILE, *beside])


def load(folder: Path, config: Mapping[str, Any] | None) -> StoredModel:
    described = FolderConfig.parse(config or {}, str(folder / "config.json"))
    if described.format > FORMAT:
        raise ConfigError(f"{folder} has a newer format", got=described.format, expected=f"at most {FORMAT}")
    model_config = config_of(described.model, described.config, where=f"{folder / 'config.json'} config")
    check_tokens(described.extra, model_config, str(folder / "config.json"))
    extent = Extent.of(folder / weights.FILE)
    model = empty_model(described.model, model_config, extent, str(folder / "config.json"))
    weights.load_into(model, weights.aligned(weights.read_tensors(folder / weights.FILE)))
    source = Tokenizer.load(folder / "tokenizer.json") if (folder / "tokenizer.json").exists() else None
    own = folder / "target_tokenizer.json"
    generation = folder / "generation_config.json"
    search = Search.parse(configs.read_config(generation), str(generation)) if generation.exists() else Search()
    target = Tokenizer.load(own) if own.exists() else source
    return StoredModel(
        described.task, described.model, model_config, model.eval(), source, target, search, extra=described.extra
    )


def described(folder: Path) -> FolderConfig:
    """What a folder says about its model, without opening its weights."""
    return FolderConfig.parse(configs.read_config(folder / "config.json"), str(folder))
