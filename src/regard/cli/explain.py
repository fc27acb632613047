"""Look inside a model: where it attends, which part of that has an effect, and which tokens an answer comes from.

regard explain MODEL "text" ["target"]                       attention maps in the terminal
regard explain MODEL "text" --method effective --out x.html  raw beside effective attention, as one page
regard explain MODEL "text" --out x.trace                    store the whole run, for later: regard explain x.trace
regard explain MODEL picture.png                             a Vision Transformer, or a captioner: one map per word
regard explain MODEL image.png --support FOLDER              which labelled images a few-shot model looked at
regard explain MODEL picture.png "question"                  where it looked for the answer, exemplars beside it
regard explain --methods                                     all methods with their options
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from regard.cli._inputs import check_support, is_image, tell_cut, tell_passed_over
from regard.cli._progress import Progress
from regard.cli._terminal import shown_json
from regard.core.errors import UsageError

_FLAGS, _VALUES = ("methods", "json", "help", "debug"), ("method", "file", "out", "support")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", nargs="?", help="a model folder, or a stored .trace file")
    parser.add_argument("text", nargs="*", help="the text (or an image), and a target: a translation, a second text, "
                        "or a continuation; some methods need no text")  # fmt: skip
    parser.add_argument(
        "--method",
        help="maps (the default; overview for a page; some models have their own), effective, …: see --methods",
    )
    parser.add_argument("--methods", action="store_true", help="list the methods and their options")
    parser.add_argument(
        "--file",
        metavar="FILE",
        help="read texts from a file (- is standard input) instead, one per line; --row chooses one of them",
    )
    parser.add_argument("--support", metavar="FOLDER", help="few-shot models: labelled images, a subfolder per class")
    parser.add_argument("--out", metavar="FILE", help="write .html, .svg, .png, .json or .trace instead")
    parser.add_argument("--with", dest="given", action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def prepare(words: list[str]) -> list[str]:
    """Put texts last, and write a method's options as `--with=probes=8`. Argparse does not know these options: it would
    take 8 as a text, take a value with a space as an option, and accept no text after them."""
    start = words.index("explain") + 1
    options, texts, waiting = list[str](), list[str](), words[start:]
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word[2:].partition("=")
        if word == "--":  # everything after it is text
            texts += waiting
            break
        if not word.startswith("-") or word == "-" or (" " in word and not word.startswith("--")):
            texts.append(word)
            continue
        if not word.startswith("--") or name in _FLAGS:
            options.append(word)
            continue
        if not equals and waiting and not waiting[0].startswith("--"):
            equals, value = "=", waiting.pop(0)
        if name in _VALUES and not equals:
            raise UsageError(f"--{name} needs a value", remedy="See regard explain --help.")
        options.append(f"--{name}={value}" if name in _VALUES else f"--with={name}{equals}{value}")
    return [*words[:start], *options, *(["--", *texts] if texts else [])]


def run(arguments: argparse.Namespace) -> int:
    from regard import api

    if arguments.methods:
        return _list()
    out = api.result_file(arguments.out) if arguments.out else None
    is_trace = str(arguments.model).endswith(".trace")
    model: Any = None
    if arguments.method is None:
        model = api.load(arguments.model) if arguments.model is not None and not is_trace else None
        page = out is not None and out.suffix == ".html"
        arguments.method = getattr(model, "usual_method", None) or ("overview" if page else "maps")
    method = api.find_method(arguments.method)
    options, needed = method.parsed(_pairs(arguments.given, arguments.rest)), method.looks_at
    if arguments.model is None and needed is not None:
        raise UsageError("no model was given", remedy='Give its folder and a text: regard explain MODEL "text".')
    texts, target = _inputs(arguments, is_trace)
    if needed is not None:
        model = api.load_trace(arguments.model) if is_trace else model or api.load(arguments.model)
        if not is_trace:
            check_support(model, arguments.support)
            _check_kind(model, texts, target)
            target = target if arguments.support is None else arguments.support
    if out is not None and out.suffix == ".trace":
        if texts is None:
            raise UsageError("a trace needs a text to run the model on", got="a trace" if is_trace else "none")
        api.trace(model, texts, target, value_path=True).save(out)
        print(out)
        return 0
    with Progress(f"explaining by {arguments.method}", unit="") as progress, progress.working():
        result = api.explain(model, texts, target, method=arguments.method, **options)
    tell_cut(model)
    tell_passed_over(model)
    if out is not None:
        result.save(out)
        print(out)
    elif arguments.json:
        print(shown_json(result.as_dict(), allow_nan=False))
    else:
        _show(result)
    return 0


def _check_kind(model: Any, texts: Any, target: Any) -> None:
    """Refuse the name of a file in place of a text, which would be explained as a text."""
    if "image" in model.accepts:
        if target is not None and "image + text" not in model.accepts:
            raise UsageError("an image has no target", got=target, remedy="Give one image; --file takes several.")
    elif model.accepts and isinstance(texts, str) and len(texts) < 256 and Path(texts).suffix and Path(texts).is_file():
        image = is_image(texts)
        raise UsageError(
            f"{texts} is {'an image, and this model reads text' if image else 'a file, not a text'}",
            remedy="Give a text, or a Vision Transformer." if image else f"Its lines: --file {texts}.",
        )


def _show(result: Any) -> None:
    from rich.console import Console

    from regard import api

    console = Console(highlight=False)
    for part in api.panels_for_terminal(result, console.width):
        console.print(part)


def _inputs(arguments: argparse.Namespace, is_trace: bool) -> tuple[Any, Any]:
    words = arguments.text
    if is_trace and (words or arguments.file):
        raise UsageError("a trace already contains its text", got=words[0] if words else arguments.file,
                         remedy="Leave it out, or give the model in place of the trace.")  # fmt: skip
    if arguments.file:
        from regard import api
        from regard.cli._lines import read_all

        if words:
            raise UsageError("both a text and --file are given", remedy="Give one of them.")
        given = read_all() if arguments.file == "-" else api.read_text(arguments.file)
        lines = [line for line in given if line.strip()]
        if not lines:
            raise UsageError(
                f"there is nothing to explain: {arguments.file} is empty", remedy="Give at least one line."
            )
        return lines, None
    if len(words) > 2:
        raise UsageError("too many texts", got=len(words), expected="a text and a target", remedy="Put each in quotes.")
    if words and words[0] == "-":
        from regard.cli._lines import read_all

        words = ["\n".join(read_all()).strip(), *words[1:]]
    if words and not words[0].strip():
        raise UsageError("there is nothing to explain: the text is empty", remedy="Give at least one word.")
    return words[0] if words else None, words[1] if len(words) > 1 else None


def _pairs(given: list[str], rest: list[str]) -> dict[str, str]:
    """Parse `name=value`; `name` alone means true."""
    if rest:
        raise UsageError("this is not an option", got=rest[0], remedy="Put texts that begin with a dash after --.")
    return {name: value if equals else "true" for name, equals, value in (word.partition("=") for word in given)}


def _list() -> int:
    from regard import api

    for name in api.method_names():
        method = api.find_method(name)
        print(f"{name:<11}{method.summary}")
        if method.options:
            print(f"{'':<11}{'  '.join(option.usage() for option in method.options.values())}")
    return 0
