"""What all loaded models share: a torch module that can be called, saved, and asked for what its task allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from regard import folder as folders
from regard.core.errors import LengthError, UsageError
from regard.core.output import Output
from regard.data.text import Tokenizer
from regard.data.text.rows import named
from regard.explain import Subject
from regard.folder import ModelFolder
from regard.layout import layout
from regard.pipelines import _subjects as subjects

_NEEDS = {
    "translate": "a translation model",
    "align": "a translation model",
    "generate": "a language model",
    "classify": "a model with a classifier",
    "answer": "a question answering model",
    "fill": "a masked language model",
    "embed": "an encoder",
    "similar": "an encoder",
    "explain": "a model that reads text or images",
}


class Loaded(nn.Module):
    """`regard.load(folder)`. Calling it runs the model: `loaded(input_ids=…, attention_mask=…).logits`."""

    def __init__(self, stored: ModelFolder) -> None:
        super().__init__()
        self.stored = stored
        self.model: Any = stored.model
        self.eval()

    def forward(self, *inputs: Any, **named: Any) -> Output:
        output: Output = self.model(*inputs, **named)
        return output

    @property
    def config(self) -> Any:
        return self.stored.config

    @property
    def tokenizer(self) -> Tokenizer:
        """Text to ids; a folder may have come without one."""
        if self.stored.source_tokenizer is None:
            raise UsageError(
                "this model came without a tokenizer, so that it cannot read text",
                remedy="Put its tokenizer.json (or vocab.txt, or vocab.json and merges.txt) into the folder.",
            )
        return self.stored.source_tokenizer

    def save(self, folder: str | Path) -> None:
        """Write a model folder."""
        folders.save(Path(folder), self.stored)

    save_pretrained = save

    def translate(self, *_: Any, **__: Any) -> Any:
        self._cannot("translate")

    def align(self, *_: Any, **__: Any) -> Any:
        self._cannot("align")

    def generate(self, *_: Any, **__: Any) -> Any:
        self._cannot("generate")

    def classify(self, *_: Any, **__: Any) -> Any:
        self._cannot("classify")

    def answer(self, *_: Any, **__: Any) -> Any:
        self._cannot("answer")

    def fill(self, *_: Any, **__: Any) -> Any:
        self._cannot("fill")

    def embed(self, *_: Any, **__: Any) -> Any:
        self._cannot("embed")

    def similar(self, *_: Any, **__: Any) -> Any:
        self._cannot("similar")

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """What there is to explain: the model, `inputs` (texts or images) as tensors and tokens, and its answer."""
        self._cannot("explain")

    def explain(self, inputs: Any, target: Any = None, *, method: str = "maps", **options: Any) -> Any:
        """The result of one of `regard.explain`'s methods on these texts or images."""
        from regard.looking import explain

        return explain(self, inputs, target, method=method, **options)

    def _cannot(self, verb: str) -> NoReturn:
        able = [name for name in _NEEDS if getattr(type(self), name) is not getattr(Loaded, name)]
        raise UsageError(
            f"{verb} needs {_NEEDS[verb]}",
            got=f"a {self.stored.name} for {self.stored.task.replace('_', ' ')}",
            remedy=f"This one can {' and '.join(able)}." if able else "This one can only be called from Python.",
        )


class TextEncoder(Loaded):
    """A model that reads texts, or pairs of them, all at once."""

    def outputs(
        self, texts: Sequence[str], others: Sequence[str] | None = None, *, rows: int = 32
    ) -> Iterator[tuple[list[int], dict[str, torch.Tensor], Output]]:
        """The model's outputs in batches of texts of like length: their places in `texts`, the inputs, the output."""
        check_texts(texts)
        lengths = [len(text) for text in texts]
        order = sorted(range(len(texts)), key=lengths.__getitem__)
        for start in range(0, len(order), rows):
            chosen = order[start : start + rows]
            second = None if others is None else [others[i] for i in chosen]
            inputs = self.inputs([texts[i] for i in chosen], second)
            with torch.inference_mode():
                yield chosen, inputs, self.model(**inputs)

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """The target is the second text of a pair; for an encoder without a head, what its vector is compared with."""
        return subjects.reader_subject(self, inputs, target)

    def whole_inputs(self, texts: Sequence[str], others: Sequence[str] | None = None) -> dict[str, torch.Tensor]:
        """Tensors of the texts, refused where they are longer than the model's positions."""
        inputs = self._laid_out(texts, others, 1 << 30)
        check_length(inputs["input_ids"].shape[1], getattr(self.model, "longest", None), "the text")
        return inputs

    def inputs(self, texts: Sequence[str], others: Sequence[str] | None = None) -> dict[str, torch.Tensor]:
        """Tensors of the texts, cut where they are longer than the model's positions."""
        longest = getattr(self.model, "longest", None)
        return self._laid_out(texts, others, self.config.max_len if longest is None else longest)

    def _laid_out(self, texts: Sequence[str], others: Sequence[str] | None, longest: int) -> dict[str, torch.Tensor]:
        lay = layout(self.stored.name, self.stored.extra)
        return named(self.tokenizer, lay(self.tokenizer, list(texts), others and list(others), longest))


def check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise UsageError("texts are given as a list", got="one string", remedy="Put it into a list.")


def check_length(length: int, longest: int | None, what: str) -> None:
    """Refuse what is longer than the model's learned positions, in words of the user."""
    if longest is not None and length > longest:
        raise LengthError(
            f"{what} is longer than this model can read",
            got=f"{length} tokens",
            expected=f"at most {longest}",
            remedy="Shorten it.",
        )
