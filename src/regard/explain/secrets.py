"""How much a language model reveals of secrets: texts of a pattern, and the rank of one text among them.

A pattern such as "the code is {4 digits}" describes ten thousand texts that differ in four characters.
"""

from __future__ import annotations

import math
import random
import re
import string
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.explain.language_models import begin_ids

_HOLE = re.compile(r"\{(\d+) (digits?|letters?)\}")
_TOKENS = 2**14
_LOGITS = 2**26
_COUNTED = 50
_ALPHABETS = {"digit": string.digits, "letter": string.ascii_lowercase}


@dataclass(frozen=True)
class Pattern:
    """Texts that differ only in single characters, each from its own alphabet."""

    parts: tuple[str, ...]
    """Fixed text and the alphabets of variable characters, alternating: fixed, variable, fixed, …, fixed."""

    @property
    def size(self) -> int:
        return math.prod(len(alphabet) for alphabet in self.parts[1::2])

    def every(self) -> Iterator[str]:
        return (self._filled(chosen) for chosen in product(*self.parts[1::2]))

    def some(self, count: int, seed: int) -> list[str]:
        """Texts drawn uniformly with replacement."""
        chance = random.Random(seed)
        return [self._filled([chance.choice(alphabet) for alphabet in self.parts[1::2]]) for _ in range(count)]

    def fits(self, text: str) -> bool:
        kinds = [re.escape(part) if i % 2 == 0 else f"[{part}]" for i, part in enumerate(self.parts)]
        return re.fullmatch("".join(kinds), text) is not None

    def _filled(self, chosen: Sequence[str]) -> str:
        texts = list(self.parts)
        texts[1::2] = chosen
        return "".join(texts)


def parse(pattern: str) -> Pattern:
    """The pattern of a text with placeholders such as {4 digits} and {3 letters}."""
    parts, end = [""], 0
    for hole in _HOLE.finditer(pattern):
        parts[-1] += pattern[end : hole.start()]
        for _ in range(int(hole[1])):
            parts += [_ALPHABETS[hole[2].removesuffix("s")], ""]
        end = hole.end()
    parts[-1] += pattern[end:]
    if len(parts) == 1:
        raise UsageError(
            "the pattern has no placeholder",
            got=repr(pattern),
            expected='such as "the code is {4 digits}"',
            remedy="Write {N digits} or {N letters} in place of the secret.",
        )
    return Pattern(tuple(parts))


def of_canary(canary: str) -> str:
    """The pattern in which every digit of the canary varies."""
    pattern = re.sub(r"[0-9]+", lambda run: f"{{{len(run[0])} digits}}", canary)
    if pattern == canary:
        raise UsageError(
            "the canary has no digits, so its secret part is not known",
            got=repr(canary),
            remedy='Give a pattern, such as "the word is {5 letters}".',
        )
    return pattern


@dataclass(frozen=True)
class Exposure:
    """How much more probable a secret is than others of its pattern."""

    bits: float
    most_bits: float
    rank: int
    among: int
    """The number of texts that were ranked."""
    how: str
    """"exact": every text was ranked; "drawn": the rank among drawn texts; "fitted": too few drawn texts are as
    probable as the canary, so a fitted distribution estimates how many of all texts are."""
    log_prob: float


def exposure(model: Any, canary: str, pattern: Pattern, *, most: int = 20_000, seed: int = 0) -> Exposure:
    """The canary's rank among the texts of its pattern, all of them or `most` drawn ones."""
    if not pattern.fits(canary):
        raise UsageError("the canary is not a text of its pattern", got=repr(canary))
    exact = pattern.size <= most
    others = [text for text in pattern.every() if text != canary] if exact else pattern.some(most, seed)
    scores_N = log_probs(model, [canary, *others])
    own, rest_N = scores_N[0], scores_N[1:]
    rank = 1 + int((rest_N >= own).sum())
    how = "exact" if exact else "drawn" if rank > _COUNTED else "fitted"
    most_bits = math.log2(pattern.size)
    bits = -_log2_below(-rest_N, -own.item()) if how == "fitted" else math.log2(len(scores_N)) - math.log2(rank)
    return Exposure(min(bits, most_bits), most_bits, rank, len(scores_N), how, own.item())


@torch.inference_mode()
def log_probs(model: Any, texts: Sequence[str]) -> Tensor:
    """log p of each text [N], over all its tokens after the first (or after the model's beginning token).

    Texts that differ only in their last token are read once: one distribution over the next token scores all of them.
    """
    begin = begin_ids(model)
    rows = [[*begin, *ids] for ids in model.tokenizer.encode_batch(list(texts))]
    if len({row[0] for row in rows}) > 1:
        raise UsageError(
            "the texts differ in their first token, which nothing predicts",
            remedy="Put some text before the secret in the canary and its pattern.",
        )
    longest = getattr(model.model, "longest", None)
    if longest is not None and max(map(len, rows)) > longest + 1:
        raise UsageError("the canary is longer than the model can read", got=f"{max(map(len, rows))} tokens")
    shared: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        shared[tuple(row[:-1])].append(place)
    by_length: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for start in shared:
        by_length[len(start)].append(start)
    scores_N = torch.zeros(len(rows), dtype=torch.float64)
    for size, starts in by_length.items():
        if size == 0:
            continue
        vocabulary = int(getattr(model.config, "vocab_size", 1))
        at_once = max(1, min(_TOKENS // size, _LOGITS // (size * vocabulary)))
        for first in range(0, len(starts), at_once):
            chosen = starts[first : first + at_once]
            ids_BT = torch.tensor(chosen)
            log_BTV = model.model(ids_BT).logits.double().log_softmax(-1)
            before_B = log_BTV[:, :-1].gather(2, ids_BT[:, 1:, None]).sum((1, 2))
            for index, start in enumerate(chosen):
                for place in shared[start]:
                    scores_N[place] = before_B[index] + log_BTV[index, -1, rows[place][-1]]
    return scores_N


def _log2_below(values_N: Tensor, value: float) -> float:
    """log2 P(X ≤ value) of the skew-normal X with the mean, standard deviation and skewness of the values."""
    mean, deviation = values_N.mean().item(), values_N.std().item()
    if deviation == 0:
        return 0.0
    skew = ((values_N - mean) ** 3).mean().item() / deviation**3
    skew = max(-0.99, min(0.99, skew))
    third = (2 * abs(skew) / (4 - math.pi)) ** (2 / 3)
    delta = math.copysign(math.sqrt(math.pi / 2 * third / (1 + third)), skew)
    slant = delta / math.sqrt(1 - delta**2)
    scale = deviation / math.sqrt(1 - 2 * delta**2 / math.pi)
    z = (value - (mean - scale * delta * math.sqrt(2 / math.pi))) / scale
    # Summed in logarithms: in the far tail the density underflows, and it falls faster the farther out it is.
    grid = torch.linspace(z - 40 / (1 + max(0.0, -z)), z, 200_001, dtype=torch.float64)
    density = math.log(2) - grid**2 / 2 - math.log(2 * math.pi) / 2 + torch.special.log_ndtr(slant * grid)
    total = torch.logsumexp(density, 0).item() + math.log((grid[1] - grid[0]).item())
    return min(0.0, total / math.log(2))
