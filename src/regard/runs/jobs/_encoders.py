"""The image encoder that a new model starts from: that of another model's folder."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.core import weights
from regard.core.errors import ConfigError
from regard.core.image_settings import Resizing
from regard.core.paths import expand_path
from regard.data.images import ImageForm
from regard.store import StoredModel, load_model


def open_encoder(folder: str | None, *, frozen: bool) -> StoredModel | None:
    """The encoder in a folder; None without a folder, which is an error if the encoder is frozen."""
    if folder is None:
        if frozen:
            remedy = "Name one in data.encoder, or set model.options.frozen to false."
            raise ConfigError("a frozen encoder must have been trained", got="no data.encoder", remedy=remedy)
        return None
    stored = load_model(expand_path(folder))
    if not hasattr(stored.model, "grid") or "image" not in stored.extra:
        expected = "a convolutional image encoder, such as EfficientNet-Lite or a ResNet"
        raise ConfigError("data.encoder is not an image encoder", got=f"a {stored.name}", expected=expected)
    return stored


def options_of(stored: StoredModel) -> dict[str, Any]:
    """The options of a model with this encoder inside."""
    return {"encoder": stored.name, "encoder_options": stored.config.model_dump(mode="json", exclude={"n_labels"})}


def form_of(stored: StoredModel, folder: str | None, *, stretch: bool) -> ImageForm:
    """How the encoder's images are prepared; with `stretch`, the whole image is stretched to its size."""
    form = ImageForm.parse(stored.extra["image"], f"the images of {folder}")
    return form.model_copy(update={"resizing": Resizing()}) if stretch else form


def take_weights(model: nn.Module, stored: StoredModel, folder: str | None) -> list[str]:
    """Give a new model the encoder's weights; its classifier is left out."""
    inner: Any = model.encoder
    given = {name: tensor.clone() for name, tensor in stored.model.state_dict().items()}
    weights.load_into(inner, {name: given[name] for name in inner.state_dict()})
    return [f"the image encoder starts from {folder}"]
