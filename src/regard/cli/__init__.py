"""The command `regard`: one file in this folder is one verb.

A verb file has a docstring (its help), `configure(parser)` and `run(arguments) -> exit code`; it parses, calls
`regard.api` and prints. What a user can mend is one line on standard error and exit code 1 or 2, never a traceback
(unless `--debug` asks for one). Nothing here imports torch, so help answers at once.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

import regard
from regard.core.errors import RegardError, UnknownName


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")  # text in is UTF-8, so text out is too
    try:
        return _run([word for word in argv if word != "--debug"])
    except RegardError as error:
        if debug:
            raise
        print(f"regard: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("regard: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, less) has left; keep the interpreter's last flush from complaining about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if debug:
            raise
        print(f"regard: {error}", file=sys.stderr)
        return 1


def _run(argv: list[str]) -> int:
    verbs = _verbs()
    parser = argparse.ArgumentParser(prog="regard", description="Train, run and explain attention models.")
    parser.add_argument("--version", action="version", version=f"regard {regard.__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    choices = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs")
    for name, verb in verbs.items():
        text = (verb.__doc__ or "").strip()
        verb.configure(choices.add_parser(name, help=text.split("\n", 1)[0].rstrip("."), description=text))
    first = next((word for word in argv if not word.startswith("-")), None)
    if first is not None and first not in verbs:
        raise UnknownName("verb", first, verbs)
    if first is not None and (prepare := getattr(verbs[first], "prepare", None)):
        argv = prepare(argv)
    arguments, rest = parser.parse_known_args(argv)
    if rest and arguments.verb not in ("train", "evaluate", "explain"):
        parser.error(f"{arguments.verb or 'regard'} does not know {' '.join(rest)}")
    arguments.rest = rest
    if arguments.verb is None:
        parser.print_help()
        return 0
    return int(verbs[arguments.verb].run(arguments))


def _verbs() -> dict[str, ModuleType]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}
