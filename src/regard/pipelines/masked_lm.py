"""Fills masked words: "Paris is the [MASK] of France."."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from regard.core.batch import pad
from regard.core.errors import UsageError
from regard.core.output import Output
from regard.pipelines import _subjects as subjects
from regard.pipelines._loaded import check_length, check_texts
from regard.pipelines._verbs import verb
from regard.pipelines.sentence_similarity import SentenceSimilarityPipeline

GAP = "[MASK]"


@dataclass(frozen=True)
class Filling:
    """A candidate word for one gap."""

    token: str
    probability: float
    text: str
    """The whole text with this word in the gap; other gaps stay."""


class MaskedLmPipeline(SentenceSimilarityPipeline):
    """Fills gaps; it is an encoder too, so it has `embed`."""

    usage = 'regard fill FOLDER "… [MASK] …"'

    @verb("a masked language model")
    def fill(self, texts: Sequence[str], *, top: int = 5) -> list[list[list[Filling]]]:
        """The `top` most probable words for each gap of each text."""
        check_texts(texts)
        if top < 1:
            raise UsageError("top is too small", got=top, expected="1 or more")
        return [self._fill(text, top) for text in texts]

    def head_answer(self, output: Output, inputs: Mapping[str, torch.Tensor]) -> subjects.Answer:
        """The most likely word in each gap; without a gap, every token of the text."""
        ids, words = inputs["input_ids"], self._words(inputs)
        gaps = ids == self.tokenizer.mask
        assert output.logits is not None
        filled = gaps.any(1, keepdim=True)  # each text by itself, whatever the others are
        best = torch.where(filled, output.logits.argmax(-1), ids)
        asked = torch.where(filled, gaps, words)
        return subjects.token_answer(self, best.masked_fill(~asked, subjects.NOT_ASKED))

    def answer_label(self, number: int) -> str:
        return self.tokenizer.tokens([number])[0]

    def whole_inputs(self, texts: Sequence[str], others: Sequence[str] | None = None) -> dict[str, torch.Tensor]:
        """Tensors of texts, with mask tokens for gaps; pairs are read as by any encoder."""
        if others is not None:
            return super().whole_inputs(texts, others)
        ids, mask = pad([self._ids(text.split(GAP)) for text in texts], value=self.tokenizer.pad)
        check_length(ids.shape[1], self.model.longest, "the text")
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}

    def _ids(self, parts: Sequence[str]) -> list[int]:
        """The tokens of a text with mask tokens between its parts."""
        tokenizer = self.tokenizer
        ids = [tokenizer.cls]
        for number, part in enumerate(tokenizer.encode_batch(list(parts))):
            ids += ([tokenizer.mask] if number else []) + part
        return [*ids, tokenizer.sep]

    def _fill(self, text: str, top: int) -> list[list[Filling]]:
        tokenizer, parts = self.tokenizer, text.split(GAP)
        if len(parts) < 2:
            raise UsageError(
                f"the text has no {GAP}", got=text[:60], remedy=f"Write {GAP} in place of the missing word."
            )
        ids = self._ids(parts)
        check_length(len(ids), self.model.longest, "the text")
        gaps = [place for place, token in enumerate(ids) if token == tokenizer.mask]
        with torch.inference_mode():
            logits = self.model(torch.tensor([ids])).logits[0, gaps]
        gaps_filled = []
        for number, row in enumerate(logits.float().softmax(-1)):
            best = row.topk(min(top, len(row)))
            pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
            gaps_filled.append([self._filling(parts, number, token, value) for token, value in pairs])
        return gaps_filled

    def _filling(self, parts: list[str], gap: int, token: int, probability: float) -> Filling:
        (label,) = self.tokenizer.tokens([token])
        word = label.removeprefix("##")
        before, after = GAP.join(parts[: gap + 1]), GAP.join(parts[gap + 1 :])
        before = before.rstrip() if label.startswith("##") else before
        return Filling(label, probability, before + word + after)
