"""Two language models in opposite directions: features of words in context, and the probability of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.core.output import Output
from regard.pipelines import _subjects as subjects
from regard.pipelines._loaded import Accepted, TextEncoder, check_texts
from regard.pipelines._verbs import verb

_NEEDS = "a bidirectional language model"


@dataclass(frozen=True)
class LogProbs:
    """log p of a text's words: `forward` of all but the first, `backward` of all but the last."""

    forward: float
    backward: float


class BidirectionalLmPipeline(TextEncoder):
    usage = 'regard explain FOLDER "…"'
    accepts: ClassVar[tuple[Accepted, ...]] = ("text",)

    @verb(_NEEDS, command=False)
    def features(self, texts: Sequence[str], *, rows: int = 32) -> list[Tensor]:
        """The vectors of each text's words in every layer [L+1,T,D]: the words themselves, then each LSTM's."""
        check_texts(texts)
        results = []
        for start in range(0, len(texts), rows):
            inputs = self.inputs(texts[start : start + rows])
            lengths = inputs["attention_mask"].sum(1)
            with torch.inference_mode():
                layers = torch.stack(self.model.layers(inputs["characters"], lengths), 1)
            results += [row[:, :length].clone() for row, length in zip(layers, lengths.tolist(), strict=True)]
        return results

    @verb(_NEEDS, command=False)
    def log_probs(self, texts: Sequence[str], *, rows: int = 32) -> list[LogProbs]:
        """log p of each text in both directions; a word outside the vocabulary counts as <unk>."""
        results: dict[int, LogProbs] = {}
        for places, inputs, output in self.outputs(texts, rows=rows):
            sides = _sides(output, self._goal(inputs))
            for place, forward, backward in zip(places, *(side.tolist() for side in sides), strict=True):
                results[place] = LogProbs(forward, backward)
        return [results[place] for place in range(len(texts))]

    def head_answer(self, output: Output, inputs: Mapping[str, Tensor]) -> subjects.Answer:
        """The text's own words, by both directions."""
        goal = self._goal(inputs)
        forward, backward = (side.tolist() for side in _sides(output, goal))
        return bidirectional_score, goal, {"forward": forward, "backward": backward}

    def _goal(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        ids = inputs["input_ids"]
        wanted = ids.masked_fill(ids >= self.config.vocab_size, self.tokenizer.unk)
        return {"wanted": wanted, "real": inputs["attention_mask"]}


def bidirectional_score(output: Any, goal: Mapping[str, Tensor]) -> Tensor:
    """log p of the text by the forward model plus that by the backward model [B]."""
    forward, backward = _sides(output, goal)
    return forward + backward


def _sides(output: Output, goal: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    logits, wanted, real = output.logits, goal["wanted"], goal["real"][:, 1:]
    assert logits is not None
    log_probs = logits.float().log_softmax(-1)
    forward = log_probs[:, :-1, 0].gather(-1, wanted[:, 1:, None]).squeeze(-1)
    backward = log_probs[:, 1:, 1].gather(-1, wanted[:, :-1, None]).squeeze(-1)
    return (forward * real).sum(1), (backward * real).sum(1)
