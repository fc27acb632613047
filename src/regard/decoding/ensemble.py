"""An ensemble: the predictions of several models with the same vocabulary are averaged (Sutskever et al. 2014).

    p(y | x) = 1/M Σ_m p_m(y | x)

Each model has its own state, and all models read the same tokens. Probabilities are averaged, not logits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from regard.core.contracts import Decodable
from regard.core.state import State


class EnsembleState(State):
    """The states of all members: each operation on a path or a source is applied to every member's state."""

    def __init__(self, members: Sequence[State], *, sources: int, paths: int, capacity: int) -> None:
        super().__init__(sources=sources, paths=paths, capacity=capacity, device=members[0].lengths_P.device)
        self.members = list(members)

    def fork(self, from_N: Tensor, to_N: Tensor) -> None:
        super().fork(from_N, to_N)
        for member in self.members:
            member.fork(from_N, to_N)

    def move_sources(self, from_N: Tensor, to_N: Tensor) -> None:
        super().move_sources(from_N, to_N)
        for member in self.members:
            member.move_sources(from_N, to_N)

    def begin(self, paths_N: Tensor, sources_N: Tensor | None = None) -> None:
        super().begin(paths_N, sources_N)
        for member in self.members:
            member.begin(paths_N, sources_N)

    def free(self, paths_N: Tensor) -> None:
        super().free(paths_N)
        for member in self.members:
            member.free(paths_N)


class Ensemble:
    """A `Decodable`: the logits of a step are the logarithms of the members' mean probabilities."""

    coverage_site = None
    """Each member has its own attention, so there is no single coverage of the inputs."""

    def __init__(self, models: Sequence[Decodable]) -> None:
        sizes = {model.vocab_size for model in models}
        assert len(sizes) == 1, f"an ensemble has one vocabulary, got sizes {sorted(sizes)}"
        self.models = list(models)
        limits = [model.longest for model in models if model.longest is not None]
        self.longest = min(limits, default=None)

    @property
    def vocab_size(self) -> int:
        return int(self.models[0].vocab_size)

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        room = {"sources": sources, "paths": paths, "capacity": capacity}
        return EnsembleState([model.new_state(**room) for model in self.models], **room)

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        assert isinstance(state, EnsembleState)
        for model, member in zip(self.models, state.members, strict=True):
            model.read(inputs, member, sources_R)

    def step(self, tokens_NT: Tensor, counts_N: Tensor, paths_N: Tensor, state: State) -> Tensor:
        assert isinstance(state, EnsembleState)
        logs_MNV = torch.stack(
            [
                model.step(tokens_NT, counts_N, paths_N, member).log_softmax(-1)
                for model, member in zip(self.models, state.members, strict=True)
            ]
        )
        state.rows(paths_N, counts_N, tokens_NT.shape[1]).advance()
        return logs_MNV.logsumexp(0) - math.log(len(self.models))
