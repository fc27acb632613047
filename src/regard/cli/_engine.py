"""The option of verbs that run a model: with which engine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from regard.cli._inputs import opened
from regard.cli._terminal import one_line


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("auto", "plain", "float32", "bfloat16", "int8"),
        default="auto",
        help="how the model runs: plain is the reference; float32 gives the same result faster; bfloat16 (on CPUs that "
        "have it) and int8 are faster still and nearly the same; auto (the default) is float32 if that can run, else "
        "plain",
    )


def join_partners(model: Any, others: Sequence[str]) -> None:
    """Make the model the first of an ensemble."""
    from regard.core.errors import UsageError

    if not hasattr(model, "join"):
        raise UsageError("only translation models can form an ensemble", got=f"{1 + len(others)} models")
    model.join(*map(opened, others), names=others)


def opened_with_engine(arguments: argparse.Namespace) -> Any:
    """The model, set to run with the engine that was asked for; a note says why if it cannot."""
    first, *others = arguments.model if isinstance(arguments.model, list) else [arguments.model]
    model = opened(first)
    if others:
        join_partners(model, others)
    reason = model.use_engine(arguments.engine)
    if reason is not None:
        print(f"regard: note: {arguments.engine} cannot run, plain is used: {one_line(reason)}", file=sys.stderr)
    return model
