"""Whole models: one file holds a model's configuration, named sizes and module. Models are found by file name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, Literal

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.core import lookup
from regard.core.config import Config
from regard.core.errors import DataError, UnknownName


def config_of(
    name: str,
    options: Mapping[str, Any],
    *,
    size: str | None = None,
    where: str = "model",
    kind: type[Config] | None = None,
) -> Config:
    """The configuration of model `name`: a named size, changed by the options.

    `kind` replaces the model's own configuration class, for example by a class with fewer required fields.
    """
    model_class = lookup.find(__name__, name)
    sizes: dict[str, dict[str, Any]] = model_class.SIZES
    if size is not None and size not in sizes:
        raise UnknownName(f"size of {name}", size, sizes)
    parsed: Config = (kind or model_class.Config).parse({**(sizes[size] if size else {}), **options}, where)
    return parsed


def make_model(name: str, config: Config, *, empty: bool = False) -> nn.Module:
    """Make the model. With `empty`, no memory is allocated, for weights that will be loaded or only counted."""
    model_class = lookup.find(__name__, name)
    if not empty:
        return model_class(config)
    with torch.device("meta"), _SkipInitialization():
        return model_class(config)


def writes(name: str, config: Config) -> bool:
    """Whether this model generates text, one token at a time."""
    return hasattr(lookup.find(__name__, name), "step") and getattr(config, "head", "tokens") == "tokens"


def reads_cls(name: str) -> bool:
    """Whether texts for this model get [CLS] and [SEP]: its attribute `reads_cls`, or by default whether it cannot
    generate text."""
    model_class = lookup.find(__name__, name)
    return bool(getattr(model_class, "reads_cls", not hasattr(model_class, "step")))


def reads_in_order(name: str) -> bool:
    """Whether this model gets the whole text in order, since it counts."""
    return bool(getattr(lookup.find(__name__, name), "reads_in_order", False))


def row_layout(name: str) -> Literal["cls", "sentences", "plain"]:
    """How texts become rows for this model: see `data.text.layout`."""
    if getattr(lookup.find(__name__, name), "reads_sentences", False):
        return "sentences"
    return "cls" if reads_cls(name) else "plain"


def reads_characters(name: str, config: Config | None = None) -> bool:
    """Whether this model reads words as characters (`data/text/spelling.py`), always or with this configuration."""
    model_class = lookup.find(__name__, name)
    sometimes = getattr(model_class, "reads_characters_with", None)
    if config is not None and sometimes is not None:
        return bool(sometimes(config))
    return bool(getattr(model_class, "reads_characters", False))


def check_words(name: str, texts: Iterable[str], others: Iterable[str | None] | None = None, what: str = "") -> None:
    """Refuse an empty text, or pair of texts, if the model needs at least one word, as a bag of words does.

    `what` says in the error where the texts come from."""
    if not getattr(lookup.find(__name__, name), "needs_words", False):
        return
    for number, (text, other) in enumerate(zip(texts, others or repeat(None)), 1):  # noqa: B905 (one is endless)
        if not text.strip() and not (other or "").strip():
            raise DataError(f"text {number}{what} is empty", expected="at least one word", remedy="Remove it.")


class _SkipInitialization(TorchFunctionMode):
    """Skips random initialisation. It has no effect without memory, and the first random draw on the meta device makes
    torch load its compiler, which takes a second."""

    _FILLS = frozenset(
        {"normal_", "uniform_", "trunc_normal_", "xavier_uniform_", "zeros_", "ones_", "kaiming_uniform_"}
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in self._FILLS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
