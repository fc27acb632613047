"""The base of all loaded models: a torch module that can be called and saved, with the verbs of its task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch

from regard.core.articles import with_article
from regard.core.errors import LengthError, UsageError
from regard.core.names import distinct
from regard.core.output import Output
from regard.data.text import Tokenizer
from regard.data.text.layout import layout
from regard.data.text.rows import named
from regard.explain import Subject, explain
from regard.models import check_words, reads_cls, row_layout
from regard.pipelines import _subjects as subjects
from regard.pipelines._engines import Engines
from regard.pipelines._verbs import NoSuchVerb, verbs_of
from regard.store import StoredModel, save_model
from regard.views.result import Result

Accepted = Literal["text", "pair", "image", "image + text", "support"]


_CHARACTERS = 4  # characters per token, roughly


class Loaded(Engines):
    """`regard.load(folder)`. Calling it runs the model: `loaded(input_ids=…, attention_mask=…).logits`."""

    usage: ClassVar[str] = "regard.load(FOLDER)"
    """An example command; FOLDER stands for the model's folder."""
    accepts: ClassVar[tuple[Accepted, ...]] = ("text",)
    """The inputs of its verbs and of `explain`. With "pair" a second text may follow the first. With
    "support" a folder of labelled images says what the classes are."""

    def __init__(self, stored: StoredModel) -> None:
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
        """Text to ids; a folder may lack a tokenizer."""
        if self.stored.source_tokenizer is None:
            raise UsageError(
                "this model has no tokenizer, so it cannot read text",
                remedy="Put its tokenizer.json (or vocab.txt, or vocab.json and merges.txt) into the folder.",
            )
        return self.stored.source_tokenizer

    def save(self, folder: str | Path) -> None:
        """Write a model folder."""
        from regard.pipelines import card

        save_model(Path(folder), replace(self.stored, card=self.stored.card or card(self.stored)))

    save_pretrained = save

    @classmethod
    def verbs(cls) -> dict[str, str]:
        """The verbs of this kind of model, and what each needs."""
        return verbs_of(cls)

    @classmethod
    def usage_of(cls, extra: Mapping[str, Any]) -> str:
        """An example command for a model of which its folder says this."""
        return cls.usage

    def texts(self, inputs: Sequence[Any], **search: Any) -> list[str]:
        """The text that the model generates for each input; evaluators of text compare it with references."""
        raise NoSuchVerb("this model does not generate text for an input", got=self._described())

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """Refuse inputs that `texts` would refuse, without running the model."""

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """What to explain: the model, `inputs` (texts or images) as tensors and tokens, and its answer."""
        needed = "explain needs a model that reads text or images"
        raise NoSuchVerb(needed, got=self._described(), remedy=self._commands())

    def explain(self, inputs: Any, target: Any = None, *, method: str = "maps", **options: Any) -> Result:
        """The result of a method of `regard.explain` on these texts or images."""
        return explain(self, inputs, target, method=method, **options)

    def head_answer(self, output: Output, inputs: Mapping[str, torch.Tensor]) -> subjects.Answer:
        """The answer of the model's head, to be explained: the most likely class, or the class of each token."""
        if output.logits is None or output.logits.dim() == 2:
            return subjects.class_answer(self, output)
        asked = self._words(inputs) if reads_cls(self.stored.name) else inputs["attention_mask"].bool()
        return subjects.token_answer(self, output.logits.argmax(-1).masked_fill(~asked, subjects.NOT_ASKED))

    def _words(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Where rows have tokens of their text: not in their padding, nor at [CLS] and [SEP]."""
        ids = inputs["input_ids"]
        return inputs["attention_mask"].bool() & (ids != self.tokenizer.cls) & (ids != self.tokenizer.sep)

    @property
    def usual_method(self) -> str | None:
        """The method that explains a model of this kind, if that is not the usual one for attention."""
        return getattr(self.model, "usual_method", None)

    def answer_label(self, number: int) -> str:
        """The meaning of one of the model's logits."""
        listed = self.stored.extra.get("labels")
        names = distinct([str(name) for name in listed]) if isinstance(listed, list) else []
        return names[number] if number < len(names) else f"LABEL_{number}"

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            from regard.pipelines import verbs

            if name.startswith("_") or name not in (every := verbs()):
                raise
            needed = f"{name} needs {every[name]}"
            raise NoSuchVerb(needed, got=self._described(), remedy=self._commands()) from None

    def _commands(self) -> str:
        explained = ["explain"] if type(self).subject is not Loaded.subject else []
        able = [*verbs_of(type(self), commands=True), *explained]
        if not able:
            return "This one can only be called from Python."
        return f"Its command is {able[0]}." if len(able) == 1 else f"Its commands are {', '.join(able)}."

    def _described(self) -> str:
        return f"{with_article(self.stored.name)} for {self.stored.task.replace('_', ' ')}"


class TextEncoder(Loaded):
    """A model that reads whole texts, or pairs of them."""

    accepts: ClassVar[tuple[Accepted, ...]] = ("text", "pair")

    n_cut: int = 0
    """How many of the texts read so far were too long and were cut."""

    @property
    def reads_at_most(self) -> int:
        """The most tokens per row: the model's positions, or fewer if its folder says so (`max_seq_length`)."""
        longest = getattr(self.model, "longest", None)
        most: int = self.config.max_len if longest is None else longest
        return min(most, self.stored.extra.get("max_seq_length", most))

    def outputs(
        self, texts: Sequence[str], others: Sequence[str] | None = None, *, rows: int = 32
    ) -> Iterator[tuple[list[int], dict[str, torch.Tensor], Output]]:
        """Run the model in batches of texts of similar length; yield their indices, the inputs, the output."""
        check_texts(texts)
        check_words(self.stored.name, texts, others)
        lengths = [len(text) for text in texts]
        order = sorted(range(len(texts)), key=lengths.__getitem__)
        model = self.runner(sum(lengths) // _CHARACTERS)
        for start in range(0, len(order), rows):
            chosen = order[start : start + rows]
            second = None if others is None else [others[i] for i in chosen]
            inputs = self.inputs([texts[i] for i in chosen], second)
            with torch.inference_mode():
                yield chosen, inputs, model(**inputs)

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """The target is the second text of a pair; for an encoder without a head, the text to compare with."""
        return subjects.reader_subject(self, inputs, target)

    def whole_inputs(self, texts: Sequence[str], others: Sequence[str] | None = None) -> dict[str, torch.Tensor]:
        """Tensors of the texts to explain. Too many tokens for the model's positions are refused; a model without such
        a limit reads what it reads when it classifies, and `n_cut` counts the cut texts."""
        if getattr(self.model, "longest", None) is None:
            return self.inputs(texts, others)
        inputs = self._laid_out(texts, others, 1 << 30)
        check_length(inputs["input_ids"].shape[1], self.reads_at_most, "the text")
        return inputs

    def inputs(self, texts: Sequence[str], others: Sequence[str] | None = None) -> dict[str, torch.Tensor]:
        """Tensors of the texts, cut to `reads_at_most` tokens; `n_cut` counts the cut texts."""
        return self._laid_out(texts, others, self.reads_at_most)

    def _laid_out(self, texts: Sequence[str], others: Sequence[str] | None, longest: int) -> dict[str, torch.Tensor]:
        lay = layout(row_layout(self.stored.name), self.stored.extra)
        # One token more than is kept distinguishes a row that is cut from one that just fits.
        rows = lay(self.tokenizer, list(texts), others and list(others), longest + 1)
        if any(too_long := [len(ids) > longest for ids, _ in rows]):
            self.n_cut += sum(too_long)
            rows = lay(self.tokenizer, list(texts), others and list(others), longest)
        return named(self.tokenizer, rows)


def check_texts(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise UsageError("texts must be a list", got="one string", remedy="Put it into a list.")


def check_length(length: int, longest: int | None, what: str) -> None:
    """Refuse an input that is longer than the model reads."""
    if longest is not None and length > longest:
        raise LengthError(
            f"{what} is longer than this model can read",
            got=f"{length} tokens",
            expected=f"at most {longest}",
            remedy="Shorten it.",
        )
