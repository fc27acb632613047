"""Answers questions about images: files or open images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.batch import pad
from regard.core.errors import DataError, UsageError
from regard.data.images import ImageForm
from regard.explain import Subject
from regard.explain.subject import Beside
from regard.pipelines import _subjects as subjects
from regard.pipelines._classes import class_names, classified, probabilities
from regard.pipelines._image_form import image_form
from regard.pipelines._loaded import Loaded, check_texts
from regard.pipelines._verbs import verb

_SHOWN = 10  # words in an error


@dataclass(frozen=True)
class ImageAnswer:
    """The most probable answer with its probability; `scores` are those of all answers."""

    text: str
    score: float
    scores: dict[str, float] = field(repr=False)


class VisualQuestionAnsweringPipeline(Loaded):
    """The answers to choose from, and how images are prepared, are stored with the model."""

    usage = 'regard answer FOLDER image.png "What is it?"'
    accepts = ("image", "image + text")

    @property
    def form(self) -> ImageForm:
        return image_form(self.stored.extra)

    @verb("a question answering model")
    def answer(
        self, questions: Sequence[str], images: Sequence[str | Path | Any], *, rows: int = 32
    ) -> list[ImageAnswer]:
        """The answer to each question about its image."""
        check_texts(questions)
        if isinstance(images, (str, Path)):
            raise UsageError("images must be a list", got="one path", remedy="Put it into a list.")
        if len(questions) != len(images):
            raise DataError(
                "each question needs an image", got=f"{len(questions)} and {len(images)}", expected="the same number"
            )
        extra, results = self.stored.extra, list[ImageAnswer]()
        names = class_names(extra, self.config.n_labels)
        model = self.runner(len(images) * self.model.encoder.n_patches)
        for start in range(0, len(images), rows):
            inputs = self._inputs(questions[start : start + rows], images[start : start + rows], start)
            with torch.inference_mode():
                logits = model(**inputs).logits
            for row in probabilities(logits, extra).tolist():
                best = classified(names, row, extra)
                results.append(ImageAnswer(best.label, best.score, best.scores))
        return results

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """One image or several; the target is a question about each."""
        images = [inputs] if isinstance(inputs, (str, Path)) or not isinstance(inputs, Sequence) else list(inputs)
        if target is None:
            remedy = 'Give it after the image: regard explain MODEL image.png "What is it?"'
            raise UsageError("this model answers questions, and there is none about the image", remedy=remedy)
        questions = subjects.listed(target, "question")
        if len(questions) != len(images):
            got = f"{len(images)} and {len(questions)}"
            raise UsageError("each image needs a question", got=got, expected="the same number")
        read, model = self._inputs(questions, images, 0), self.model
        pixels, grid = read["pixel_values"], model.encoder.grid_of(*read["pixel_values"].shape[2:])
        with torch.no_grad():
            score, goal, answer = self.head_answer(model(**read), read)
        tokens = [self.tokenizer.tokens(ids[real].tolist())
                  for ids, real in zip(read["input_ids"], read["attention_mask"], strict=True)]  # fmt: skip
        hops = self.config.hops
        labels = [[text] if hops == 1 else [f"look {hop + 1}" for hop in range(hops)] for text in questions]
        beside, patches = self._beside(read), [subjects.patch_labels(grid)] * len(images)
        return Subject(
            self.stored.name,
            self.stored.task,
            model,
            read,
            {"image": patches, "input": tokens, "hop": labels, **dict.fromkeys(beside, patches)},
            score,
            goal,
            {"input": read["input_ids"]},
            answer,
            label=self.answer_label,
            token_embedding=model.embedding.weight.detach(),
            grids={"image": grid, **dict.fromkeys(beside, grid)},
            untrained=subjects.untrained(self, lambda other: other.subject(images, questions)),
            texts=questions,
            pictures=self.form.pictures(pixels),
            beside=beside,
        )

    def _inputs(self, questions: Sequence[str], images: Sequence[Any], first: int) -> dict[str, Tensor]:
        ids, real = pad(self._read(questions, first), value=self.tokenizer.pad)
        return {"pixel_values": self.form.pixel_values(images), "input_ids": ids, "attention_mask": real}

    def _read(self, questions: Sequence[str], first: int) -> list[list[int]]:
        """The tokens of questions; a question without a known word is refused, by its number."""
        rows, known = self.tokenizer.encode_batch(list(questions)), self.tokenizer.whole_words()
        for number, (question, ids) in enumerate(zip(questions, rows, strict=True), first + 1):
            which = "the question" if len(questions) == 1 and not first else f"question {number}"
            if not ids:
                raise DataError(f"{which} is empty", expected="at least one word", remedy="Write one, or leave it out.")
            if not any(any(map(str.isalnum, known.get(token, ""))) for token in ids):
                words = ", ".join([word for word in known.values() if word.isalpha()][:_SHOWN])
                raise DataError(
                    f"{which} has no word that this model knows",
                    got=repr(question[:60]),
                    expected=f"words such as {words}",
                    remedy="Ask in words of the questions that it was trained on.",
                )
        return rows

    def _beside(self, read: dict[str, Tensor]) -> dict[str, Beside]:
        """The exemplars of each question, for a model with differential attention."""
        bank = self.model.bank
        if bank is None or not bool(bank.usable.any()):
            return {}
        each, beside = bank.input_ids.shape[1], dict[str, Beside]()
        for side, chosen in self.model.exemplars_of(**read).items():
            held = (part.flatten(0, 1)[chosen] for part in (bank.input_ids, bank.attention_mask, bank.labels))
            texts = [
                f"{side}: {self.tokenizer.decode(ids[real].tolist())} {self.answer_label(int(label))}"
                for ids, real, label in zip(*held, strict=True)
            ]
            beside[side] = Beside(self.form.pictures(bank.pixel_values[chosen // each]), texts)
        return beside
