"""Which engine runs a loaded model."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from regard.core.errors import UnknownName
from regard.runtime import ENGINES, Choice, choose

# From this many multiplications on, plain steps take longer than compiling the kernels (a few seconds).
_WORTH_COMPILING = 3e11


class Engines(nn.Module):
    """A model that runs with an engine of `regard.runtime`: auto, plain, float32, bfloat16 or int8."""

    model: Any

    def __init__(self) -> None:
        super().__init__()
        self._engine = "auto"
        self._choice: tuple[tuple[object, ...], Choice] | None = None

    def use_engine(self, engine: str) -> str | None:
        """Run with this engine from now on.

        Returns why another engine runs in its place, or None if it can run. Weights that are changed later are packed
        again, unless they are changed through `.data`, which torch does not note: call `use_engine` again after that.
        """
        if engine not in ENGINES:
            raise UnknownName("engine", engine, ENGINES)
        self._engine, self._choice = engine, None
        return None if engine in ("auto", "plain") else self._chosen(math.inf).reason

    def runner(self, tokens: int) -> Any:
        """The model as its engine runs it, for about this many tokens."""
        return self._chosen(tokens).model

    def _chosen(self, tokens: float) -> Choice:
        parameters = list(self.model.parameters())
        # Packed weights are copies: they are packed again if the model's own have changed, or moved to another place or
        # type (which leaves the parameter and its version as they are).
        now = tuple((id(p), p._version, p.data_ptr(), p.dtype) for p in parameters)
        if self._choice is None or self._choice[0] != now:
            patient = tokens * sum(parameter.numel() for parameter in parameters) > _WORTH_COMPILING
            choice = choose(self.model, self._engine, patient=patient)
            if choice.engine == "plain" and not patient:
                return choice
            self._choice = now, choice
        return self._choice[1]

    def __getstate__(self) -> dict[str, Any]:
        # The kernels know packed weights by their addresses, so these cannot be copied.
        return {**super().__getstate__(), "_choice": None}  # type: ignore[no-untyped-call]
