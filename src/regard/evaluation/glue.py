"""Suites of tasks: a model's score on each, as a table.

`glue` scores SST-2, CoLA, MRPC, STS-B and RTE (Wang et al. 2018) on their dev sets (MRPC on its test set if that has
labels), each by its own metrics. Each row says how it was obtained:

    fine-tuned   the model's own head for this task
    probe        logistic regression on the encoder's frozen vectors, the mean of its states over real tokens (or the
                 pooling of its folder); for a pair u, v on [u, v, |u − v|, u · v] (Conneau et al. 2017). Its weight
                 decay is chosen on a tenth of the training set
    cosine       STS-B: the cosine of the two vectors; nothing is fitted
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import store
from regard.core.articles import with_article
from regard.core.errors import DataError, UsageError
from regard.core.measured import Measured, stacked
from regard.core.pooling import pool
from regard.data.chance import Dice
from regard.data.glue import TASKS, GlueTask
from regard.data.labels import class_numbers, numbers
from regard.data.row_batches import RowBatches
from regard.data.tables import Example
from regard.data.text import Tokenizer
from regard.data.text.layout import layout
from regard.data.text_rows import TextRows
from regard.evaluation.metrics import scores
from regard.models import reads_cls, row_layout
from regard.pipelines import pipeline_of
from regard.store import StoredModel
from regard.tasks.classification import Classification

_TOKENS = 4096
_MAX_LEN = 256
_PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
Say = Callable[[str], None]


@dataclass(frozen=True)
class GlueRow:
    """One task: the split, how it was scored, the number of examples, and its metrics as shares."""

    task: str
    split: str
    how: str
    rows: int
    scores: dict[str, float]


def glue(
    model: StoredModel | str | Path, data: str | Path, *, limit: int = 10_000, say: Say = lambda _: None
) -> list[GlueRow]:
    """A row for each task whose folder is in `data`.

    `model` is a model, or a folder with a fine-tuned model for each task: sst2/, cola/, mrpc/, stsb/, rte/. A probe is
    fitted on at most `limit` training examples, always the same ones.
    """
    data = Path(data)
    known = {name: task for name, task in TASKS.items() if (data / name).is_dir()}
    if not known:
        raise DataError(f"{data} holds no GLUE task", expected=f"folders such as {', '.join(TASKS)}")
    table = []
    for name, stored in _models(model, known).items():
        _check(stored)
        row = _scored(stored, TASKS[name], data / name, limit)
        say(f"{name}: " + ", ".join(f"{metric} {100 * value:.1f}" for metric, value in row.scores.items()))
        table.append(row)
    return table


def _models(model: StoredModel | str | Path, known: dict[str, GlueTask]) -> dict[str, StoredModel]:
    """The model of each task: one for all, or one each."""
    if isinstance(model, StoredModel):
        return dict.fromkeys(known, model)
    folder = Path(model)
    own = {name: folder / name.replace("-", "").lower() for name in known}
    own = {name: path for name, path in own.items() if (path / "config.json").is_file()}
    if own and not (folder / "config.json").is_file():
        return {name: store.load_model(path) for name, path in own.items()}
    return dict.fromkeys(known, store.load_model(folder))


def _check(stored: StoredModel) -> None:
    tokenizer = stored.source_tokenizer
    able = tokenizer is not None and (
        None not in (tokenizer.specials.cls, tokenizer.specials.sep) or not reads_cls(stored.name)
    )
    if not able or "embed" not in pipeline_of(stored.task).verbs():
        got = f"{with_article(stored.name)} for {stored.task.replace('_', ' ')}"
        raise UsageError("GLUE needs a text encoder such as BERT, with its tokenizer", got=got)


def _scored(stored: StoredModel, task: GlueTask, folder: Path, limit: int) -> GlueRow:
    split = task.scored_split(folder)
    dev = task.examples(folder, split)
    wanted = numbers(dev) if task.regression else class_numbers(dev, list(task.classes.values()))
    if _has_head(stored, task):
        how, logits = "fine-tuned", head_logits(stored, dev)
        if not task.regression:
            logits = logits[:, [stored.extra["labels"].index(name) for name in task.classes.values()]]
    elif task.regression:
        how, logits = "cosine", _cosines(stored, dev)
    else:
        how, logits = "probe", _probed(stored, task, _drawn(task.examples(folder, "train"), limit), dev)
    return GlueRow(task.name, split, how, len(dev), scores(logits, wanted, task.metrics))


def _has_head(stored: StoredModel, task: GlueTask) -> bool:
    """Whether its head is for this task, by the names of the classes."""
    if stored.task != "classification":
        return False
    if task.regression:
        return bool(stored.extra.get("regression"))
    return set(stored.extra.get("labels", ())) == set(task.classes.values())


def head_logits(stored: StoredModel, examples: Sequence[Example]) -> Tensor:
    """The logits of the model's head for each example [N,C]."""
    lay = layout(row_layout(stored.name), stored.extra)
    rows = TextRows(_tokenizer(stored), examples, max_len=_longest(stored, _MAX_LEN), lay=lay)
    task, measured, model = Classification(), Measured(), stored.model.eval()
    for batch in _batches(rows).epoch(0):
        measured.add(task.measure(model, batch))
    return stacked(measured.answers)


