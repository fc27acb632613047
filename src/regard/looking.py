"""`regard.trace` and the running of `regard.explain`'s methods on loaded models."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard import explain as explaining
from regard.core.errors import ConfigError, UnknownName, UsageError
from regard.explain import Trace
from regard.views.result import SUFFIXES, Result


def trace(
    model: Any,
    inputs: Any,
    target: Any = None,
    *,
    sites: str | Sequence[str] = "*",
    weights: bool = True,
    hidden: bool = True,
    value_path: bool = False,
    gradients: bool = False,
    **search: Any,
) -> Trace:
    """Run a loaded model once and keep what it did: tokens, attention weights by site, hidden states, its answer.

    `inputs` is a text, an image or a list of them; `target` a translation, a second text, or what stands after a
    prompt; a translator without one translates first (`search` are its options), and the beam that wins is looked at.
    `sites` are names such as "encoder.3.self", whole layers ("encoder.3") or patterns ("decoder.*.cross").
    """
    subject = model.subject(inputs, target, **search)
    return explaining.record(
        subject, sites=sites, weights=weights, hidden=hidden, value_path=value_path, gradients=gradients
    )


def explain(model: Any, inputs: Any = None, target: Any = None, /, *, method: str = "maps", **options: Any) -> Result:
    """One method's result: on a loaded model and its inputs, on a `Trace`, or on nothing where it needs none.

    The first three have no names here, so that an option of a method may be called as one of them is.
    """
    function, first = explaining.method(method), wants(method)
    known = parameters(method)
    if unknown := sorted(set(options) - set(known)):
        raise UnknownName(f"option of {method}", unknown[0], known)
    for name, one in known.items():
        if one.default is one.empty and name not in options:
            raise UsageError(
                f"{method} needs --{name.replace('_', '-')}", remedy="regard explain --methods says what it is."
            )
    if first is None:
        return function(**options)
    if first == "model":
        if isinstance(model, Trace) or model is None:
            raise UsageError(f"{method} needs a model", got="a trace" if model is not None else "none")
        return function(model, **options)
    if isinstance(model, Trace):
        return function(model, **options)
    if inputs is None:
        raise UsageError(f"{method} looks at one run: it needs a text or an image", got="neither")
    asked = {"sites": options["sites"]} if "sites" in options else {}
    return function(trace(model, inputs, target, **{**explaining.needs(method), **asked}), **options)


def wants(method: str) -> str | None:
    """What a method looks at: "trace", "model", or nothing."""
    first = next(iter(inspect.signature(explaining.method(method)).parameters), None)
    return first if first in ("trace", "model") else None


def parameters(method: str) -> dict[str, inspect.Parameter]:
    """The options of a method."""
    found = inspect.signature(explaining.method(method)).parameters
    return {name: parameter for name, parameter in found.items() if parameter.kind is parameter.KEYWORD_ONLY}


def parsed(method: str, words: Mapping[str, str]) -> dict[str, Any]:
    """Options as they are written on a command line, by the types that the method names."""
    known, options = parameters(method), dict[str, Any]()
    for name, word in words.items():
        key = name.replace("-", "_")
        if key not in known:
            raise UnknownName(f"option of {method}", name, [one.replace("_", "-") for one in known])
        options[key] = _value(name, word, str(known[key].annotation))
    return options


def _value(name: str, word: str, kind: str) -> Any:
    kinds = [part.strip() for part in kind.split("|")]
    if "None" in kinds and word.lower() == "none":
        return None
    try:
        if "bool" in kinds:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[word.lower()]
        if "int" in kinds and word.lstrip("-").isdigit():
            return int(word)
        if "float" in kinds:
            return float(word)
        if "str" in kinds:
            return word
        return int(word)
    except (ValueError, KeyError):
        raise ConfigError(f"--{name} does not understand its value", got=word, expected=kind) from None


def load_trace(path: str | Path) -> Trace:
    """A trace from its file."""
    return Trace.load(path)


def result_file(name: str) -> Path:
    """Where to write a result: what is wrong with the name should be said before an hour's work, not after it."""
    path, known = Path(name), (*SUFFIXES, ".trace")
    if path.suffix.lower() not in known:
        raise UsageError(f"{name} names no kind of file", got=repr(path.suffix), expected=", ".join(known))
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", remedy="Make it first.")
    return path


def method_list() -> list[tuple[str, str, list[str]]]:
    """Every method: its name, what it does in a line, its options with their defaults."""
    found = []
    for name in explaining.methods():
        text = (inspect.getdoc(explaining.method(name)) or "").split("\n", 1)[0]
        options = [_shown(key, one) for key, one in parameters(name).items()]
        found.append((name, text, options))
    return found


def _shown(name: str, option: inspect.Parameter) -> str:
    word = f"--{name.replace('_', '-')}"
    if option.default is option.empty:
        return f"{word} … (needed)"
    return f"{word} …" if option.default is None else f"{word} {option.default}".lower()


def panels_for_terminal(result: Result, width: int) -> list[Any]:
    """A result as things that the terminal can print."""
    from regard.views.terminal import panels_for_terminal

    return panels_for_terminal(result, width)
