"""Faster ways to run a model on a CPU, with the same results.

    prepared = prepare(model, "float32")     # replaces the model: a Decodable, or an encoder to be called

    plain     the model as it is: the reference
    float32   packed weights and compiled kernels; the same tokens (docs/decisions/runtime.md)
    bfloat16  weights and activations with 8 significant bits, half of the memory to read; for CPUs with bfloat16
              products (AVX-512 BF16)
    int8      weights and activations as 8-bit integers, a quarter of the memory to read
    auto      float32 if the kernels are compiled or the work is worth compiling them, otherwise plain

A model that cannot be prepared runs as `plain`; `Choice.reason` says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from regard.core import copies
from regard.core.errors import UnknownName
from regard.decoding import candidates
from regard.runtime.native import Missing, kernels
from regard.runtime.prepared import Prepared, PreparedEncoder, cannot
from regard.runtime.products import PackedBfloat16, PackedFloat, PackedInt8, Product

Engine = Literal["auto", "plain", "float32", "bfloat16", "int8"]
ENGINES: tuple[str, ...] = get_args(Engine)
_PACKED: dict[str, Callable[..., Product]] = {"float32": PackedFloat, "bfloat16": PackedBfloat16, "int8": PackedInt8}

__all__ = ["ENGINES", "Choice", "Engine", "choose", "prepare"]


@dataclass(frozen=True)
class Choice:
    """The model that runs, its engine, and the reason if the engine is not the requested one."""

    model: Any
    engine: str
    reason: str | None = None


def choose(model: Any, engine: str = "auto", *, patient: bool = True) -> Choice:
    """The model prepared for an engine. Unless `patient`, `auto` does not wait for a compiler."""
    if engine not in ENGINES:
        raise UnknownName("engine", engine, ENGINES)
    if engine == "plain":
        return Choice(model, "plain")
    reason = cannot(model)
    if reason is not None:
        return Choice(model, "plain", reason)
    build = patient or engine != "auto"
    native = kernels(build=build)
    if isinstance(native, Missing):
        return Choice(model, "plain", native.reason)
    if build:
        candidates.LOOPS.compile()
        copies.LOOPS.compile()
    if engine == "bfloat16" and not native.has_low_products:
        return Choice(model, "plain", "this CPU has no products of bfloat16 numbers")
    precision = "float32" if engine == "auto" else engine
    kind = Prepared if hasattr(model, "step") else PreparedEncoder
    return Choice(kind(model, partial(_PACKED[precision], native), native), precision)


def prepare(model: Any, engine: str = "auto") -> Any:
    """Return the model prepared for an engine, or the model itself if it cannot be prepared.

    For a model that generates, the result is a `Decodable`. A prepared encoder is called like the model.
    """
    return choose(model, engine).model
