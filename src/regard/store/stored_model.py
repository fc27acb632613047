"""Everything that is stored with a model, whatever the format of its folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from regard.core.config import Config
from regard.core.search import Search
from regard.data.text import Tokenizer


@dataclass
class StoredModel:
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
    """The text of its README.md."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What its task needs to know besides: the names of classes, how images are prepared."""
    notes: list[str] = field(default_factory=list)
    """What a user should hear about how it was opened."""
