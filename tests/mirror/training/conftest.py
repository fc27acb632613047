"""A small run that takes a second: a Transformer that learns to copy, in memory, with everything switched on."""

from collections.abc import Iterator

import pytest
import torch

from regard.core.batch import Batch, pad
from regard.models import config_of, make_model
from regard.tasks.translation import Translation
from regard.training.config import TrainingConfig
from regard.training.engine import Engine

OPTIONS = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 1}


class Copies:
    """Ten batches an epoch of sequences to copy; the same for the same epoch."""

    def batches_in_epoch(self, number: int) -> int:
        return 10

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        for index in range(start, 10):
            generator = torch.Generator().manual_seed(1000 * number + index)
            rows = [torch.randint(4, 12, (n,), generator=generator).tolist() for n in (3, 5, 4, 6)]
            source, source_mask = pad([[*row, 3] for row in rows], value=0)
            target, target_mask = pad([[2, *row, 3] for row in rows], value=0)
            yield Batch({"source": source, "source_mask": source_mask, "target": target, "target_mask": target_mask})


@pytest.fixture
def make_engine(tmp_path):
    """`make_engine(folder="a", max_steps=9, ...)`: a new model with seed 0 each time."""

    def make(folder: str = "run", *, validate=None, on_best=None, data=None, dropout=0.1, **training) -> Engine:
        torch.manual_seed(0)
        sizes = {"source_vocab": 12, "target_vocab": 12, **OPTIONS, "dropout": dropout}
        model = make_model("transformer", config_of("transformer", sizes))
        settings = {"warmup": 5, "lr": 1e-2, "log_every": 5, "max_steps": 23, **training}
        config = TrainingConfig.parse(settings)
        (tmp_path / folder).mkdir(exist_ok=True)
        return Engine(
            model, Translation(label_smoothing=0.1), data or Copies(), config, tmp_path / folder,
            validate=validate, on_best=on_best, quiet=True,
        )  # fmt: skip

    return make
