"""A translation model with its tokenizers: translates text, and shows the attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core import taps
from regard.core.articles import with_article
from regard.core.batch import pad
from regard.core.contracts import Decodable
from regard.core.errors import LengthError, UsageError
from regard.core.output import Output
from regard.data.text import Specials, Tokenizer
from regard.decoding import Hypothesis, Search, decode
from regard.decoding.ensemble import Ensemble
from regard.explain import Subject
from regard.pipelines import _shortlists
from regard.pipelines import _subjects as subjects
from regard.pipelines._alignment import Alignment, by_pieces, by_words
from regard.pipelines._ensembles import check_partner
from regard.pipelines._loaded import Loaded, check_length
from regard.pipelines._verbs import verb
from regard.runtime.shortlist import Shortlisted
from regard.store import StoredModel


@dataclass(frozen=True)
class Translation:
    """One translation of one line; `score` is what the search ranks by."""

    text: str
    score: float
    log_prob: float
    tokens: list[int] = field(repr=False)


class TranslationPipeline(Loaded):
    """`regard.load(folder)`: translates lists of lines in batches; results do not depend on how they are batched."""

    usage = 'echo "…" | regard translate FOLDER'
    doing = "translate"

    def __init__(self, stored: StoredModel) -> None:
        super().__init__(stored)
        tokens = stored.extra.get("tokens", {})
        own = stored.target_tokenizer.specials if stored.target_tokenizer else Specials()
        # Marian begins the target with its padding token; only its configuration says so.
        self._bos = _first(tokens.get("decoder_start"), tokens.get("bos"), own.bos)
        ends = tokens.get("eos")
        self._ends: list[int] = ends if isinstance(ends, list) and ends else [_first(ends or None, own.eos)]
        self._eos = self._ends[0]
        self._pad = _first(tokens.get("pad"), own.pad)
        self._partners: tuple[TranslationPipeline, ...] = ()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, decoder_input_ids: Tensor | None = None
    ) -> Output:
        """Logits of the target token after each of `decoder_input_ids`, given the source."""
        if decoder_input_ids is None:
            raise UsageError("a translation model needs decoder_input_ids", got="none", remedy="Or use translate().")
        mask = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        output: Output = self.model(input_ids, mask, decoder_input_ids)
        return output

    def join(self, *partners: TranslationPipeline, names: Sequence[str] = ()) -> None:
        """Translate together with these models from now on, by the mean of the probabilities (an ensemble).

        All must have the same vocabularies, like models that were trained with different seeds. Attention is still that
        of this model alone. `names` are the partners' folders, for errors."""
        for partner, name in zip_longest(partners, names, fillvalue=""):
            check_partner(self, partner, str(name))
        self._partners = partners

    def use_engine(self, engine: str) -> str | None:
        """Run with this engine from now on, partners too; returns why another engine runs in its place, if so."""
        reasons = [super().use_engine(engine), *(partner.use_engine(engine) for partner in self._partners)]
        return next((reason for reason in reasons if reason is not None), None)

    def runner(self, tokens: int) -> Any:
        own = super().runner(tokens)
        return Ensemble([own, *(partner.runner(tokens) for partner in self._partners)]) if self._partners else own

    @property
    def first_token(self) -> int:
        """The token that every target begins with; it is not part of the output."""
        return self._bos

    @property
    def end_token(self) -> int:
        """The token that ends a target."""
        return self._eos

    @property
    def source_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.stored.target_tokenizer or self.tokenizer

    @verb("a translation model")
    def translate(self, lines: Sequence[str], **search: Any) -> list[str]:
        """The best translation of each line; options are those of `Search`, such as beam=1 or max_length=50."""
        return [best[0].text for best in self.translate_nbest(lines, **search)]

    def texts(self, inputs: Sequence[str], **search: Any) -> list[str]:
        return self.translate(inputs, **search)

    def check_inputs(self, inputs: Sequence[str]) -> None:
        encoded = self.encode_source(inputs)
        _check_source(encoded, self._usual_source, 0, self.doing)
        self._check_positions(encoded)

    @property
    def _usual_source(self) -> int:
        """The most tokens of a line, if the caller does not say."""
        return self.stored.search.max_source

    @verb("a translation model")
    def shortlist(
        self, source: Sequence[str], target: Sequence[str], path: str | Path, *, best: int = 50, frequent: int = 200
    ) -> None:
        """Write a file for `translate(…, shortlist=path)`, from lines and their translations.

        It has the `best` translations of each source token, and the most `frequent` target tokens.
        """
        _shortlists.save(_shortlists.make(self, source, target, best=best, frequent=frequent), self, path)

    def translate_nbest(
        self,
        lines: Sequence[str],
        *,
        rows: int = 64,
        prefixes: Sequence[str] | None = None,
        first: int = 0,
        on_progress: Callable[[int, int], None] | None = None,
        shortlist: str | Path | None = None,
        **search: Any,
    ) -> list[list[Translation]]:
        """The `nbest` translations of each line, best first. An empty line stays empty.

        `rows` lines are decoded at a time; as some end, others begin. `first` is the number of the first line, on which
        sampling depends: a text that is translated in parts gives the same result as the whole. `on_progress` gets the
        numbers of lines and tokens done since its last call; a beam search reports no tokens, since they are certain
        only at its end. `shortlist` is a file that `shortlist` wrote: only its tokens can be generated.
        """
        if isinstance(lines, str):
            raise UsageError("translate takes a list of lines", got="one string", remedy="Put it into a list.")
        options = Search.parse({**self.stored.search.model_dump(), **search}, "search options")
        encoded = self.encode_source(lines)
        _check_source(encoded, options.max_source, first, self.doing)
        begun = self.target_tokenizer.encode_batch(list(prefixes)) if prefixes is not None else None
        results: list[list[Translation]] = [[Translation("", 0.0, 0.0, [])] for _ in lines]
        model = self.runner(sum(map(len, encoded)) * options.beam)
        if shortlist is not None:
            model = Shortlisted(model, _shortlists.load(shortlist, self))
        # Lines of similar length are read together, long ones first; results are put back in order.
        full = sorted((i for i, line in enumerate(lines) if line.strip()), key=lambda i: -len(encoded[i]))
        if full:
            decoded = self._decode(
                [first + i for i in full], [encoded[i] for i in full], options, begun and [begun[i] for i in full],
                on_progress, model, rows, self.grammars([lines[i] for i in full], options),
            )  # fmt: skip
            for place, hypotheses in zip(full, decoded, strict=True):
                results[place] = [self._translation(hypothesis) for hypothesis in hypotheses]
        return results

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        """The tokens of each line, without the end token."""
        return self.source_tokenizer.encode_batch(list(lines))

    def grammars(self, lines: Sequence[str], options: Search) -> Sequence[Grammar] | None:
        """For each line, the grammar that says which tokens may come next; None if any may."""
        return None

    @verb("a translation model")
    def align(
        self,
        source: str,
        target: str | None = None,
        *,
        tokens: list[int] | None = None,
        pieces: bool = False,
        **search: Any,
    ) -> Alignment:
        """The attention of each target word: of a given target, of tokens generated before, or of the best beam.

        With `pieces` the tokens are not merged into words.
        """
        (ids,) = self.encode_source([source])
        if not ids:
            raise UsageError("there is nothing to align", got="an empty source")
        if tokens is None:  # tokens that were translated already are not too long
            _check_source([ids], search.get("max_source", self.stored.search.max_source), 0, self.doing)
        if tokens is not None:
            written = tokens
        elif target is not None:
            (written,) = self.target_tokenizer.encode_batch([target])
        else:
            written = self.translate_nbest([source], **search)[0][0].tokens
        tokenizer = self.target_tokenizer
        inputs, mask = self._source([ids])
        with taps.watch(["decoder.*.cross", "align"]) as record, torch.no_grad():
            self.model(inputs, mask, torch.tensor([[self._bos, *written]]))
        if not record.sites:
            raise UsageError(
                "this model has no attention to look at", got=f"{with_article(self.stored.name)} without attention"
            )
        # A recurrent model calls its attention once per step; the rows are joined in order.
        sites = {
            site: torch.cat([entry.weights[0] for entry in record.calls(site) if entry.weights is not None], dim=1)
            for site in record.sites
        }
        seen = by_pieces(
            [*self.source_tokenizer.tokens(ids), "</s>"],
            [*tokenizer.tokens(written), "</s>"],
            tokenizer.decode(written),
            sites,
        )
        if pieces:
            return seen
        source_words = [*self.source_tokenizer.words(ids), ("</s>", [len(ids)])]
        return by_words(seen, source_words, [*tokenizer.words(written), ("</s>", [len(written)])], sites)

    def subject(self, inputs: Any, target: Any = None, **search: Any) -> Subject:
        """The target is a given translation, or by default the result of the search."""
        return subjects.translation_subject(self, inputs, target, **search)

    def sides(self, source: list[list[int]], written: list[list[int]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Source tokens and their mask; decoder inputs; labels (−100: none)."""
        tokens, mask = self._source(source)
        read, _ = pad([[self._bos, *row] for row in written], value=self._pad)
        wanted, _ = pad([[*row, self._eos] for row in written], value=-100)
        check_length(read.shape[1], getattr(self.model, "longest", None), "the target")
        return tokens, mask, read, wanted

    def _decode(
        self,
        numbers: list[int],
        rows: list[list[int]],
        options: Search,
        prefixes: list[list[int]] | None,
        on_progress: Callable[[int, int], None] | None = None,
        model: Decodable | None = None,
        at_once: int | None = None,
        grammars: Sequence[Grammar] | None = None,
    ) -> list[list[Hypothesis]]:
        source, mask = self._source(rows)
        return decode(
            model or self.model,
            {"source": source, "source_mask": mask},
            options,
            bos=self._bos,
            eos=self._ends,
            pad=self._pad,
            lengths=mask.sum(1),
            prefixes=prefixes,
            rows=numbers,
            on_token=None if on_progress is None else lambda _row, _token: on_progress(0, 1),
            on_done=None if on_progress is None else lambda _row: on_progress(1, 0),
            at_once=at_once,
            grammars=grammars,
        )

    def _source(self, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        self._check_positions(rows)
        return pad([[*row, self._eos] for row in rows], value=self._pad)

    def _check_positions(self, rows: Sequence[list[int]]) -> None:
        check_length(max(map(len, rows), default=0) + 1, getattr(self.model, "longest", None), "a line")

    def _translation(self, best: Hypothesis) -> Translation:
        return Translation(self.target_tokenizer.decode(best.tokens), best.score, best.log_prob, best.tokens)


def _check_source(rows: Sequence[list[int]], most: int, first: int, doing: str) -> None:
    """Refuse a line that would take minutes or hours."""
    for number, row in enumerate(rows, start=first + 1):
        if len(row) > most:
            got, remedy = f"{len(row):,} tokens", "Split it into sentences, or raise max_source (--max-source)."
            raise LengthError(
                f"line {number} is too long to {doing}", got=got, expected=f"at most {most:,}", remedy=remedy
            )


def _first(*ids: int | None) -> int:
    """The first special token that exists, or −1."""
    return next((number for number in ids if number is not None), -1)


Grammar = Callable[[Sequence[int]], Tensor]
Translator = TranslationPipeline
__all__ = ["Alignment", "Translation", "TranslationPipeline", "Translator"]
