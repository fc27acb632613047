"""Look inside a model: where it attends, what of that counts, and which tokens an answer comes from.

regard explain MODEL "text" ["target"]                       attention maps in the terminal
regard explain MODEL "text" --method effective --out x.html  raw beside effective attention, as one page
regard explain MODEL "text" --out x.trace                    the whole record, for later: regard explain x.trace
regard explain MODEL picture.png                             a Vision Transformer
regard explain --methods                                     all methods with their options
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from regard.core.errors import UsageError

_FLAGS, _VALUES = ("methods", "json", "help", "debug"), ("method", "file", "out")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", nargs="?", help="a model folder, or a .trace that was written before")
    parser.add_argument("text", nargs="*", help="the text (or an image), and a target: a translation, a second text, "
                        "or what follows; methods without a text take none")  # fmt: skip
    parser.add_argument("--method", help="maps (default; overview for a page), effective, attribute, …: see --methods")
    parser.add_argument("--methods", action="store_true", help="list the methods and their options")
    parser.add_argument("--file", metavar="FILE", help="read texts from a file, one a line, instead")
    parser.add_argument("--out", metavar="FILE", help="write .html, .svg, .png, .json or .trace instead")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def prepare(words: list[str]) -> list[str]:
    """`--probes 8` as `--probes=8`: argparse does not know the methods' options and would take 8 for a text."""
    joined: list[str] = []
    waiting = iter(words)
    for word in waiting:
        name = word[2:]
        if not word.startswith("--") or "=" in word or name in (*_FLAGS, *_VALUES):
            joined.append(word)
            if name in _VALUES:
                joined.extend([value for value in [next(waiting, None)] if value is not None])
            continue
        value = next(waiting, None)
        joined.append(word if value is None or value.startswith("--") else f"{word}={value}")
        if value is not None and value.startswith("--"):
            joined.extend(prepare([value, *waiting]))
    return joined


def run(arguments: argparse.Namespace) -> int:
    from regard import api

    if arguments.methods:
        return _list()
    out = Path(arguments.out) if arguments.out else None
    if arguments.method is None:
        arguments.method = "overview" if out is not None and out.suffix == ".html" else "maps"
    options = api.parsed(arguments.method, _pairs(arguments.rest))
    needed = api.wants(arguments.method)
    if arguments.model is None and needed is not None:
        raise UsageError("no model was given", remedy='Give its folder and a text: regard explain MODEL "text".')
    texts, target = _inputs(arguments)
    model: Any = None
    if needed is not None:
        is_trace = str(arguments.model).endswith(".trace")
        model = api.load_trace(arguments.model) if is_trace else api.load(arguments.model)
    if out is not None and out.suffix == ".trace":
        if texts is None:
            raise UsageError("a trace needs a text to run the model on")
        api.trace(model, texts, target, value_path=True).save(out)
        print(out)
        return 0
    result = api.explain(model, texts, target, method=arguments.method, **options)
    if arguments.json:
        import json

        print(json.dumps(result.as_dict(), ensure_ascii=False, allow_nan=False))
    elif out is not None:
        result.save(out)
        print(out)
    else:
        _show(result)
    return 0


def _show(result: Any) -> None:
    from rich.console import Console

    from regard import api

    console = Console(highlight=False)
    for part in api.panels_for_terminal(result, console.width):
        console.print(part)


def _inputs(arguments: argparse.Namespace) -> tuple[Any, Any]:
    words = arguments.text
    if arguments.file:
        from regard import api

        if words:
            raise UsageError("a text and a --file", remedy="Give one of them.")
        return [line for line in api.read_text(arguments.file) if line.strip()], None
    if len(words) > 2:
        raise UsageError("too many texts", got=len(words), expected="a text and a target", remedy="Put each in quotes.")
    if words and words[0] == "-":
        words = [sys.stdin.read().strip(), *words[1:]]
    if words and not words[0].strip():
        raise UsageError("there is nothing to explain: the text is empty", remedy="Give a word or more.")
    return words[0] if words else None, words[1] if len(words) > 1 else None


def _pairs(rest: list[str]) -> dict[str, str]:
    """`--name value`, `--name=value`, and `--name` alone for true."""
    pairs: dict[str, str] = {}
    words = list(rest)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            raise UsageError("this is no option", got=word, remedy="Put texts in quotes, before the options.")
        name, equals, value = word[2:].partition("=")
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("--") else "true"
        pairs[name] = value
    return pairs


def _list() -> int:
    from regard import api

    for name, text, options in api.method_list():
        print(f"{name:<11}{text}")
        if options:
            print(f"{'':<11}{'  '.join(options)}")
    return 0
