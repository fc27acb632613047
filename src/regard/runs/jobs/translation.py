"""Translation from parallel text, with one or two vocabularies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.paths import expand_path
from regard.data import arrays, token_pairs
from regard.data.loader import Loader
from regard.data.parallel import ParallelText, Report, TokenPairs, encode
from regard.data.text.merge_dropout import MergeDropout
from regard.data.token_pairs import Cut
from regard.runs.setup import NeededLength, Say, Setup, TokenizerConfig
from regard.tasks.translation import Translation


class PairFiles(Config):
    """Two files with the same number of lines, or one file of tab-separated columns."""

    source: str | None = None
    target: str | None = None
    tsv: str | None = None
    columns: tuple[int, int] = (0, 1)

    def paths(self) -> list[Path]:
        """The files, with variables expanded."""
        return [expand_path(text) for text in (self.source, self.target, self.tsv) if text is not None]

    def open(self) -> ParallelText:
        if self.tsv is not None and self.source is None and self.target is None:
            return ParallelText.tsv(expand_path(self.tsv), source=self.columns[0], target=self.columns[1])
        if self.tsv is None and self.source is not None and self.target is not None:
            return ParallelText(expand_path(self.source), expand_path(self.target))
        raise ConfigError("data files must be given as source and target, or as tsv", expected="one of the two")


class PairTokenizer(TokenizerConfig):
    joint: bool = Field(True, description="one vocabulary for both sides")


class TranslationData(Config):
    train: PairFiles
    validation: PairFiles | None = None
    validation_share: float = Field(0.0, ge=0, lt=1, description="or this share of train, by whole source sentences")
    tokenizer: PairTokenizer = PairTokenizer()
    max_tokens: int = Field(256, gt=0, description="longer pairs are left out of training")
    merge_dropout: float = Field(
        0.0, ge=0, le=1, description="BPE-dropout: the share of merges left out in training; 0.1 is usual, 0: none"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.validation is not None and self.validation_share:
            raise ValueError("give either validation or validation_share")
        return self


class TranslationJob(Setup):
    Data: ClassVar[type[Config]] = TranslationData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"name": "transformer"}}
    offers: tuple[str, ...] = ("inputs", "references")
    two_passes: ClassVar[bool] = True
    unused: ClassVar[tuple[str, ...]] = ("rows_per_batch",)
    data: TranslationData

    @property
    def joint(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.data.tokenizer.joint

    def task(self) -> Translation:
        training = self.recipe.training
        return Translation(label_smoothing=training.label_smoothing, r_drop=training.r_drop)

    def files(self) -> list[Path]:
        both = [files for files in (self.data.train, self.data.validation) if files is not None]
        return [path for files in both for path in files.paths()]

    def fixed_options(self) -> dict[str, Any]:
        options = self.recipe.model.options
        if self.start is not None or self.joint or self.model_name != "transformer":
            return {}
        if options.get("share") == "all":
            raise ConfigError("share: all needs one vocabulary", remedy="Set data.tokenizer.joint, or share: target.")
        return {"share": options.get("share", "target")}

    def needed_length(self) -> NeededLength:
        most = self.data.max_tokens
        return NeededLength(
            most + 2,
            "training pairs may be longer than the model's limit",
            f"data.max_tokens {most} and two special tokens",
            "data.max_tokens",
            sets_max_len=False,
        )

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        if self.joint:
            return {"source": lambda: self._texts(0, 1)}
        return {"source": lambda: self._texts(0), "target": lambda: self._texts(1)}

    def encode(self, folder: Path, say: Say) -> tuple[TokenPairs, TokenPairs | None]:
        train = self._encoded(self.data.train, folder / "train", say)
        held_out = self.data.validation or self.data.train
        return train, self._encoded(held_out, folder / "validation", say) if self.validates else None

    def batches(self, examples: TokenPairs, *, shuffle: bool) -> Loader:
        training = self.recipe.training
        return Loader(
            examples,
            tokens_per_batch=training.tokens_per_batch,
            seed=training.seed,
            pad=self._special_token("pad"),
            bos=self._special_token("decoder_start", "bos"),
            eos=self._special_token("eos"),
            shuffle=shuffle,
            cuts=self.cuts() if shuffle else None,
        )

    def cuts(self) -> tuple[Cut, Cut] | None:
        """The functions that split the words of both sides differently in each epoch; None without BPE-dropout."""
        rate, most = self.data.merge_dropout, self.data.max_tokens
        if not rate:
            return None
        assert self.tokenizer is not None
        assert self.target_tokenizer is not None
        source = MergeDropout(self.tokenizer, rate, most).cut
        joint = self.target_tokenizer is self.tokenizer
        return source, source if joint else MergeDropout(self.target_tokenizer, rate, most).cut

    def extra(self) -> dict[str, Any]:
        """The special tokens of the model to start from, if they differ from those of its tokenizer."""
        return {"tokens": dict(tokens)} if (tokens := self._start_tokens()) else {}

    def _start_tokens(self) -> Mapping[str, Any]:
        return {} if self.start is None else self.start.extra.get("tokens", {})

    def _special_token(self, *names: str) -> int:
        """The id under the first of these names that the model to start from has, else the target tokenizer's."""
        assert self.target_tokenizer is not None
        tokens = self._start_tokens()
        for name in names:
            if (token := tokens.get(name)) is not None:
                return int(token[0] if isinstance(token, list) else token)
        return self.target_tokenizer.specials.need(names[-1])

    def material(self) -> dict[str, Any]:
        pairs = list(self._open(self.data.validation or self.data.train, held_out=True).pairs())
        return {"inputs": [source for source, _ in pairs], "references": [[target] for _, target in pairs]}

    def _texts(self, *sides: int) -> Iterator[str]:
        for pair in self._open(self.data.train, held_out=False).pairs():
            yield from (pair[side] for side in sides)

    def _open(self, files: Any, *, held_out: bool) -> ParallelText:
        """The pairs of these files, or their part for training or for validation."""
        text: ParallelText = files.open()
        share = getattr(self.data, "validation_share", 0.0)
        return text.part(share, held_out=held_out) if share else text

    def _encoded(self, files: PairFiles, place: Path, say: Say) -> TokenPairs:
        assert self.tokenizer is not None
        assert self.target_tokenizer is not None
        if not arrays.holds(place, token_pairs.KIND):
            report = Report()
            pairs = self._open(files, held_out=place.name == "validation").pairs(report)
            both = self.tokenizer, self.target_tokenizer
            encode(pairs, *both, place, max_tokens=self.data.max_tokens, report=report)
            say(f"{place.name}: {report.summary()}")
        return TokenPairs.open(place)
