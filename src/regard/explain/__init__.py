"""Explanation of models: a method takes the trace of one run and returns a result. `methods/` has one file per method.

    trace = regard.trace(model, "The cat sat.", value_path=True)
    regard.explain.effective(trace).save("effective.html")

A method's file defines a function with the file's name. `LOOKS_AT` says what its first argument is: "trace" (one run),
"model" (a loaded model) or None (only options). `NEEDS` says what its trace must hold. Methods are imported when they
are first used.
"""

from __future__ import annotations

from typing import Any

from regard.explain.recording import record
from regard.explain.running import explain, find_method, load_trace, method_names, result_file, trace
from regard.explain.subject import Subject
from regard.explain.traces import Site, Trace

__all__ = [
    "Site",
    "Subject",
    "Trace",
    "explain",
    "find_method",
    "load_trace",
    "method_names",
    "record",
    "result_file",
    "trace",
]


def __getattr__(name: str) -> Any:
    """`regard.explain.maps` is the function of the method `maps`."""
    if name in method_names():
        return find_method(name).function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *method_names()])
