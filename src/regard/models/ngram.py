"""The n-gram language model: count, normalise, smooth. It is fitted by counting, not by gradients.

    p(w | c),   c: the n-1 words before w, or fewer near the beginning <s> of a sentence; C(·) is a count

    mle         C(cw) / C(c)                              a shorter context is used only if c was never seen
    add_k       (C(cw) + k) / (C(c) + kV)                 likewise
    kneser_ney  (a(cw) − D(a)) / Σ_v a(cv)  +  γ(c) · p(w | c')        c' is c without its first word

Interpolated modified Kneser–Ney (Chen & Goodman 1998): a(cw) = C(cw) for the highest order and after <s>, otherwise the
number of different words before cw. D(1), D(2), D(3 and more) follow from their equation 26. γ(c) is the mass that the
discounts free. Unigrams are interpolated with the uniform distribution. As in kenlm's lmplz (Heafield et al. 2013), V
counts <unk> and </s> but not <s>, and the discounts are 0.5, 1, 1.5 if the text does not determine them. Where we
differ: <unk> in the text is counted as a word, as in SRILM.

The model stores for each n-gram what an ARPA file holds: log p (`log_prob_n`) and, for contexts, log γ (`backoff_n`;
for mle and add_k the log p of a word that never followed). The longest known n-gram gives p. For a word that never
followed its context, p is γ times the p of the shorter context. `keys_n` are sorted integers, parent · V + word
(`_ngram_counts.py`); one binary search looks up all words of a text. `backoff` is a model read from a file, whose
smoothing is not known.

A text begins like a sentence, and </s> ends a sentence: words before it do not affect words after it. <s> and padding
have probability 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from regard.core import taps
from regard.core.batch import Batch
from regard.core.config import Config
from regard.core.contracts import FitEpoch
from regard.core.errors import ShapeError, UsageError, WeightsError
from regard.core.output import Output
from regard.core.state import State
from regard.models._ngram_counts import Estimate, add_k, check_order, count, kneser_ney
from regard.models._unconditional import Unconditional

HIGHEST = 10


class NgramConfig(Config):
    vocab_size: int = Field(gt=0)
    order: int = Field(5, gt=0, le=HIGHEST)
    smoothing: Literal["kneser_ney", "add_k", "mle", "backoff"] = "kneser_ney"
    k: float = Field(1.0, gt=0, description="of add_k")
    bos: int = Field(2, ge=0, description="the token that begins a sentence")
    eos: int = Field(3, ge=0, description="the token that ends a sentence")
    pad: int | None = Field(0, ge=0, description="a token that is never predicted")
    ngrams: tuple[int, ...] = Field((), description="the number of n-grams of each order; set by counting")
    head: Literal["tokens"] = "tokens"

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if self.ngrams and (len(self.ngrams) != self.order or min(self.ngrams) < 0):
            raise ValueError(f"ngrams: expected {self.order} numbers of n-grams, one for each order")
        return self


SIZES: dict[str, dict[str, Any]] = {"bigram": {"order": 2}, "trigram": {"order": 3}, "five": {"order": 5}}


class Ngram(Unconditional):
    Config = NgramConfig
    SIZES = SIZES
    coverage_site: str | None = None
    longest: int | None = None
    reads_in_order = True
    counts_sentences = True
    """Its texts are sentences, one per line."""
    usual_method = "orders"

    def __init__(self, config: NgramConfig) -> None:
        super().__init__()
        self.config, self._sound = config, False
        sizes = config.ngrams or (config.vocab_size, *[0] * (config.order - 1))
        self.register_buffer("uniform", torch.zeros(()))
        for n, size in enumerate(sizes, 1):
            if n > 1:
                self.register_buffer(f"keys_{n}", torch.zeros(size, dtype=torch.int64))
            self.register_buffer(f"log_prob_{n}", torch.zeros(size))
            if n < config.order:
                self.register_buffer(f"backoff_{n}", torch.zeros(size))

    @staticmethod
    def task_of(config: NgramConfig) -> str:
        return "language_model"

    def fit(self, batches: Iterable[Batch], epoch: FitEpoch) -> dict[str, float]:
        """Count the n-grams of the batches, which are windows of running text in order."""
        config = self.config
        if config.smoothing == "backoff":
            raise UsageError(
                "smoothing backoff is for models read from files", expected="kneser_ney, add_k or mle to train one"
            )
        levels = count(self._text(batches), order=config.order, vocab_size=config.vocab_size, bos=config.bos)
        check_order(levels)
        never = [config.bos, *([] if config.pad is None else [config.pad])]
        uniform = 0.0
        if config.smoothing == "kneser_ney":
            estimates, uniform = kneser_ney(levels, bos=config.bos, never=never)
        else:
            estimates = add_k(levels, config.k if config.smoothing == "add_k" else 0.0, never=never)
        self.take(estimates, uniform)
        return {"ngrams": float(sum(self.config.ngrams))}

    def take(self, estimates: list[Estimate], uniform: float = 0.0) -> None:
        """Use these probabilities from now on."""
        self.config = self.config.model_copy(update={"ngrams": tuple(len(level.keys) for level in estimates)})
        self._sound = False
        self.uniform = torch.tensor(uniform)
        for n, level in enumerate(estimates, 1):
            with np.errstate(divide="ignore"):
                parts = {"log_prob": np.log(level.probabilities), "backoff": np.log(level.left)}
            if n > 1:
                setattr(self, f"keys_{n}", torch.from_numpy(level.keys))
            for name in ("log_prob", "backoff")[: 2 if n < self.config.order else 1]:
                setattr(self, f"{name}_{n}", torch.from_numpy(parts[name]).float())

    def forward(
        self, input_ids: Int[Tensor, "B T"], attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Output:
        """log p of the next token at each position [B,T,V]. `hidden` [B,T,n+1] is the contribution of each order, from
        0 (the uniform distribution) on, to the probability of the token at the position."""
        tokens_BS = self._begun(input_ids, attention_mask)
        contexts = self._contexts(tokens_BS)
        parts, matched = self._parts([numbers[:, :-1] for numbers in contexts], tokens_BS[:, 1:])
        taps.point("decoder.matched", matched.unsqueeze(-1).to(parts.dtype))
        parts = taps.point("decoder.orders", parts)
        return Output(parts, lambda: self._distributions([numbers[:, 1:] for numbers in contexts]))

    def label_log_probs(self, input_ids: Int[Tensor, "B T"], labels: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """log p of the labels after each position, without the probabilities of all other words."""
        contexts = self._contexts(self._begun(input_ids, None))
        return self._log_probs([numbers[:, 1:] for numbers in contexts], labels)

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        width = max(self.config.order - 1, 1)
        empty = tokens_NT.new_full((len(tokens_NT), width), -1)
        empty[:, -1] = self.config.bos
        joined = torch.cat([rows.get("context", empty), tokens_NT], 1)
        latest = joined.gather(1, counts_N[:, None] + torch.arange(width, device=joined.device))
        rows.put("context", latest)
        rows.advance()
        return self._distributions([numbers[:, -1] for numbers in self._contexts(latest)])

    def _text(self, batches: Iterable[Batch]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The text of all windows, joined if they are consecutive, with `bos` before and `eos` after each sentence."""
        bos, eos = self.config.bos, self.config.eos
        parts, end = [np.array([bos])], None
        for batch in batches:
            labels = batch["labels"].numpy()
            for row, first in enumerate(batch["input_ids"][:, :1].numpy()):
                at = batch.rows[row] if batch.rows else None
                if end is None or at != end:
                    parts += [first] if end is None else [np.array([eos, bos]), first]
                parts.append(labels[row])
                end = None if at is None else at + labels.shape[1]
        text = np.concatenate([*parts, *([] if parts[-1][-1] == eos else [np.array([eos])])])
        ends = np.flatnonzero(text[:-1] == eos) + 1
        text = np.insert(text, ends, bos)
        doubled = (text[1:] == bos) & (text[:-1] == bos)
        return text[np.append(True, ~doubled)]

    def _begun(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """The tokens with `bos` before the first real token of each row, and -1 for padding [B,T+1]."""
        if input_ids.numel() and not 0 <= int(input_ids.min()) <= int(input_ids.max()) < self.vocab_size:
            got = f"{int(input_ids.min())} to {int(input_ids.max())}"
            raise ShapeError("token id is out of range", got=got, expected=f"0 to {self.vocab_size - 1}")
        begin = input_ids.new_full((len(input_ids), 1), self.config.bos)
        if attention_mask is None:
            return torch.cat([begin, input_ids], 1)
        real = attention_mask.bool()
        tokens = torch.cat([begin.fill_(-1), input_ids.masked_fill(~real, -1)], 1)
        tokens.scatter_(1, real.int().argmax(1, keepdim=True), self.config.bos)
        return tokens

    def _contexts(self, tokens_BT: Tensor) -> list[Tensor]:
        """For each m below the order: the number of the m-gram that ends at each token, as a context; -1 if unknown."""
        self._check_fitted()
        bos, eos = self.config.bos, self.config.eos
        contexts = [tokens_BT.masked_fill(tokens_BT == eos, bos)]
        breaks = (tokens_BT == bos) | (tokens_BT == eos)
        for n in range(2, self.config.order):
            before = torch.cat([torch.full_like(tokens_BT[:, :1], -1), contexts[-1][:, :-1]], 1)
            contexts.append(self._find(n, before, tokens_BT).masked_fill(breaks, -1))
        return contexts[: self.config.order - 1] or [torch.full_like(tokens_BT, -1)]

    def _find(self, n: int, parents: Tensor, words: Tensor) -> Tensor:
        """The numbers of n-grams; -1 for unknown n-grams."""
        keys = self._level("keys", n)
        wanted = (parents * self.vocab_size + words).masked_fill((parents < 0) | (words < 0), -1)
        if not len(keys):  # an ARPA file may announce an order without n-grams
            return torch.full_like(wanted, -1)
        places = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
        return places.masked_fill(keys[places] != wanted, -1)

    def _log_probs(self, contexts: list[Tensor], words: Tensor) -> Tensor:
        log_probs = self._level("log_prob", 1)[words]
        for n in range(2, self.config.order + 1):
            parents = contexts[n - 2]
            numbers = self._find(n, parents, words)
            left = self._values("backoff", n - 1, parents)
            shorter = left if self._replaces else left + log_probs
            log_probs = torch.where(parents >= 0, shorter, log_probs)
            log_probs = torch.where(numbers >= 0, self._values("log_prob", n, numbers), log_probs)
        return log_probs

    def _parts(self, contexts: list[Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        """The contribution of each order from 0 on to p(word) [...,n+1], and the order of the longest known n-gram."""
        known, words = words >= 0, words.clamp_min(0)
        split = self.config.smoothing in ("kneser_ney", "add_k")
        parts = torch.zeros(*words.shape, self.config.order + 1, dtype=self.uniform.dtype)
        first = self._level("log_prob", 1)[words].exp()
        parts[..., 0] = torch.minimum(self.uniform.expand_as(first), first)
        parts[..., 1] = first - parts[..., 0]
        matched = torch.ones_like(words)
        for n in range(2, self.config.order + 1):
            parents = contexts[n - 2]
            numbers = self._find(n, parents, words)
            left = self._values("backoff", n - 1, parents).exp().unsqueeze(-1)
            shorter = F.pad(left, (0, self.config.order)) if self._replaces else parts * left
            parts = torch.where((parents >= 0).unsqueeze(-1), shorter, parts)
            whole = self._values("log_prob", n, numbers).exp()
            direct = parts.clone() if split else torch.zeros_like(parts)
            direct[..., n] = whole - direct.sum(-1)
            parts = torch.where((numbers >= 0).unsqueeze(-1), direct, parts)
            matched = torch.where(numbers >= 0, n, matched)
        return parts * known.unsqueeze(-1), matched * known

    def _distributions(self, contexts: list[Tensor]) -> Tensor:
        """log p of every word after these contexts [...,V]."""
        shape, flat = contexts[0].shape, [numbers.flatten() for numbers in contexts]
        rows = self._level("log_prob", 1).expand(len(flat[0]), -1).clone()
        for n in range(2, self.config.order + 1):
            parents, keys, log_probs = flat[n - 2], self._level("keys", n), self._level("log_prob", n)
            begins, ends = (torch.searchsorted(keys, (parents + i) * self.vocab_size).tolist() for i in (0, 1))
            for row, parent in enumerate(parents.tolist()):
                if parent < 0:
                    continue
                left = self._level("backoff", n - 1)[parent]
                rows[row] = left if self._replaces else rows[row] + left
                if self._replaces:
                    rows[row, self._never] = -math.inf
                seen = slice(begins[row], ends[row])
                rows[row, keys[seen] - parent * self.vocab_size] = log_probs[seen]
        return rows.view(*shape, -1)

    @property
    def _replaces(self) -> bool:
        """Whether `backoff` is the probability of an unseen word itself, not a factor for the shorter context."""
        return self.config.smoothing in ("add_k", "mle")

    @property
    def _never(self) -> list[int]:
        return [self.config.bos, *([] if self.config.pad is None else [self.config.pad])]

    def _values(self, name: str, n: int, numbers: Tensor) -> Tensor:
        """The values of n-grams by number; any value where the number is -1."""
        level = self._level(name, n)
        return level[numbers.clamp_min(0)] if len(level) else level.new_zeros(numbers.shape)

    def _level(self, name: str, n: int) -> Tensor:
        tensor = getattr(self, f"{name}_{n}")
        assert isinstance(tensor, Tensor)
        return tensor

    def _check_fitted(self) -> None:
        if self._sound:
            return
        if not self.config.ngrams:
            raise UsageError("this n-gram model has counted nothing yet", remedy="Train it: regard train RECIPE.yaml.")
        for n in range(2, self.config.order + 1):  # a folder from elsewhere may hold anything
            keys, limit = self._level("keys", n), self.config.ngrams[n - 2] * self.vocab_size
            ends = [0, *keys[[0, -1]].tolist(), limit - 1] if len(keys) else [0]
            if ends != sorted(ends) or not bool((keys[1:] > keys[:-1]).all()):
                raise WeightsError(f"keys_{n} of the n-gram model are damaged", expected="sorted numbers of n-grams")
        self._sound = True
