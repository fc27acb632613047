"""Translation: parallel text, one or two vocabularies, judged by loss or by BLEU of greedy translations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import nn

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data.lines import Report
from regard.data.loader import Loader
from regard.data.parallel import ParallelText, TokenPairs, encode
from regard.data.text import Tokenizer, make_tokenizer
from regard.folder import ModelFolder
from regard.jobs._job import Say, model_config, model_name
from regard.models import make_model
from regard.recipe import Recipe, filled_in
from regard.tasks import translation as tasks


class PairFiles(Config):
    """Two files of the same number of lines, or one file of tab-separated columns."""

    source: str | None = None
    target: str | None = None
    tsv: str | None = None
    columns: tuple[int, int] = (0, 1)

    def paths(self) -> list[Path]:
        """The files, with variables filled in."""
        return [filled_in(text) for text in (self.source, self.target, self.tsv) if text is not None]

    def open(self) -> ParallelText:
        if self.tsv is not None and self.source is None and self.target is None:
            return ParallelText.tsv(filled_in(self.tsv), source=self.columns[0], target=self.columns[1])
        if self.tsv is None and self.source is not None and self.target is not None:
            return ParallelText(filled_in(self.source), filled_in(self.target))
        raise ConfigError("data files are given as source and target, or as tsv", expected="one of the two ways")


class TokenizerConfig(Config):
    kind: str = "bpe"
    vocab_size: int = Field(8000, gt=4)
    joint: bool = Field(True, description="one vocabulary for both sides")
    lowercase: bool = False
    split_digits: bool = Field(False, description="for bpe: every digit is a token of its own")


class TranslationData(Config):
    train: PairFiles
    validation: PairFiles | None = None
    tokenizer: TokenizerConfig = TokenizerConfig()
    max_tokens: int = Field(256, gt=0, description="longer pairs are left out of training")


class TranslationJob:
    Data = TranslationData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"name": "transformer"}}
    metrics = ("loss", "bleu")

    def __init__(self, recipe: Recipe, start: ModelFolder | None) -> None:
        assert isinstance(recipe.data, TranslationData)
        self.recipe, self.data, self.start = recipe, recipe.data, start
        self.task = tasks.Translation(label_smoothing=recipe.training.label_smoothing)
        self.validates = self.data.validation is not None
        self._tokenizers: tuple[Tokenizer, Tokenizer] | None = None

    def files(self) -> list[Path]:
        both = [files for files in (self.data.train, self.data.validation) if files is not None]
        return [path for files in both for path in files.paths()]

    def prepare(self, folder: Path, say: Say) -> None:
        self._tokenizers = self._found_tokenizers() or self._made_tokenizers(folder)
        self._train = self._encoded(self.data.train, folder / "train", say)
        if self.data.validation is not None:
            self._held_out = self._encoded(self.data.validation, folder / "validation", say)

    def model_config(self) -> Config:
        self._tokenizers = self._tokenizers or self._found_tokenizers()
        source, target = [one.vocab_size for one in self._tokenizers] if self._tokenizers else (8, 8)
        sizes: dict[str, object] = {"source_vocab": source, "target_vocab": target}
        name, options = model_name(self.recipe, self.start), self.recipe.model.options
        if self.start is None and not self.data.tokenizer.joint and name == "transformer":
            if options.get("share") == "all":
                remedy = "Set data.tokenizer.joint, or share: target."
                raise ConfigError("share: all needs one vocabulary", remedy=remedy)
            sizes["share"] = options.get("share", "target")
        config = model_config(self.recipe, self.start, **sizes)
        longest = getattr(make_model(name, config, empty=True), "longest", None)
        if longest is not None and self.data.max_tokens + 2 > longest:
            raise ConfigError(
                "training pairs may be longer than the model allows",
                got=f"data.max_tokens {self.data.max_tokens} and two marks",
                expected=f"at most max_len {longest}",
                remedy="Lower data.max_tokens, or raise max_len in model.options.",
            )
        return config

    def loader(self) -> Loader:
        return self._loader(self._train, shuffle=True)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss per token and perplexity of the held-out pairs; BLEU of greedy translations where it is the metric."""
        task, total, count = tasks.Translation(), 0.0, 0
        for batch in self._loader(self._held_out, shuffle=False).epoch(0):
            log_probs = task.log_probs(model, batch)  # type: ignore[arg-type]
            total, count = total - log_probs.double().sum().item(), count + len(log_probs)
        found = {"loss": total / max(count, 1), "perplexity": float(torch.tensor(total / max(count, 1)).exp())}
        if self.recipe.training.metric == "bleu":
            found["bleu"] = self._bleu(model)
        return found

    def stored(self, model: nn.Module) -> ModelFolder:
        assert self._tokenizers is not None
        name, config = model_name(self.recipe, self.start), self.model_config()
        return ModelFolder("translation", name, config, model, *self._tokenizers, self.recipe.search)

    def _bleu(self, model: nn.Module) -> float:
        import sacrebleu

        from regard.pipelines.translation import Translator

        assert self.data.validation is not None
        pairs = list(self.data.validation.open().pairs())
        written = Translator(self.stored(model)).translate([source for source, _ in pairs], beam=1)
        return float(sacrebleu.corpus_bleu(written, [[target for _, target in pairs]]).score)

    def _found_tokenizers(self) -> tuple[Tokenizer, Tokenizer] | None:
        if self.start is None or self.start.source_tokenizer is None or self.start.target_tokenizer is None:
            return None
        return self.start.source_tokenizer, self.start.target_tokenizer

    def _made_tokenizers(self, folder: Path) -> tuple[Tokenizer, Tokenizer]:
        made = folder / "tokenizer.json", folder / "target_tokenizer.json"
        wanted = self.data.tokenizer
        if not made[0].exists() or not (wanted.joint or made[1].exists()):
            for path, sides in zip(made, ([0, 1],) if wanted.joint else ([0], [1]), strict=False):
                options = wanted.model_dump(include={"vocab_size", "lowercase"})
                if wanted.split_digits:
                    options["split_digits"] = True
                make_tokenizer(wanted.kind, self._texts(sides), **options).save(path)
        source = Tokenizer.load(made[0])
        return source, source if wanted.joint else Tokenizer.load(made[1])

    def _texts(self, sides: list[int]) -> Iterator[str]:
        for pair in self.data.train.open().pairs():
            yield from (pair[side] for side in sides)

    def _encoded(self, files: PairFiles, place: Path, say: Say) -> TokenPairs:
        assert self._tokenizers is not None
        if not (place / "meta.json").exists():
            report = Report()
            pairs = files.open().pairs(report)
            encode(pairs, *self._tokenizers, place, max_tokens=self.data.max_tokens, report=report)
            say(f"{place.name}: {report.summary()}")
        return TokenPairs.open(place)

    def _loader(self, pairs: TokenPairs, *, shuffle: bool) -> Loader:
        assert self._tokenizers is not None
        tokenizer, training = self._tokenizers[1], self.recipe.training
        return Loader(
            pairs,
            tokens_per_batch=training.tokens_per_batch,
            seed=training.seed,
            pad=tokenizer.pad,
            bos=tokenizer.bos,
            eos=tokenizer.eos,
            shuffle=shuffle,
        )
