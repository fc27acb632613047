"""Solves generated tasks on bits, written as text: each word is a vector, such as 10110101."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import ConfigError
from regard.data.bit_rows import padded
from regard.data.bit_tasks import BitTask, make_bit_task
from regard.data.bit_tasks._steps import written
from regard.explain import Subject
from regard.pipelines import _subjects as subjects
from regard.pipelines._loaded import Loaded, check_texts
from regard.pipelines._verbs import verb


@dataclass(frozen=True)
class Solved:
    """The model's answer as words of bits; `wrong` of its `bits` differ from the right answer."""

    answer: str
    right: str
    wrong: int
    bits: int


class BitsPipeline(Loaded):
    usage = 'regard explain FOLDER "10110101 00101101 11100010"'

    @classmethod
    def usage_of(cls, extra: Mapping[str, Any]) -> str:
        return f'regard explain FOLDER "{_kind(extra).text}"'

    @property
    def kind(self) -> BitTask:
        """The task that the model was trained on, as its folder says."""
        return _kind(self.stored.extra)

    @verb("a model for sequences of bits", command=False)
    def solve(self, texts: Sequence[str], *, rows: int = 32) -> list[Solved]:
        """The answer to each text, beside the right one."""
        check_texts(texts)
        results = []
        for start in range(0, len(texts), rows):
            inputs = padded([self.kind.read(text) for text in texts[start : start + rows]])
            with torch.inference_mode():
                logits = self.model(inputs["bits"]).logits
            parts = zip(logits > 0, inputs["targets"] > 0, inputs["asked"], strict=True)
            for said, right, asked in parts:
                wrong, bits = int((said != right)[asked].sum()), right[asked].numel()
                results.append(Solved(_words(said[asked]), _words(right[asked]), wrong, bits))
        return results

    def texts(self, inputs: Sequence[str], **search: Any) -> list[str]:
        return [solved.answer for solved in self.solve(inputs)]

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """The number to explain is log p of the right answer."""
        rows = subjects.listed(inputs)
        steps = [self.kind.read(text) for text in rows]
        tensors, memory = padded(steps), [str(row) for row in range(self.config.n_rows)]
        solved = self.solve(rows)
        return Subject(
            self.stored.name,
            self.stored.task,
            self.model,
            {"bits": tensors["bits"]},
            {"input": [each.labels for each in steps], "memory": [memory] * len(rows)},
            bit_score,
            {"targets": tensors["targets"], "asked": tensors["asked"]},
            output={"bits": [[each.wrong, each.bits] for each in solved], "answers": [each.answer for each in solved]},
            untrained=subjects.untrained(self, lambda other: other.subject(inputs, target)),
            texts=rows,
        )


def bit_score(output: Any, goal: Mapping[str, Tensor]) -> Tensor:
    """log p of the right bits, summed over the steps that are asked [B]."""
    losses = F.binary_cross_entropy_with_logits(output.logits.float(), goal["targets"], reduction="none")
    return -(losses.sum(-1) * goal["asked"]).sum(1)


def _kind(extra: Mapping[str, Any]) -> BitTask:
    name, bits = extra.get("kind"), extra.get("bits")
    if not isinstance(name, str) or not isinstance(bits, int) or not 0 < bits <= 256:
        raise ConfigError("the folder does not say which task on bits this is", got=f"{name!r}, {bits!r}"[:80])
    return make_bit_task(name, bits)


def _words(bits: Tensor) -> str:
    return " ".join(written(row) for row in bits.float().numpy())
