"""The command `regard`: each file in this folder is one verb.

A verb file has a docstring (its help), `configure(parser)` and `run(arguments) -> exit code`; it parses, calls
`regard.api` and prints. An error that the user can fix is one line on standard error and exit code 1 or 2, never a
traceback (except with `--debug`). Nothing here imports torch, so help is shown at once.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from types import ModuleType

import regard
from regard.cli._order import options_first
from regard.cli._signals import noted
from regard.cli._terminal import one_line
from regard.core.errors import RegardError, UnknownName


def main(argv: Sequence[str] | None = None) -> int:
    with noted(program=argv is None) as signals:
        try:
            return _guarded(list(sys.argv[1:] if argv is None else argv))
        except BaseException as error:
            if not signals and not isinstance(error, KeyboardInterrupt):
                raise
            print("regard: interrupted", file=sys.stderr)
            return 128 + (signals or [signal.SIGINT])[0]


def _guarded(argv: list[str]) -> int:
    """Run the command; errors that the user can fix become one line."""
    debug = "--debug" in argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")  # input is UTF-8, so output is too
    try:
        return _run([word for word in argv if word != "--debug"])
    except RegardError as error:
        if debug:
            raise
        print(f"regard: {one_line(error)}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; keep the interpreter's last flush from raising.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if debug:
            raise
        print(f"regard: {one_line(_described(error))}", file=sys.stderr)
        return 1


def _described(error: OSError) -> RegardError:
    """The system's error as one line, with the file and a remedy."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is None:
        return RegardError("the system refused an operation", got=reason, remedy=_REMEDIES.get(error.errno or 0))
    names = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    return RegardError(f"{names} cannot be used", got=reason, remedy=_REMEDIES.get(error.errno or 0, "Check the path."))


_REMEDIES = {
    errno.ENOENT: "Check the path, and create its folder.",
    errno.EACCES: "Check its permissions, or give another path.",
    errno.EPERM: "Check its permissions, or give another path.",
    errno.EROFS: "The disk cannot be written to: give another path.",
    errno.ENOSPC: "Free some disk space, or write elsewhere.",
    errno.EDQUOT: "Free some disk space, or write elsewhere.",
    errno.EISDIR: "Give a file, not a folder.",
    errno.ENOTDIR: "A part of the path is a file, not a folder.",
    errno.EMFILE: "Too many files are open: raise the limit (ulimit -n).",
}


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
    elif first is not None and first not in ("train", "evaluate"):  # their options are not all known here
        start = argv.index(first) + 1
        argv = [*argv[:start], *options_first(choices.choices[first], argv[start:])]
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
