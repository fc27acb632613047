"""Captions images: files or open images, or features that the model's own encoder computed before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.batch import pad
from regard.core.errors import UsageError
from regard.core.search import Search
from regard.data.captions import words_only
from regard.data.images import ImageForm
from regard.decoding import Hypothesis, decode
from regard.explain import Subject
from regard.pipelines import _subjects as subjects
from regard.pipelines._image_form import image_form
from regard.pipelines._loaded import Loaded
from regard.pipelines._verbs import verb

_LONGEST = 30


@dataclass(frozen=True)
class Caption:
    """One caption of an image; `score` is what the search ranks by."""

    text: str
    score: float
    log_prob: float
    tokens: list[int] = field(repr=False)


class CaptioningPipeline(Loaded):
    """`regard.load(folder)`: captions of lists of images; results do not depend on how they are batched."""

    usage = "regard caption FOLDER photo.jpg"
    accepts = ("image", "image + text")

    @property
    def form(self) -> ImageForm:
        return image_form(self.stored.extra)

    @verb("a captioning model")
    def caption(self, images: Sequence[Any], **search: Any) -> list[str]:
        """The best caption of each image; options are those of `Search`, such as beam=1 or max_length=20."""
        return [best[0].text for best in self.caption_nbest(images, **search)]

    def texts(self, inputs: Sequence[Any], **search: Any) -> list[str]:
        return self.caption(inputs, **search)

    def caption_nbest(
        self,
        images: Sequence[Any],
        *,
        rows: int = 32,
        first: int = 0,
        on_progress: Callable[[int, int], None] | None = None,
        **search: Any,
    ) -> list[list[Caption]]:
        """The `nbest` captions of each image, best first; `rows` images are decoded together.

        `first` is the number of the first image, on which sampling depends: images in parts get the same captions as
        all at once."""
        if isinstance(images, (str, Path)):
            raise UsageError("images must be a list", got="one path", remedy="Put it into a list.")
        options = Search.parse({**self.stored.search.model_dump(), **search}, "search options")
        if options.max_length is None:
            options = options.model_copy(update={"max_length": _LONGEST})
        results: list[list[Caption]] = []
        tokens, model = self.tokenizer, self.runner(len(images) * options.beam * _LONGEST)
        for start in range(0, len(images), rows):
            seen = self._seen(images[start : start + rows])
            numbers = range(first + start, first + start + len(next(iter(seen.values()))))
            with torch.inference_mode():
                decoded = decode(
                    model, seen, options, bos=tokens.bos, eos=tokens.eos, pad=tokens.pad, rows=list(numbers)
                )
            results += [[self._caption(each) for each in hypotheses] for hypotheses in decoded]
            if on_progress is not None:
                on_progress(len(decoded), 0)
        return results

    def subject(self, inputs: Any, target: Any = None, **search: Any) -> Subject:
        """One image or several; the target is a given caption, or by default the result of the search.

        A given caption is read in the form in which captions were learnt: as lower-case words, or as it is."""
        images = [inputs] if isinstance(inputs, (str, Path)) or not isinstance(inputs, Sequence) else list(inputs)
        if not images:
            raise UsageError("there is nothing to explain: no image")
        pixels, decoded = self.form.pixel_values(images), dict[str, Any]()
        if target is None:
            best = [hypotheses[0] for hypotheses in self.caption_nbest(images, **search)]
            written, decoded = [caption.tokens for caption in best], {"decoded": True}
            captions = [caption.text for caption in best]
        else:
            given = subjects.listed(target, "caption")
            words = self.stored.extra.get("words_only", True)
            captions = [words_only(text) if words else text for text in given]
            written = self.tokenizer.encode_batch(captions)
            decoded = {"unknown": [self._unknown(text) for text in captions]}
        if len(written) != len(images):
            raise UsageError(
                "each image needs a caption", got=f"{len(images)} and {len(written)}", expected="the same number"
            )
        return self._subject(pixels, written, {"captions": captions, **decoded}, images)

    def _subject(self, pixels: Tensor, written: list[list[int]], output: dict[str, Any], images: list[Any]) -> Subject:
        tokens, model = self.tokenizer, self.model
        read, _ = pad([[tokens.bos, *row] for row in written], value=tokens.pad)
        wanted, _ = pad([[*row, tokens.eos] for row in written], value=subjects.NOT_ASKED)
        ends = [[*tokens.tokens(row), "</s>"] for row in written]
        grid = model.encoder.grid_of(*pixels.shape[2:])
        captions: list[str] = output["captions"]
        return Subject(
            self.stored.name,
            self.stored.task,
            model,
            {"pixel_values": pixels, "target": read},
            {
                "image": [subjects.patch_labels(grid)] * len(pixels),
                "target": ends,
                "prefix": [["<s>", *row[:-1]] for row in ends],
            },
            subjects.token_score,
            {"wanted": wanted},
            {"target": wanted, "prefix": read},
            output,
            model.head_logits,
            lambda token: tokens.tokens([token])[0],
            model.embedding.weight.detach(),
            grids={"image": grid},
            untrained=subjects.untrained(self, lambda other: other.subject(images, captions)),
            texts=captions,
            pictures=self.form.pictures(pixels),
        )

    def _unknown(self, caption: str) -> list[str]:
        """The words of a caption that the model does not know, each once."""
        words, unknown = list(dict.fromkeys(caption.split())), self.tokenizer.specials.unk
        return [word for word, ids in zip(words, self.tokenizer.encode_batch(words), strict=True) if unknown in ids]

    def _seen(self, images: Sequence[Any]) -> dict[str, Tensor]:
        """What the model reads of each image."""
        if images and all(isinstance(image, Tensor) for image in images):
            return {"features": torch.stack(list(images))}
        opened = [image() if callable(image) else image for image in images]
        return {"pixel_values": self.form.pixel_values(opened)}

    def _caption(self, best: Hypothesis) -> Caption:
        return Caption(self.tokenizer.decode(best.tokens), best.score, best.log_prob, best.tokens)
