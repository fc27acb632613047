"""Training data that a captioning model generates: captions that it samples, each with its advantage over the others.

    A_k = r_k − Σ_{j≠k} r_j / (K − 1)        r_k: BLEU of sample k against all references of its image, from 0 to 1

Self-critical training (Rennie et al. 2017), with the mean of an image's other samples as the baseline (Kool et al.
2019) in place of the greedy caption. K is `samples`; the score is `text_scores.sentence_bleu`.

A batch is sampled when it is asked for, by the weights as they are. Images and samples depend only on the seed and the
epoch, so a run that resumes samples the same captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from regard.core.batch import Batch, pad
from regard.core.search import Search
from regard.data.captions import CaptionRows
from regard.data.chance import Dice, Ints
from regard.data.epochs import Epochs
from regard.data.text import Tokenizer
from regard.decoding import decode
from regard.evaluation.text_scores import sentence_bleu

LONGEST = 24
"""The most tokens of a sampled caption."""


class OwnCaptions(Epochs):
    """Batches of captions by `model`, with an `advantages` entry for each; an epoch shows each image once."""

    def __init__(
        self, model: Any, rows: CaptionRows, tokenizer: Tokenizer, *, images: int, samples: int, seed: int
    ) -> None:
        super().__init__(seed=seed, shuffle=True)
        self.model, self.rows, self.tokenizer = model, rows, tokenizer
        self.images_per_batch, self.samples = images, samples

    def plan(self, number: int) -> list[Ints]:
        order = Dice(self.seed, number).order(len(self.rows.captioned))
        return [order[at : at + self.images_per_batch] for at in range(0, len(order), self.images_per_batch)]

    def batch(self, rows: Ints, number: int) -> Batch:
        images = rows.tolist()
        several = self.rows.images.versions
        versions = [int(Dice(self.seed, number, image).below(several, 1)[0]) for image in images]
        seen = self.rows.images(images, versions)
        captions = self._sample(seen, [number * len(self.rows.captioned) + image for image in images])
        tokens = self.tokenizer
        target, mask = pad([[tokens.bos, *ids] for own in captions for ids in own], value=tokens.pad)
        gained = [part for image, own in zip(images, captions, strict=True) for part in self._advantages(image, own)]
        repeated = {name: tensor.repeat_interleave(self.samples, 0) for name, tensor in seen.items()}
        written = {"target": target, "target_mask": mask, "advantages": torch.tensor(gained)}
        return Batch({**repeated, **written}, tuple(image for image in images for _ in range(self.samples)))

    def _sample(self, seen: dict[str, torch.Tensor], numbers: list[int]) -> list[list[list[int]]]:
        """The tokens of each image's samples, with the end token if it was sampled. Dropout is off."""
        search = Search(sample=True, nbest=self.samples, max_length=LONGEST, seed=self.seed)
        tokens, training = self.tokenizer, self.model.training
        self.model.eval()
        try:
            drawn = decode(self.model, seen, search, bos=tokens.bos, eos=tokens.eos, pad=tokens.pad, rows=numbers)
        finally:
            self.model.train(training)
        return [[[*each.tokens, *[tokens.eos] * each.finished] for each in several] for several in drawn]

    def _advantages(self, image: int, captions: Sequence[Sequence[int]]) -> list[float]:
        references = self.rows.captioned[image].captions
        scores = [sentence_bleu(self.tokenizer.decode(list(ids)), references) for ids in captions]
        total, others = sum(scores), len(scores) - 1
        return [score - (total - score) / others for score in scores]
