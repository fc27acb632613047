"""Everything that is stored with a model, in whatever format."""

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
    """Text to ids; None if the model reads images, or came without a tokenizer."""
    target_tokenizer: Tokenizer | None = None
    """The target's tokenizer; the same object if there is one for both sides."""
    search: Search = field(default_factory=Search)
    card: str = ""
    """The text of its README.md."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further settings of its task: class names, image preparation."""
    notes: list[str] = field(default_factory=list)
    """Messages for the user about how it was loaded."""
