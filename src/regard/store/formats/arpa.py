"""An n-gram model as an ARPA file, which SRILM and kenlm read and write too.

The vocabulary is that of the unigrams. An n-gram without a back-off weight must not be the beginning of a longer one.
If a file has no <unk>, unknown words get the log10 probability -100, as in kenlm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core import weights
from regard.core.articles import with_article
from regard.core.errors import DataError, UsageError
from regard.core.search import Search
from regard.data.text import Tokenizer
from regard.data.text.kinds.space import of_words
from regard.models import config_of, make_model
from regard.models._ngram_counts import Estimate
from regard.models.ngram import Ngram
from regard.store.arpa_file import ZERO, Section, arpa_lines, is_arpa, read_arpa
from regard.store.stored_model import StoredModel

_SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
_UNKNOWN = -100.0

Ints = NDArray[np.int64]


def recognises(path: Path, config: Mapping[str, Any] | None) -> bool:
    return is_arpa(path)


def load(path: Path, config: Mapping[str, Any] | None) -> StoredModel:
    sections = read_arpa(path)
    listed = [words[0] for words in sections[0].words]
    numbers = {word: number for number, word in enumerate(_SPECIALS)}
    for word in listed:
        numbers.setdefault(word, len(numbers))
    for needed in ("<s>", "</s>"):
        if needed not in listed:
            raise DataError(
                f"{path} lacks the unigram {needed}", remedy="Train it with beginnings and ends of sentences."
            )
    tokenizer = Tokenizer(of_words(list(numbers)[len(_SPECIALS) :]))
    options = {"vocab_size": len(numbers), "order": len(sections), "smoothing": "backoff"}
    model_config = config_of("ngram", options, where=str(path))
    model = make_model("ngram", model_config)
    assert isinstance(model, Ngram)
    model.take(_Reader(path, numbers).estimates(sections))
    return StoredModel(
        "language_model", "ngram", model.config, model.eval(), tokenizer, tokenizer, Search(beam=1, sample=True)
    )


def save(path: Path, stored: StoredModel) -> None:
    """Write one uncompressed file."""
    if stored.name != "ngram" or not isinstance(stored.model, Ngram):
        raise UsageError("only an n-gram model can be an ARPA file", got=with_article(stored.name))
    if stored.model.config.smoothing == "add_k":
        raise UsageError(
            "add_k smoothing has no ARPA form, as unseen words do not depend on shorter contexts",
            remedy="Train with kneser_ney or mle.",
        )
    if stored.source_tokenizer is None:
        raise UsageError("this model has no words to write, as its tokenizer is missing")
    words = stored.source_tokenizer.pieces()
    if bad := next((word for word in words if word.split() != [word]), None):
        raise UsageError(
            "ARPA files hold words without spaces", got=repr(bad), remedy="Train with tokenizer kind space."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with weights.replacing(path) as file:
        for line in arpa_lines(_sections(stored.model, words)):
            file.write(line.encode())


def _sections(model: Ngram, words: Sequence[str]) -> list[Section]:
    config, ids, sections = model.config, np.arange(model.vocab_size)[:, None], []
    for n in range(1, config.order + 1):
        kept: Any = slice(None)
        if n > 1:
            keys = getattr(model, f"keys_{n}").numpy()
            ids = np.concatenate([ids[keys // model.vocab_size], keys[:, None] % model.vocab_size], 1)
        elif config.pad is not None:
            kept = np.arange(len(ids)) != config.pad
        log_probs = getattr(model, f"log_prob_{n}").double().numpy() / np.log(10)
        backoffs = np.full(len(ids), np.nan)
        if n < config.order:
            begins = np.unique(getattr(model, f"keys_{n + 1}").numpy() // model.vocab_size)
            backoffs[begins] = getattr(model, f"backoff_{n}").double().numpy()[begins] / np.log(10)
        sections.append(
            Section([[words[i] for i in row] for row in ids[kept].tolist()], log_probs[kept], backoffs[kept])
        )
    return sections


class _Reader:
    """Turns the sections of a file into sorted arrays."""

    def __init__(self, path: Path, numbers: Mapping[str, int]) -> None:
        self.path, self.numbers, self.vocab = path, numbers, len(numbers)

    def estimates(self, sections: Sequence[Section]) -> list[Estimate]:
        made: list[Estimate] = []
        for order, section in enumerate(sections, 1):
            ids = self._ids(section, order)
            keys = ids[:, 0] if order == 1 else self._parents(made, ids) * self.vocab + ids[:, -1]
            sorting = np.argsort(keys, kind="stable")
            keys, log_probs, backoffs = keys[sorting], section.log_probs[sorting], section.backoffs[sorting]
            if (same := np.flatnonzero(keys[1:] == keys[:-1])).size:
                raise DataError(f"{self.path} lists an n-gram twice", got=self._spelt(ids[sorting[same[0]]]))
            if order == 1:
                keys, log_probs, backoffs = self._whole(keys, log_probs, backoffs)
            if made:
                self._check_backoffs(made, keys)
            made.append(Estimate(keys, _power(log_probs), _power(backoffs)))
        # An n-gram without a weight begins no longer n-gram, so it always backs off: its weight is 1.
        return [Estimate(e.keys, e.probabilities, np.where(np.isnan(e.left), 1.0, e.left)) for e in made]

    def _ids(self, section: Section, order: int) -> Ints:
        try:
            ids = [[self.numbers[word] for word in words] for words in section.words]
        except KeyError as error:
            raise DataError(f"{self.path} has a {order}-gram with a word that is no unigram", got=error) from None
        return np.array(ids, dtype=np.int64).reshape(-1, order)

    def _whole(self, keys: Ints, *columns: NDArray[np.float64]) -> tuple[Any, ...]:
        """The unigrams of the whole vocabulary: those that the file lacks are <pad> and perhaps <unk>."""
        log_probs, backoffs = np.full(self.vocab, ZERO), np.full(self.vocab, np.nan)
        log_probs[1] = _UNKNOWN
        log_probs[keys], backoffs[keys] = columns
        log_probs[2] = ZERO  # a sentence's beginning is never predicted
        return np.arange(self.vocab), log_probs, backoffs

    def _parents(self, made: Sequence[Estimate], ids: Ints) -> Ints:
        """The numbers of the n-grams without their last word."""
        numbers = ids[:, 0]
        for level, words in zip(made[1:], ids.T[1:], strict=False):
            wanted = numbers * self.vocab + words
            places = np.minimum(np.searchsorted(level.keys, wanted), max(len(level.keys) - 1, 0))
            missing = level.keys[places] != wanted if len(level.keys) else np.ones(len(wanted), bool)
            if missing.any():
                got = self._spelt(ids[np.flatnonzero(missing)[0]])
                raise DataError(f"{self.path} has an n-gram whose beginning it lacks", got=got)
            numbers = places
        return numbers

    def _check_backoffs(self, made: Sequence[Estimate], keys: Ints) -> None:
        parents = np.unique(keys // self.vocab)
        missing = parents[np.isnan(made[-1].left[parents])]
        if len(missing):
            order, number, words = len(made), int(missing[0]), list[int]()
            for level in reversed(made):
                key = int(level.keys[number])
                words.insert(0, key % self.vocab)
                number = key // self.vocab
            others = f" and {len(missing) - 1:,} other {order}-grams" if len(missing) > 1 else ""
            raise DataError(
                f"{self.path} lacks back-off weights",
                got=f"none for {self._spelt(words)}{others}",
                expected="a weight for every n-gram that begins a longer one",
                remedy="Write the file again with the program that made it.",
            )

    def _spelt(self, ids: Sequence[int] | Ints) -> str:
        words = list(self.numbers)
        return repr(" ".join(words[int(i)] for i in ids))


def _power(log10: NDArray[np.float64]) -> NDArray[np.float64]:
    """10^x, and 0 for the -99 that stands for the logarithm of 0."""
    return np.where(log10 == ZERO, 0.0, 10.0 ** np.maximum(log10, -300.0))
