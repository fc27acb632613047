"""What models that generate share: the engine that runs them."""

from __future__ import annotations

from typing import Any

from regard.core.contracts import Decodable
from regard.core.errors import UnknownName
from regard.pipelines._loaded import Loaded
from regard.runtime import ENGINES, Choice, choose
from regard.store import StoredModel

# From so many multiplications on, plain steps take longer than compiling the kernels (a few seconds).
_WORTH_COMPILING = 3e11


class Generates(Loaded):
    def __init__(self, stored: StoredModel) -> None:
        super().__init__(stored)
        self._engine = "auto"
        self._choice: tuple[tuple[object, ...], Choice] | None = None

    def use_engine(self, engine: str) -> str | None:
        """Run with an engine (`regard.runtime`) from now on: auto, plain, float32 or int8.

        Returns why another one runs in its place, or None where it is there.
        """
        if engine not in ENGINES:
            raise UnknownName("engine", engine, ENGINES)
        self._engine, self._choice = engine, None
        if engine in ("auto", "plain"):
            return None
        return self._chosen(patient=True).reason

    def decodable(self, tokens: int) -> Decodable:
        """The model as its engine runs it, for about so many tokens to be generated."""
        size = sum(parameter.numel() for parameter in self.model.parameters())
        return self._chosen(patient=tokens * size > _WORTH_COMPILING).model

    def _chosen(self, *, patient: bool) -> Choice:
        # Prepared weights are copies: they are made again where the model's own have changed.
        now = tuple((id(parameter), parameter._version) for parameter in self.model.parameters())
        if self._choice is None or self._choice[0] != now:
            choice = choose(self.model, self._engine, patient=patient)
            if choice.engine == "plain" and not patient:
                return choice
            self._choice = now, choice
        return self._choice[1]

    def __getstate__(self) -> dict[str, Any]:
        # Prepared weights know their own addresses, so they cannot be copied.
        return {**super().__getstate__(), "_choice": None}  # type: ignore[no-untyped-call]
