"""GloVe (Pennington, Socher and Manning 2014): vectors whose products are the logarithms of co-occurrence counts.

    minimise  Σᵢⱼ f(Xᵢⱼ) (wᵢ·w̃ⱼ + bᵢ + b̃ⱼ − log Xᵢⱼ)² / 2        f(x) = min(1, (x / x_max)^α)

Xᵢⱼ is the number of times that j occurs within `window` words of i, on either side, each counted as 1/distance.
w, b → `embedding.weight` [V,D], `bias` [V]; w̃, b̃ → `context.weight`, `context_bias`; x_max, α → `limit`, `power`.
Each epoch takes one AdaGrad step for every Xᵢⱼ > 0, in a random order that depends on seed and epoch. The final vectors
are w + w̃.

As in the published code, AdaGrad's sums begin at 1 and add the squares of learning rate × gradient, and unknown words
are left out before distances are counted. We differ in that pairs do not cross batches of text (200,000 words).

`fit` trains the model, in C with all threads (see `_word_loops.py`). With one thread, runs are bit-identical.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from regard.core.batch import Batch
from regard.core.config import Config
from regard.core.contracts import FitEpoch
from regard.core.errors import DataError
from regard.core.native import Missing
from regard.layers.embedding import TokenEmbedding
from regard.models._co_occurrence import CoOccurrence, count_pairs
from regard.models._word_loops import FIRST_WORD, GloveLoop, compiled, random_key

_TOGETHER = 1 << 20
"""The number of pairs between two checks for a signal."""


class GloveConfig(Config):
    vocab_size: int = Field(gt=0)
    d_model: int = Field(100, gt=0)
    window: int = Field(10, gt=0, le=1000, description="words on each side")
    limit: float = Field(100.0, gt=0, description="x_max: counts above it weigh no more")
    power: float = Field(0.75, gt=0)
    trained: bool = Field(True, description="False: only the vectors are known, as in a file of another program")


class Glove(nn.Module):
    Config = GloveConfig
    SIZES: ClassVar[dict[str, dict[str, int]]] = {}

    @staticmethod
    def task_of(config: GloveConfig) -> str:
        return "word_vectors"

    def __init__(self, config: GloveConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = self._table()
        if config.trained:
            self.context = self._table()
            self.bias, self.context_bias = (nn.Parameter(torch.zeros(config.vocab_size)) for _ in range(2))
        self._sums: dict[str, Tensor] = {}
        self._pairs: CoOccurrence | None = None

    def _table(self) -> TokenEmbedding:
        width = self.config.d_model
        table = TokenEmbedding(self.config.vocab_size, width)
        nn.init.uniform_(table.weight, -0.5 / width, 0.5 / width)
        with torch.no_grad():
            table.weight[:FIRST_WORD] = 0.0
        return table

    def forward(self, input_ids: Tensor) -> Tensor:
        """The vectors of words."""
        vectors: Tensor = self.embedding(input_ids)
        return vectors + self.context(input_ids) if self.config.trained else vectors

    def vectors(self) -> Tensor:
        """The vector of every token [V,D]. Vectors of special tokens are zero unless a file contained them."""
        words = self.embedding.weight.detach()
        return words + self.context.weight.detach() if self.config.trained else words

    def fit(self, batches: Iterable[Batch], epoch: FitEpoch) -> Mapping[str, float]:
        """Count pairs on the first call; take one step for every count on each call."""
        if self._pairs is None:
            self._pairs = pairs = count_pairs(
                (batch["tokens"].flatten().numpy() for batch in batches), self.config.vocab_size, self.config.window
            )
            if not len(pairs.counts):
                raise DataError("the text has no two known words near each other", remedy="Check the text.")
            epoch.say(f"{len(pairs.counts):,} pairs of words")
            if isinstance(loops := compiled(), Missing):
                epoch.say(f"training runs in numpy, which is slow: {loops.reason}")
        pairs = self._pairs
        order = np.random.Generator(np.random.Philox(random_key(epoch.seed, epoch.number))).permutation(
            len(pairs.counts)
        )
        loop, loss = self._loop(epoch.lr), 0.0
        for first in range(0, len(order), _TOGETHER):  # in parts, so that a signal is noticed between them
            epoch.check()
            loss += loop.train(pairs.rows, pairs.columns, pairs.counts, order[first : first + _TOGETHER])
        return {"loss": loss / len(pairs.counts)}

    def fit_state(self) -> Mapping[str, Tensor]:
        return self._sums

    def load_fit_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._sums = dict(tensors)

    def _loop(self, lr: float) -> GloveLoop:
        weights = {name: parameter.detach() for name, parameter in self.named_parameters()}
        self._sums = self._sums or {name: torch.ones_like(weight) for name, weight in weights.items()}
        names = (("embedding.weight", "context.weight"), ("bias", "context_bias"))
        vectors, biases = ((weights[word], weights[context]) for word, context in names)
        vector_sums, bias_sums = ((self._sums[word], self._sums[context]) for word, context in names)
        return GloveLoop(vectors, biases, vector_sums, bias_sums, lr, self.config.limit, self.config.power)
