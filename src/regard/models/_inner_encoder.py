"""The image encoder inside another model: any image encoder of this folder, by name, without its classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.core.errors import ConfigError
from regard.core.lookup import find, names
from regard.models import config_of, make_model
from regard.models._image_encoder import ImageEncoder

_MODELS = "regard.models"


def inner_encoder(name: str, options: Mapping[str, Any]) -> ImageEncoder:
    """Make the encoder with these options of its configuration."""
    if not issubclass(find(_MODELS, name), ImageEncoder):
        expected = ", ".join(other for other in names(_MODELS) if issubclass(find(_MODELS, other), ImageEncoder))
        raise ConfigError("the encoder gives no grid of features", got=name, expected=expected)
    made = make_model(name, config_of(name, {**options, "n_labels": 0}))
    assert isinstance(made, ImageEncoder)
    return made