def vectors(stored: StoredModel, texts: Sequence[str]) -> Tensor:
    """The encoder's vector of each text [N,D], by default its mean state; a repeated text is read once."""
    different = list(dict.fromkeys(texts))
    examples, lay = [Example(text) for text in different], layout(row_layout(stored.name), stored.extra)
    rows = TextRows(_tokenizer(stored), examples, max_len=_longest(stored, _MAX_LEN), lay=lay)
    parts: dict[int, Tensor] = {}
    model, how = stored.model.eval(), getattr(stored.config, "pooling", None)
    with torch.inference_mode():
        for batch in _batches(rows).epoch(0):
            hidden = model(**batch.tensors).hidden.float()
            parts |= dict(zip(batch.rows, pool(hidden, batch["attention_mask"], how), strict=True))
    places = {text: place for place, text in enumerate(different)}
    return torch.stack([parts[places[text]] for text in texts])


def _cosines(stored: StoredModel, examples: Sequence[Example]) -> Tensor:
    first, second = _sides(stored, examples)
    return F.cosine_similarity(first, second)[:, None]


def _sides(stored: StoredModel, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    both = vectors(stored, [*(example.text for example in examples), *(example.other or "" for example in examples)])
    return both[: len(examples)], both[len(examples) :]


def _features(stored: StoredModel, examples: Sequence[Example]) -> Tensor:
    if examples[0].other is None:
        return vectors(stored, [example.text for example in examples])
    u, v = _sides(stored, examples)
    return torch.cat([u, v, (u - v).abs(), u * v], dim=-1)


def _probed(stored: StoredModel, task: GlueTask, train: Sequence[Example], dev: Sequence[Example]) -> Tensor:
    names = list(task.classes.values())
    features, labels = _features(stored, train), class_numbers(train, names)
    mean, spread = features.mean(0), features.std(0).clamp_min(1e-6)
    features, asked = (features - mean) / spread, (_features(stored, dev) - mean) / spread
    # The examples are in random order, so the first tenth is a random sample.
    held = max(1, len(train) // 10)
    losses = {}
    for penalty in _PENALTIES:
        probe = logistic(features[held:], labels[held:], len(names), penalty)
        losses[penalty] = float(F.cross_entropy(probe(features[:held]), labels[:held]))
    probe = logistic(features, labels, len(names), min(losses, key=losses.__getitem__))
    return probe(asked).detach()


def logistic(features: Tensor, labels: Tensor, n_classes: int, penalty: float) -> nn.Linear:
    """Multinomial logistic regression: minimises mean cross-entropy + penalty · Σ w² / 2 by L-BFGS."""
    with torch.enable_grad():
        features = features.clone()
        layer = nn.Linear(features.shape[1], n_classes)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        search = torch.optim.LBFGS(layer.parameters(), max_iter=200, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            search.zero_grad()
            penalised = F.cross_entropy(layer(features), labels) + penalty / 2 * layer.weight.square().sum()
            penalised.backward()
            return penalised

        search.step(loss)
    return layer.requires_grad_(False)


def _drawn(examples: Sequence[Example], limit: int) -> list[Example]:
    return [examples[place] for place in Dice(0, 0).order(len(examples))[:limit].tolist()]


def _batches(rows: TextRows) -> RowBatches:
    return RowBatches(rows, tokens_per_batch=_TOKENS, shuffle=False)


def _tokenizer(stored: StoredModel) -> Tokenizer:
    assert stored.source_tokenizer is not None
    return stored.source_tokenizer


def _longest(stored: StoredModel, most: int) -> int:
    return min(most, int(stored.extra.get("max_len", most)), getattr(stored.model, "longest", None) or most)
