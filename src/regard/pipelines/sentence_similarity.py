"""Sentence embeddings of length 1: the mean of an encoder's states over the real tokens, unless its folder says
otherwise; similarity is their cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import DataError
from regard.core.pooling import pool
from regard.pipelines._loaded import TextEncoder
from regard.pipelines._verbs import verb


class SentenceSimilarityPipeline(TextEncoder):
    """Any text encoder can do this; one that was trained for it does it well."""

    usage = 'regard similar FOLDER "…" "…"'

    @verb("an encoder")
    def embed(
        self, texts: Sequence[str], *, rows: int = 32, on_progress: Callable[[int, int], None] | None = None
    ) -> Tensor:
        """One vector of length 1 per text [N,D]. `on_progress` gets the texts and tokens done since its last call."""
        every: Tensor | None = None
        how = getattr(self.config, "pooling", None)
        for places, inputs, output in self.outputs(texts, rows=rows):
            assert output.hidden is not None
            vectors = F.normalize(pool(output.hidden, inputs["attention_mask"], how), dim=-1)
            every = vectors.new_empty(len(texts), vectors.shape[1]) if every is None else every
            every[torch.tensor(places)] = vectors
            if on_progress is not None:
                on_progress(len(places), int(inputs["attention_mask"].sum()))
        return torch.empty(0, self.config.d_model) if every is None else every.clone()

    @verb("an encoder")
    def similar(self, texts: Sequence[str], others: Sequence[str], *, rows: int = 32) -> list[float]:
        """The cosine of each text with the other text at the same index."""
        if len(texts) != len(others):
            raise DataError(
                "the two lists differ in length", got=f"{len(texts)} and {len(others)}", expected="the same number"
            )
        both = self.embed([*texts, *others], rows=rows)
        cosines: list[float] = (both[: len(texts)] * both[len(texts) :]).sum(-1).tolist()
        return cosines
