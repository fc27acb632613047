"""Captions of images: a folder of pictures, and lines of a file's name and what it shows."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from regard.tasks.naming import Naming
from torch import Tensor

from regard.core.batch import pad
from regard.core.config import Config
from regard.core.lines import read_lines
from regard.core.paths import expand_path
from regard.data.images import ImageForm
from regard.data.row_batches import RowBatches
from regard.runs.setup import Setup, TokenizerConfig


class NamingData(Config):
    images: str
    train: str
    validation: str | None = None
    tokenizer: TokenizerConfig = TokenizerConfig(kind="word")
    size: int = Field(16, gt=0)


class Captions:
    def __init__(self, folder, lines, form, tokenizer) -> None:
        self.pairs, self.form, self.tokenizer = [tuple(line.split("\t")) for line in lines], form, tokenizer
        self.files = [folder / name for name, _ in self.pairs]
        ids = tokenizer.encode_batch([text for _, text in self.pairs])
        self.ids = [[tokenizer.bos, *row, tokenizer.eos] for row in ids]
        self.lengths = [len(row) for row in self.ids]

    def tensors(self, rows: Sequence[int]) -> dict[str, Tensor]:
        target, mask = pad([self.ids[row] for row in rows], value=self.tokenizer.pad)
        pixels = self.form.pixel_values([self.files[row] for row in rows])
        return {"pixel_values": pixels, "target": target, "target_mask": mask}


class NamingJob(Setup):
    Data = NamingData
    defaults = {"model": {"name": "glimpser"}}  # noqa: RUF012
    offers = ("inputs", "references")

    def task(self):
        return Naming(label_smoothing=self.recipe.training.label_smoothing)

    def files(self):
        return [expand_path(path) for path in (self.data.train, self.data.validation) if path is not None]

    def texts(self):
        return {"source": lambda: (line.split("\t")[1] for line in read_lines(expand_path(self.data.train)))}

    def encode(self, folder, say):
        place = expand_path(self.data.images)
        self.form = ImageForm(size=self.data.size, mean=(0.5,) * 3, std=(0.5,) * 3)
        sets = [Captions(place, read_lines(path), self.form, self.tokenizer) for path in self.files()]
        say(f"train: {len(sets[0].pairs):,} images")
        self.held_out = sets[1] if len(sets) > 1 else None
        return sets[0], self.held_out

    def batches(self, examples, *, shuffle):
        training = self.recipe.training
        budget = training.tokens_per_batch
        return RowBatches(examples, tokens_per_batch=budget, seed=training.seed, shuffle=shuffle)

    def extra(self):
        return {"image": self.form.model_dump(mode="json")}

    def material(self):
        return {"inputs": self.held_out.files, "references": [[text] for _, text in self.held_out.pairs]}
