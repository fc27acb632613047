"""How images are prepared for a stored model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.core.errors import ConfigError
from regard.data.images import ImageForm


def image_form(extra: Mapping[str, Any]) -> ImageForm:
    """The image settings of a model folder; a folder without them is refused."""
    said = extra.get("image")
    if not isinstance(said, dict):
        raise ConfigError("the folder does not say how images are prepared", got=repr(said)[:80])
    return ImageForm.parse(said, "how images are prepared")
