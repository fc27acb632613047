"""Generates text: takes a prompt and returns its continuation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.core.errors import DataError, LengthError, UsageError
from regard.decoding import Search, decode
from regard.explain import Subject
from regard.pipelines import _subjects as subjects
from regard.pipelines._drafts import speculative
from regard.pipelines._loaded import Loaded, check_length, check_texts
from regard.pipelines._verbs import verb

_NONE = -1


@dataclass(frozen=True)
class Written:
    """The continuation of one prompt; `finished` is False if the length limit came before the end token."""

    prompt: str
    text: str
    log_prob: float
    finished: bool
    tokens: list[int] = field(repr=False)
    full: bool = False
    """True if the model's positions ended before `max_tokens` were generated."""


class LanguageModelPipeline(Loaded):
    """Continues prompts; in a batch of any lengths, each prompt gets the same result as alone."""

    usage = 'regard generate FOLDER --prompt "…"'

    @verb("a language model")
    def generate(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int | None = None,
        rows: int = 16,
        first: int = 0,
        on_text: Callable[[str], None] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        draft: Any = None,
        draft_tokens: int = 5,
        **search: Any,
    ) -> list[Written]:
        """The continuation of each prompt, by the model's stored `Search` options and those given here.

        It has at most `max_tokens` new tokens: as stored with the model, or 100. A temperature, top_k, top_p or min_p
        turns on sampling. `first` is the number of the first prompt, on which sampling depends. `on_text` gets each new
        piece of text while it is generated, for a single prompt. `on_progress` gets the numbers of prompts and tokens
        done since its last call. `draft` guesses `draft_tokens` tokens at a time, which can make a large model faster.
        It is "lookup", which guesses the tokens that followed the same words before, or a smaller loaded model. The
        result is the same, except for rounding in int8.
        """
        check_texts(prompts)
        if on_text is not None and len(prompts) != 1:
            raise UsageError("only one prompt can be streamed", got=f"{len(prompts)} prompts")
        if max_tokens is None:
            max_tokens = self.stored.search.max_length or 100
        options = self._options(search, max_tokens)
        if on_text is not None and options.beam > 1 and not options.sample:
            raise UsageError("a beam search cannot be streamed", got=f"beam {options.beam}", remedy="Set beam 1.")
        encoded = [self.prompt_ids(prompt) for prompt in prompts]
        self._check_room(encoded)
        results: list[Written | None] = [None] * len(prompts)
        order = sorted(range(len(prompts)), key=lambda i: len(encoded[i]))
        for start in range(0, len(order), rows):
            chosen = order[start : start + rows]
            stream = None if on_text is None else _Stream(self, encoded[chosen[0]], on_text)
            show = None if stream is None else stream.add
            if on_progress is not None and show is None:
                show = functools.partial(_tell_token, on_progress)
            decoded = self.decode_ids(
                [encoded[i] for i in chosen],
                options,
                numbers=[first + i for i in chosen],
                show=show,
                draft=None if draft is None else (draft, draft_tokens),
            )
            for place, (tokens, log_prob, finished) in zip(chosen, decoded, strict=True):
                text = self.continued(encoded[place], tokens)
                full = not finished and len(tokens) < max_tokens
                results[place] = Written(prompts[place], text, log_prob, finished, tokens, full)
                if stream is not None:
                    stream.end(text)
            if on_progress is not None:
                on_progress(len(chosen), 0)
        return [written for written in results if written is not None]

    def texts(self, inputs: Sequence[str], **search: Any) -> list[str]:
        return [written.text for written in self.generate(inputs, **search)]

    def prompt_ids(self, prompt: str) -> list[int]:
        """The tokens of a prompt, after the beginning token if the model uses one."""
        (ids,) = self.tokenizer.encode_batch([prompt])
        bos = self._special("bos")
        if (self.stored.extra.get("begin") or not ids) and bos != _NONE:
            ids = [bos, *ids]
        if not ids:
            raise UsageError(
                "an empty prompt needs a model with a beginning token", remedy="Give a word to begin with."
            )
        return ids

    def decode_ids(
        self,
        rows: Sequence[Sequence[int]],
        options: Search,
        *,
        numbers: Sequence[int] | None = None,
        show: Callable[[int], None] | None = None,
        draft: tuple[Any, int] | None = None,
    ) -> list[tuple[list[int], float, bool]]:
        """For each row of ids: the new ids, their log-probability, and whether they ended with an end token.

        `show` gets each new id of any row as it is generated. `draft` is a guesser, and the tokens that it guesses at a
        time."""
        work = (options.max_length or options.max_extra) * len(rows) * options.beam
        decoded = decode(
            self.runner(work) if draft is None else speculative(self, *draft, work),
            {},
            options,
            bos=[row[0] for row in rows],
            eos=self._ends(),
            pad=_NONE,  # for a language model padding is a token like any other
            lengths=torch.tensor([len(row) - 1 for row in rows]),
            prefixes=[list(row[1:]) for row in rows],
            rows=numbers,
            on_token=None if show is None else lambda _, token: show(token),
        )
        pairs = zip(rows, (hypotheses[0] for hypotheses in decoded), strict=True)
        return [(best.tokens[len(row) - 1 :], best.log_prob, best.finished) for row, best in pairs]

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """The target is the continuation of the text."""
        return subjects.writer_subject(self, inputs, target)

    def check_fits(self, ids: Sequence[int]) -> None:
        """Refuse a text that is longer than the model's positions."""
        check_length(len(ids), getattr(self.model, "longest", None), "the text")

    def perplexity(self, text: str, *, context: int | None = None) -> float:
        """exp of the mean loss of the text's tokens, read in windows of `context` tokens."""
        ids = torch.tensor(self.prompt_ids(text))
        if len(ids) < 2:
            raise DataError(
                "the text is too short for a perplexity",
                got=f"{len(ids)} token" + "s" * (len(ids) != 1),
                expected="2 or more, as the first is not predicted",
            )
        longest: Any = getattr(self.model, "longest", None) or getattr(self.config, "max_len", len(ids))
        context = int(context or longest)
        losses = []
        with torch.inference_mode():
            for start in range(0, len(ids) - 1, context):
                part = ids[start : start + context + 1]
                if hasattr(self.model, "label_log_probs"):
                    losses.append(-self.model.label_log_probs(part[None, :-1], part[None, 1:])[0])
                    continue
                logits = self.model(part[None, :-1]).logits[0].float()
                losses.append(torch.nn.functional.cross_entropy(logits, part[1:], reduction="none"))
        return float(torch.cat(losses).double().mean().exp())

    def _options(self, search: dict[str, Any], max_tokens: int) -> Search:
        sampling = any(search.get(name) is not None for name in ("temperature", "top_k", "top_p", "min_p"))
        if max_tokens < 1:
            raise UsageError("max_tokens is too small", got=max_tokens, expected="1 or more")
        known = {**self.stored.search.model_dump(), "max_length": None, "max_ratio": 1.0, "max_extra": max_tokens}
        given = {name: value for name, value in search.items() if value is not None}
        options = Search.parse({**known, **({"sample": True} if sampling else {}), **given}, "search options")
        if options.max_length is None and options.min_length > max_tokens:
            raise UsageError(
                "min_length is larger than max_tokens",
                got=f"min_length={options.min_length}, max_tokens={max_tokens}",
                remedy=f"Set max_tokens to {options.min_length} or more.",
            )
        return options

    def _check_room(self, encoded: list[list[int]]) -> None:
        longest = getattr(self.model, "longest", None)
        for number, ids in enumerate(encoded, start=1):
            if longest is not None and len(ids) >= longest:
                raise LengthError(
                    f"prompt {number} leaves no room for new tokens",
                    got=f"{len(ids)} tokens",
                    expected=f"fewer than the model's {longest}",
                    remedy="Shorten the prompt.",
                )

    def continued(self, prompt: list[int], tokens: list[int]) -> str:
        """The text of the new tokens: the text of all tokens minus the prompt, since tokens may join at the border."""
        before, whole, new = (self.tokenizer.decode(ids, unknown=True) for ids in (prompt, [*prompt, *tokens], tokens))
        return whole[len(before) :] if whole.startswith(before) else new

    def _special(self, name: str) -> int:
        known = self.stored.extra.get("tokens", {})
        token = known.get(name)
        if token is None and not known and self.stored.source_tokenizer is not None:
            token = getattr(self.stored.source_tokenizer.specials, name)
        return _NONE if token is None else int(token)

    def _ends(self) -> list[int]:
        """The end tokens; chat models have several."""
        known = self.stored.extra.get("tokens", {}).get("eos")
        return [int(token) for token in known] if isinstance(known, list) else [self._special("eos")]


class _Stream:
    """Passes on the continuation of one prompt while it is generated."""

    def __init__(self, model: LanguageModelPipeline, prompt: list[int], on_text: Callable[[str], None]) -> None:
        self._model, self._prompt, self._on_text = model, prompt, on_text
        self._shown, self._new = "", list[int]()

    def add(self, token: int) -> None:
        """Pass on the text of the next token."""
        self._new.append(token)
        text = self._model.continued(self._prompt, self._new)
        # A character of several tokens is a replacement character until it is complete.
        if text.startswith(self._shown) and not text.endswith("\ufffd"):
            self._on_text(text[len(self._shown) :])
            self._shown = text

    def end(self, text: str) -> None:
        """Pass on what is left of the whole text, such as a character that stayed incomplete."""
        pairs = enumerate(zip(self._shown, text, strict=False))
        same = next((place for place, (old, new) in pairs if old != new), len(self._shown))
        if text[same:]:
            self._on_text(text[same:])


def _tell_token(on_progress: Callable[[int, int], None], _: int) -> None:
    on_progress(0, 1)
