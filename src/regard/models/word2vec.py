"""word2vec (Mikolov et al. 2013a, b): a word's vector predicts the words around it, or is predicted from them.

skip-gram    each word o in a window predicts the centre c:       minimise −log σ(uᶜ·vᵒ) − Σₖ log σ(−uᵏ·vᵒ)
CBOW         the mean h of the window's vectors predicts c:       minimise −log σ(uᶜ·h) − Σₖ log σ(−uᵏ·h)

v → `embedding.weight` [V,D], the final vectors; u → `context.weight` [V,D]. The k = 1 … `negative` noise words are
drawn in proportion to count^`noise_power`. Frequent words are left out at random (`sample`) before windows are formed.
The window has 1 … `window` words per side, drawn again for each centre, so near words count more. The learning rate
falls linearly from `training.lr` to almost 0 over all epochs.

Where we differ from the published code: skip-gram predicts the centre from its neighbours (the pairs are the same;
gensim does this too), the sigmoid is exact and not read from a table, and all noise words of a prediction are scored
before any vector is changed. In CBOW every vector of the window gets the whole step, not a share of it, as in the
published code.

`fit` trains the model, in C with all threads (see `_word_loops.py`). With one thread, runs are bit-identical.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.core.batch import Batch
from regard.core.config import Config
from regard.core.contracts import FitEpoch
from regard.core.native import Missing
from regard.layers.embedding import TokenEmbedding
from regard.models._word_loops import END, FIRST_WORD, Passage, Sampling, Word2vecLoop, compiled, random_key


class Word2vecConfig(Config):
    vocab_size: int = Field(gt=0)
    d_model: int = Field(100, gt=0)
    architecture: Literal["skip_gram", "cbow"] = "skip_gram"
    window: int = Field(5, gt=0, le=1000, description="words on each side at most")
    negative: int = Field(5, gt=0, le=60, description="noise words for each prediction")
    sample: float = Field(1e-3, ge=0, description="words above this share of the text are left out at random; 0: none")
    noise_power: float = 0.75
    trained: bool = Field(True, description="False: only the vectors are known, as in a file of another program")


class Word2vec(nn.Module):
    Config = Word2vecConfig
    SIZES: ClassVar[dict[str, dict[str, int]]] = {}

    @staticmethod
    def task_of(config: Word2vecConfig) -> str:
        return "word_vectors"

    def __init__(self, config: Word2vecConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocab_size, config.d_model)
        nn.init.uniform_(self.embedding.weight, -1 / config.d_model, 1 / config.d_model)
        self.counts: Tensor
        if config.trained:
            self.context = TokenEmbedding(config.vocab_size, config.d_model)
            nn.init.zeros_(self.context.weight)
            self.register_buffer("counts", torch.zeros(config.vocab_size, dtype=torch.int64))
        with torch.no_grad():
            self.embedding.weight[:FIRST_WORD] = 0.0

    def forward(self, input_ids: Tensor) -> Tensor:
        """The vectors of words."""
        vectors: Tensor = self.embedding(input_ids)
        return vectors

    def vectors(self) -> Tensor:
        """The vector of every token [V,D]. Vectors of special tokens are zero unless a file contained them."""
        return self.embedding.weight.detach()

    def fit(self, batches: Iterable[Batch], epoch: FitEpoch) -> Mapping[str, float]:
        """Train on one epoch of `tokens`. The first epoch counts the words; a checkpoint holds the counts."""
        if epoch.number == 0:  # a model to start from holds the counts of another text
            self.counts.zero_()
            for batch in batches:
                self.counts += torch.bincount(batch["tokens"].flatten(), minlength=len(self.counts))
            if isinstance(loops := compiled(), Missing):
                epoch.say(f"training runs in numpy, which is slow: {loops.reason}")
        counts, tokens_in_all = self.counts.clone(), int(self.counts.sum())
        counts[:FIRST_WORD] = 0
        loop = self._loop(counts, epoch, tokens_in_all)
        loss, predictions, first = 0.0, 0.0, 0
        for batch in batches:
            tokens = batch["tokens"].flatten()
            summed = loop.train(Passage(tokens, first, epoch.number * tokens_in_all + first))
            first += len(tokens)
            loss, predictions = loss + summed[0], predictions + summed[1]
        return {"loss": loss / max(1.0, predictions)}

    def fit_state(self) -> Mapping[str, Tensor]:
        return {}

    def load_fit_state(self, tensors: Mapping[str, Tensor]) -> None:
        assert not tensors

    def _loop(self, counts: Tensor, epoch: FitEpoch, tokens: int) -> Word2vecLoop:
        config = self.config
        return Word2vecLoop(
            self.embedding.weight.detach(),
            self.context.weight.detach(),
            Sampling.of(counts.numpy(), sample=config.sample, power=config.noise_power),
            window=config.window,
            negative=config.negative,
            cbow=config.architecture == "cbow",
            specials=FIRST_WORD,
            end=END,
            lr=epoch.lr,
            total=tokens * epoch.total,
            key=random_key(epoch.seed, epoch.number),
        )
