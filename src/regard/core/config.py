"""Configurations: frozen data that is checked once, when it is read.

A `Config` refuses unknown keys, text where a number is expected, and numbers that are not finite. `Config.parse`
reports all problems together, in one line. Values are checked by the rules of JSON: a list may fill a tuple, text may
fill a path, and an integer may fill a float. A dumped configuration parses to an equal configuration.

Files are JSON, or YAML with the scalars of YAML 1.2: `1e-4` is a number and `no` is a word (the language code of
Norwegian). PyYAML follows YAML 1.1, which reads them as text and as False. `1_000` stays a number. Dates stay text. A
duplicate key is an error in either format, since one of its values would be lost silently.
"""

from __future__ import annotations

import copy
import difflib
import json
import re
import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, from_json, to_json

from regard.core.errors import ConfigError

_MOST_NODES = 50_000
# YAML is read at about 100,000 characters a second.
_LONGEST_YAML, _LONGEST_JSON = 200_000, 64_000_000


class Config(BaseModel):
    """A frozen set of named, typed values; subclass it with annotated fields and their defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, strict=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str = "config") -> Self:
        """Return the configuration that `data` describes; `where` names its source in the error."""
        try:
            return cls.model_validate_json(text := to_json(data, inf_nan_mode="constants"))
        except PydanticSerializationError as error:
            raise ConfigError(f"{where} holds a value that is not plain data", got=str(error)) from None
        except ValidationError as error:
            data = from_json(text)
            problems = [_problem(cls, detail, data) for detail in _telling(cls, error.errors(include_url=False), data)]
            raise ConfigError(f"{where}: " + "; ".join(problems)) from None


def read_config(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML or JSON file."""
    path = Path(path)
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise ConfigError(f"{path} is not a configuration", got=repr(path.suffix), expected=".yaml, .yml or .json")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path} cannot be read", got=error.strerror, remedy="Check the path.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", got=str(error), remedy="Save it as UTF-8.") from None
    as_json = path.suffix == ".json"
    if len(text) > (most := _LONGEST_JSON if as_json else _LONGEST_YAML):
        raise ConfigError(f"{path} is too large for a configuration", got=f"{len(text):,} characters", expected=most)
    data = _load(text, str(path), as_json=as_json)
    if not isinstance(data, dict):
        got = "nothing" if data is None else type(data).__name__
        raise ConfigError(f"{path} is not a mapping", got=got, expected="'key: value' entries")
    return data


def override(data: Mapping[str, Any], changes: Mapping[str, str]) -> dict[str, Any]:
    """A deep copy of `data` with other values at dotted paths: `{"training.lr": "1e-3", "data.langs": "[de, en]"}`.

    Each value is YAML text. Missing mappings on the path are created; `parse` checks the keys later.
    """
    result = copy.deepcopy(dict(data))
    for path, text in changes.items():
        keys = path.split(".")
        if not all(keys):
            raise ConfigError("an override needs a dotted path of keys", got=repr(path), expected="like training.lr")
        result = _put(result, keys, _load(text, f"override {path}"), done=())
    return result


def dump(config: Config) -> str:
    """JSON text with sorted keys, so that equal configurations are equal files."""
    # serialize_as_any: a field declared as `Config` that holds a subclass would otherwise lose the subclass's fields.
    data = config.model_dump(mode="json", serialize_as_any=True)
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _put(data: Any, keys: Sequence[str], value: Any, done: tuple[str, ...]) -> dict[str, Any]:
    # Copy along the path: with YAML aliases the same mapping appears in several places, and only one must change.
    if not isinstance(data, dict):
        path, got = ".".join([*done, *keys]), f"{reprlib.repr(data)} at {'.'.join(done)}"
        raise ConfigError(f"cannot override {path}", got=got, expected="a mapping there")
    key, *rest = keys
    below = {} if data.get(key) is None else data[key]  # stored recipes have null where nothing was given
    return {**data, key: _put(below, rest, value, (*done, key)) if rest else value}


def _telling(cls: type[BaseModel], errors: list[ErrorDetails], data: Any) -> list[ErrorDetails]:
    """The errors, without "it is no text" where the value has another form and something inside it is wrong."""
    places = [_locate(cls, error["loc"], data)[0] for error in errors]
    return [
        error
        for error, place in zip(errors, places, strict=True)
        if not (error["type"].endswith("_type") and any(other.startswith(f"{place}.") for other in places))
    ]


