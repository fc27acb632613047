"""One training run in one folder: prepare the data, train, keep the best.

The resolved recipe and sums of the data files are kept in the folder, and it goes on only with what it was begun with.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch

from regard import folder as folders
from regard.core import config as configs
from regard.core import manifest, weights
from regard.core.config import Config
from regard.core.errors import ConfigError, DataError
from regard.data.lines import Report
from regard.data.loader import Loader
from regard.data.parallel import TokenPairs, encode
from regard.data.text import Tokenizer, make_tokenizer
from regard.models import config_of, make_model
from regard.recipe import PairFiles, Recipe, differences
from regard.tasks.translation import Translation
from regard.training import checkpoint
from regard.training.engine import Engine

# How long a run goes on and how often it says so may change between its parts; what it computes may not.
_MAY_CHANGE = {f"training.{name}" for name in ("max_steps", "max_epochs", "patience", "log_every", "checkpoint_every")}


class Run:
    """One training run in one folder."""

    def __init__(self, recipe: Recipe, out: Path, *, quiet: bool = False) -> None:
        self.recipe, self.out, self.quiet = recipe, out, quiet

    def train(self) -> Path:
        """Prepare, train, average and save; the folder then holds the finished model."""
        self._model_config(8, 8)  # a misspelt option is told before anything is prepared
        self._claim()
        self.source_tokenizer, self.target_tokenizer = self._tokenizers()
        data = self._encoded(self.recipe.data.train, "train")
        self.held_out = (
            self._encoded(self.recipe.data.validation, "validation") if self.recipe.data.validation else None
        )
        torch.manual_seed(self.recipe.training.seed)
        self.config = self._model_config(self.source_tokenizer.vocab_size, self.target_tokenizer.vocab_size)
        model = make_model(self.recipe.model.name, self.config)
        engine = Engine(
            model,
            Translation(label_smoothing=self.recipe.training.label_smoothing),
            self._loader(data, shuffle=True),
            self.recipe.training,
            self.out,
            validate=self.validate if self.held_out is not None else None,
            on_best=self.save,
            quiet=self.quiet,
        )
        progress = engine.run()
        if self.held_out is None:
            self.save(model)
        elif self.recipe.training.average > 1 and progress.validated:
            self._average(model, progress.validated, progress.best)
        return self.out

    def validate(self, model: torch.nn.Module) -> dict[str, float]:
        """Loss per token and perplexity of the held-out pairs; BLEU of greedy translations where it is the metric."""
        assert self.held_out is not None
        task, total, count = Translation(), 0.0, 0
        for batch in self._loader(self.held_out, shuffle=False).epoch(0):
            log_probs = task.log_probs(model, batch)  # type: ignore[arg-type]
            total, count = total - log_probs.double().sum().item(), count + len(log_probs)
        found = {"loss": total / max(count, 1), "perplexity": float(torch.tensor(total / max(count, 1)).exp())}
        if self.recipe.training.metric == "bleu":
            found["bleu"] = self._bleu(model)
        return found

    def save(self, model: torch.nn.Module) -> None:
        stored = folders.ModelFolder(
            self.recipe.task,
            self.recipe.model.name,
            self.config,
            model,
            self.source_tokenizer,
            self.target_tokenizer,
            self.recipe.search,
        )
        folders.save(self.out, stored)

    def _bleu(self, model: torch.nn.Module) -> float:
        import sacrebleu

        from regard.translator import Translator

        files = self.recipe.data.validation
        assert files is not None
        pairs = list(files.open().pairs())
        stored = folders.ModelFolder(
            "translation", self.recipe.model.name, self.config, model, self.source_tokenizer, self.target_tokenizer
        )
        written = Translator(stored).translate([source for source, _ in pairs], beam=1)
        return float(sacrebleu.corpus_bleu(written, [[target for _, target in pairs]]).score)

    def _claim(self) -> None:
        """Begin a folder, or go on in one that was begun with the same recipe."""
        known = self.out / "recipe.json"
        if known.exists():
            before = Recipe.parse(configs.read(known), str(known))
            changed = [text for name, text in differences(before, self.recipe).items() if name not in _MAY_CHANGE]
            if changed and checkpoint.listing(self.out / "checkpoints"):
                raise ConfigError(
                    f"{self.out} holds a run of another recipe",
                    got=", ".join(changed),
                    remedy="Give another --out, or remove the folder.",
                )
            if changed:  # nothing was trained yet: only the prepared data has to go
                shutil.rmtree(self.out / "data", ignore_errors=True)
        self._check_files()
        self.out.mkdir(parents=True, exist_ok=True)
        with weights.replacing(known) as file:
            file.write(configs.dump(self.recipe).encode())

    def _check_files(self) -> None:
        """Data that was prepared from other contents of the same files is prepared again, or refused."""
        files = [files for files in (self.recipe.data.train, self.recipe.data.validation) if files is not None]
        paths = [path for one in files for path in one.paths()]
        sums = json.dumps({str(path): manifest.digest(path) for path in paths if path.is_file()}, indent=1)
        known = self.out / "data" / "inputs.json"
        if known.exists() and known.read_text() != sums:
            if checkpoint.listing(self.out / "checkpoints"):
                raise DataError(
                    "the training files are not those that this run began with",
                    remedy="Bring them back, or give another --out.",
                )
            shutil.rmtree(self.out / "data")
        known.parent.mkdir(parents=True, exist_ok=True)
        with weights.replacing(known) as file:
            file.write(sums.encode())

    def _tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        made = self.out / "data" / "tokenizer.json", self.out / "data" / "target_tokenizer.json"
        wanted = self.recipe.data.tokenizer
        if not made[0].exists() or not (wanted.joint or made[1].exists()):
            made[0].parent.mkdir(parents=True, exist_ok=True)
            for path, sides in zip(made, ([0, 1],) if wanted.joint else ([0], [1]), strict=False):
                options = wanted.model_dump(include={"vocab_size", "lowercase"})
                if wanted.split_digits:
                    options["split_digits"] = True
                make_tokenizer(wanted.kind, self._texts(sides), **options).save(path)
        source = Tokenizer.load(made[0])
        return source, source if wanted.joint else Tokenizer.load(made[1])

    def _texts(self, sides: list[int]) -> Iterator[str]:
        for pair in self.recipe.data.train.open().pairs():
            yield from (pair[side] for side in sides)

    def _encoded(self, files: PairFiles, name: str) -> TokenPairs:
        place = self.out / "data" / name
        if not (place / "meta.json").exists():
            report = Report()
            encode(
                files.open().pairs(report),
                self.source_tokenizer,
                self.target_tokenizer,
                place,
                max_tokens=self.recipe.data.max_tokens,
                report=report,
            )
            if not self.quiet:
                print(f"{name}: {report.summary()}", flush=True)
        return TokenPairs.open(place)

    def _loader(self, pairs: TokenPairs, *, shuffle: bool) -> Loader:
        tokenizer, training = self.target_tokenizer, self.recipe.training
        return Loader(
            pairs,
            tokens_per_batch=training.tokens_per_batch,
            seed=training.seed,
            pad=tokenizer.pad,
            bos=tokenizer.bos,
            eos=tokenizer.eos,
            shuffle=shuffle,
        )

    def _model_config(self, source_vocab: int, target_vocab: int) -> Config:
        wanted, options = self.recipe.model, dict(self.recipe.model.options)
        apart = not self.recipe.data.tokenizer.joint and wanted.name == "transformer"
        if apart and options.setdefault("share", "target") == "all":
            raise ConfigError("share: all needs one vocabulary", remedy="Set data.tokenizer.joint, or share: target.")
        sizes = {"source_vocab": source_vocab, "target_vocab": target_vocab}
        config = config_of(wanted.name, {**options, **sizes}, size=wanted.size, where="model.options")
        longest = getattr(make_model(wanted.name, config, empty=True), "longest", None)
        if longest is not None and self.recipe.data.max_tokens + 2 > longest:
            raise ConfigError(
                "training pairs may be longer than the model allows",
                got=f"data.max_tokens {self.recipe.data.max_tokens} and two marks",
                expected=f"at most max_len {longest}",
                remedy="Lower data.max_tokens, or raise max_len in model.options.",
            )
        return config

    def _average(self, model: torch.nn.Module, steps: list[int], best: float | None) -> None:
        """Average the last validated checkpoints; keep the average where validation likes it better than the best."""
        stored = [checkpoint.read(self.out / "checkpoints" / f"step-{step:08d}").model for step in steps]
        mean = {
            name: torch.stack([one[name].double() for one in stored]).mean(0).to(stored[0][name]) for name in stored[0]
        }
        weights.load_into(model, mean)
        value = self.validate(model.eval())[self.recipe.training.metric]
        sign = -1 if self.recipe.training.metric == "loss" else 1
        kept = best is None or sign * value > sign * best
        if kept:
            self.save(model)
        if not self.quiet:
            which = "average" if kept else "single best"
            print(f"average of {len(steps)} checkpoints: {value:.4f}, single best: {best}; kept the {which}")
