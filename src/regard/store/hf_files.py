"""Reads and writes Hugging Face folders: config.json and safetensors (one file or shards).

Nothing in a folder is ever executed: `auto_map` and other references to code are ignored and reported; pickles
(`pytorch_model.bin`) are refused. Weights are memory-mapped: a renamed or transposed tensor is a view of the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core import config as configs
from regard.core import weights
from regard.core.conversion import Conversion
from regard.core.errors import ConfigError, RegardError, WeightsError

_CODE = ("auto_map", "custom_pipelines", "trust_remote_code", "custom_code")
_HALF = (torch.float16, torch.bfloat16)


def code_in(config: Mapping[str, Any]) -> list[str]:
    """The references to code in a configuration, none of which is run."""
    return [f"{name} in config.json names code, which is never run" for name in _CODE if config.get(name)]


def options(conversion: Conversion, config: Mapping[str, Any]) -> dict[str, Any]:
    """Their configuration → our model's options, with its head."""
    listed = config.get("architectures") or []
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ConfigError("config.json: architectures is not a list of names", got=repr(listed)[:80])
    if not listed:
        return {**conversion.heads[0][1], **_converted(conversion, config)}
    return {**_converted(conversion, config), **conversion.head(listed[0])}


def _converted(conversion: Conversion, config: Mapping[str, Any]) -> dict[str, Any]:
    """The tables expect fields of the right type; a list in place of a number can raise any exception."""
    try:
        return conversion.to_ours(config)
    except RegardError:
        raise
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, ArithmeticError) as error:
        raise ConfigError("config.json has invalid fields", got=f"{type(error).__name__}: {error}"[:200]) from error


def labels(config: Mapping[str, Any], most: int) -> list[str]:
    """The class names in order; by default two without names, as in the other library.

    `most` is the largest number of classes that the weights can hold.
    """
    named = config.get("id2label")
    if not named:
        count = config.get("num_labels", 2)
        if type(count) is not int or not 0 < count <= most:
            expected = f"1 to {most:,}, the count of numbers in the weights"
            raise ConfigError(
                "config.json: num_labels is not a number of classes", got=repr(count)[:80], expected=expected
            )
        return [f"LABEL_{i}" for i in range(count)]
    try:
        pairs = sorted((int(number), str(name)) for number, name in named.items())
    except (AttributeError, ValueError, TypeError) as error:
        raise ConfigError("config.json: id2label is invalid", got=repr(named)[:80]) from error
    return [name for _, name in pairs]


def without_parts(conversion: Conversion, options: Mapping[str, Any], source: Path) -> dict[str, bool]:
    """Options that leave out parts of the model which the folder lacks and this head does not need."""
    asked = {option: ending for option, ending, heads in conversion.optional if options.get("head") in heads}
    names = weights.names(weights_path(source)) if asked else set()
    return {option: False for option, ending in asked.items() if not any(name.endswith(ending) for name in names)}


def load_weights(model: nn.Module, conversion: Conversion, config: Mapping[str, Any], source: Path) -> list[str]:
    """Load the weights into the model; return unused names of other heads. All mismatches are reported together."""
    tensors = _named(weights.read_tensors(weights_path(source)), conversion, str(config.get("model_type")))
    unknown: list[str] = []
    ours = conversion.keys(model.config).to_ours(tensors, unknown=unknown)
    wanted = set(model.state_dict())
    unused = [name for name in ours if name not in wanted]
    for name in unused:
        del ours[name]
    ours |= {name: tensors[name] for name in unknown}  # so that they are reported with missing names and wrong shapes
    half = any(tensor.dtype in _HALF for tensor in ours.values())
    weights.load_into(model, ours, dtype=torch.float32 if half else None)
    return unused


def save(folder: Path, model: nn.Module, conversion: Conversion, extra: Mapping[str, Any]) -> None:
    """Write config.json and model.safetensors for the other library; `extra` are fields of its configuration."""
    config: Any = model.config
    architecture = conversion.architecture(config.model_dump())
    described = {
        "architectures": [architecture],
        "model_type": conversion.model_types[0],
        "dtype": "float32",
        **conversion.to_theirs(config),
        **extra,
    }
    own = {id(tensor): (name, tensor) for name, tensor in reversed(model.state_dict(keep_vars=True).items())}
    tensors = conversion.keys(config).to_theirs({name: tensor.detach() for name, tensor in reversed(own.values())})
    tensors |= conversion.constants(config)
    if architecture in conversion.bare:
        prefix = conversion.prefix.replace("{model_type}", described["model_type"])
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with weights.replacing(folder / "config.json") as file:
        file.write((json.dumps(described, indent=2, sort_keys=True) + "\n").encode())
    weights.write(folder / weights.FILE, tensors, metadata={"format": "pt"})


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of the folder; empty if there is none."""
    return configs.read_config(path) if path.is_file() else {}


def _named(tensors: dict[str, Tensor], conversion: Conversion, model_type: str) -> dict[str, Tensor]:
    """Replace old suffixes of names, and add the prefix to the names of a bare model."""
    prefix = conversion.prefix.replace("{model_type}", model_type)
    bare = not any(name.startswith(prefix) for name in tensors)
    named = {}
    for name, tensor in tensors.items():
        for old, new in conversion.renamed.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        named[prefix + name if bare else name] = tensor
    return named


def weights_path(folder: Path) -> Path:
    """The weights file of the folder, or the index of its shards."""
    present = [name for name in (weights.FILE, weights.INDEX) if (folder / name).is_file()]
    if present:
        return folder / present[0]
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pth", ".ckpt"))
    if pickles:
        raise WeightsError(
            f"{folder} has its weights as a pickle, which can run code",
            got=weights.brief(pickles),
            expected=weights.FILE,
            remedy="If you trust it, convert it with its own library: model.save_pretrained(FOLDER) writes"
            " safetensors.",
        )
    raise WeightsError(f"{folder} holds no weights", expected=f"{weights.FILE} or {weights.INDEX}")