def _problem(cls: type[BaseModel], error: ErrorDetails, data: Any) -> str:
    (path, known), message = _locate(cls, error["loc"], data), error["msg"]
    if error["type"] == "missing":
        return f"{path} is missing"
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path.rpartition(".")[2], known, n=1, cutoff=0.5)
        return f"{path} is unknown: " + (f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}")
    if error["type"] in ("value_error", "assertion_error"):
        return f"{path}: {error['ctx']['error']}".removeprefix(": ")
    joint = " " if message.startswith("Input should") else ": "
    return f"{path}{joint}{message.removeprefix('Input ')}, got {reprlib.repr(error['input'])}".lstrip(": ")


def _locate(cls: type[BaseModel], location: tuple[int | str, ...], data: Any) -> tuple[str, list[str]]:
    """The path in the user's data (pydantic's path also names members of unions), and the fields known there."""
    path, known, models = [], [""], [cls]
    for part in location:
        known = sorted({name for model in models for name in model.model_fields})
        inner = [model.model_fields[part].annotation for model in models if part in model.model_fields]
        if inner or isinstance(part, int) or (isinstance(data, dict) and part in data):
            path.append(str(part))
            data = _item(data, part)
        members = [model for model in models if part in _union_names(model)]
        models = [model for annotation in inner for model in _models(annotation)] if inner else members or models
    return ".".join(path), known


def _item(data: Any, part: int | str) -> Any:
    try:
        return data[part]
    except (KeyError, IndexError, TypeError):  # a default or a missing value is not in the data
        return None


def _union_names(model: type[BaseModel]) -> list[Any]:
    """The names that pydantic may use for this model in a location inside a union: its class name or its tag."""
    return [model.__name__, *(value for field in model.model_fields.values() for value in get_args(field.annotation))]


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The model classes in an annotation such as `tuple[Layer, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _load(text: str, source: str, *, as_json: bool = False) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique) if as_json else yaml.load(text, _Loader)
    except json.JSONDecodeError as error:
        message, line = error.msg, f" in line {error.lineno}"
    except yaml.MarkedYAMLError as error:
        message = ", ".join(filter(None, (error.context, error.problem)))
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
    except RecursionError:
        message, line = "nested too deeply", ""
    except (yaml.YAMLError, ValueError, KeyError) as error:
        message, line = " ".join(str(error).split()), ""
    raise ConfigError(f"{source} is not valid {'JSON' if as_json else 'YAML'}{line}", got=message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise ValueError(f"duplicate key {key!r}")
    return dict(pairs)


class _Loader(yaml.SafeLoader):
    """Reads plain data only, with YAML 1.2 scalars, without duplicate keys, and with a limit on its size."""

    def construct_document(self, node: yaml.Node) -> Any:
        # Aliases, and merges of aliases, can double the data at each level; merges do so during construction.
        if _expanded_size(node, {}) > _MOST_NODES:
            raise yaml.MarkedYAMLError(problem=f"aliases expand to more than {_MOST_NODES:,} values")
        return super().construct_document(node)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                raise yaml.MarkedYAMLError(problem=f"duplicate key {key.value!r}", problem_mark=key.start_mark)
            seen.add((key.tag, str(key.value)))
        return node


def _expanded_size(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values after aliases are expanded. It exceeds the limit if an alias contains itself."""
    if id(node) not in known:
        known[id(node)] = _MOST_NODES + 1  # while it is being counted
        children: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            children = node.value
        elif isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_expanded_size(child, known) for child in children)
    return known[id(node)]


def _int(_: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(node.value, 0 if "0x" in node.value or "0o" in node.value else 10)


_TAG = "tag:yaml.org,2002:"
_KINDS = (*(_TAG + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map")), None)
_Loader.yaml_constructors = {kind: yaml.SafeLoader.yaml_constructors[kind] for kind in _KINDS}
_Loader.add_constructor(_TAG + "int", _int)
_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (  # the first match wins, so int goes before float
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0o[0-7]+|0x[0-9a-fA-F]+|[0-9]+(?:_[0-9]+)*)", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", list("-+.")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(f"^(?:{_pattern})$"), _first)
