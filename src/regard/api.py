"""The verbs, for Python and the command line alike.

model = regard.train("recipes/multi30k_en_de.yaml", out="out/de")
model = regard.load("out/de")
model.translate(["A man is riding a horse."])
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import folder as folders
from regard import foreign
from regard import recipe as recipes
from regard.core import config as configs
from regard.core import lookup, weights
from regard.core.errors import DataError, UnknownName, UsageError
from regard.data.lines import read_lines
from regard.looking import explain, load_trace, method_list, panels_for_terminal, parameters, parsed, trace, wants
from regard.pipelines import Loaded, make_pipeline
from regard.pipelines.translation import Alignment, Translation, Translator
from regard.recipe import Recipe
from regard.run import Run

__all__ = [
    "Alignment",
    "Scores",
    "Translation",
    "Translator",
    "evaluate",
    "explain",
    "load",
    "load_trace",
    "method_list",
    "panels_for_terminal",
    "parameters",
    "parsed",
    "read_text",
    "score",
    "trace",
    "train",
    "wants",
]


def load(folder: str | Path) -> Any:
    """Open a model: a folder of ours or of Hugging Face, or a llama2.c checkpoint.

    What comes back is a torch module with the verbs of its task: translate, generate, classify, answer, fill, embed,
    similar.
    """
    return make_pipeline(folders.load(Path(folder)))


from_pretrained = load


def train(
    recipe: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    changes: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> Any:
    """Run a recipe (a YAML file or the same as a mapping) to its end, going on where an earlier run stopped."""
    if isinstance(recipe, Mapping):
        parsed, place = Recipe.parse(configs.override(recipe, changes or {}), "recipe"), Path(out or "out/run")
    else:
        parsed, place = recipes.read(recipe, changes), Path(out or Path("out") / Path(recipe).stem)
    return load(Run(parsed, place, quiet=quiet).train())


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF with the signatures that make them comparable; `exact` is the share of lines that are right."""

    bleu: float
    bleu_signature: str
    bleu_tokenised: float
    chrf: float
    chrf_signature: str
    exact: float
    lines: int


def evaluate(
    model: Translator, source: Sequence[str], reference: Sequence[str], **search: Any
) -> tuple[Scores, list[str]]:
    """Translate and score; also what was written."""
    if len(source) != len(reference):
        raise DataError(
            "source and reference differ in length", got=f"{len(source)} and {len(reference)} lines", expected="as many"
        )
    written = model.translate(source, **search)
    return score(written, reference), written


def score(written: Sequence[str], reference: Sequence[str]) -> Scores:
    """sacrebleu's BLEU and chrF, and BLEU of words as the files separate them, which older papers report."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if not written:
        raise DataError("there is nothing to score", got="0 lines")
    bleu, chrf, plain = BLEU(), CHRF(), BLEU(tokenize="none", force=True)
    lines, references = list(written), [list(reference)]
    return Scores(
        bleu=round(bleu.corpus_score(lines, references).score, 2),
        bleu_signature=str(bleu.get_signature()),
        bleu_tokenised=round(plain.corpus_score(lines, references).score, 2),
        chrf=round(chrf.corpus_score(lines, references).score, 2),
        chrf_signature=str(chrf.get_signature()),
        exact=sum(one.strip() == other.strip() for one, other in zip(lines, reference, strict=True)) / len(lines),
        lines=len(lines),
    )


def validate(
    folder: str | Path, *, recipe: str | Path | None = None, changes: Mapping[str, str] | None = None
) -> dict[str, float]:
    """The numbers of a task's validation: by the recipe that the model was trained with, or another, with changes."""
    place = Path(recipe) if recipe is not None else Path(folder) / "recipe.json"
    stored = folders.load(Path(folder))
    if not place.is_file():
        raise UsageError(
            f"{folder} has no recipe that says how to validate it",
            remedy="Give --recipe RECIPE.yaml, or --source and --reference for a translation model.",
        )
    data = {**_said(configs.read(place)), "model": {"start": str(folder)}}
    parsed = Recipe.parse(configs.override(data, changes or {}), str(place))
    job = lookup.find(recipes.JOBS, parsed.task)(parsed, stored)
    if not job.validates:
        raise UsageError("the recipe holds no data to validate on", remedy="Say where it is: --data.validation …")
    with tempfile.TemporaryDirectory() as temporary:
        job.prepare(Path(temporary), lambda _: None)
        found: dict[str, float] = job.validate(stored.model.eval())
    return found


def _said(data: Any) -> Any:
    """Without what is null: a recipe that was written down names what it leaves out."""
    return {key: _said(value) for key, value in data.items() if value is not None} if isinstance(data, dict) else data


def glue(folder: str | Path, data: str | Path | None = None, **options: Any) -> list[Any]:
    """A row for each GLUE task: see `regard.suite`."""
    from regard import suite

    return suite.glue(folder, data or recipes.filled_in("$REGARD_DATA/glue"), **options)


def usage(folder: str | Path) -> str:
    """A command to try a trained model with."""
    task = folders.FolderConfig.parse(configs.read(Path(folder) / "config.json"), str(folder)).task
    return folders.USES.get(task, "regard.load(FOLDER)").replace("FOLDER", str(folder)).strip("`")


def convert(model: Loaded, folder: str | Path, *, to: str) -> None:
    """Write a loaded model as a Hugging Face folder (`to="hf"`) or as one of ours (`to="regard"`)."""
    if to not in ("hf", "regard"):
        raise UnknownName("form to convert to", to, ("hf", "regard"))
    if Path(folder).exists() and (not Path(folder).is_dir() or any(Path(folder).iterdir())):
        raise DataError(f"{folder} exists already", remedy="Give a folder that does not exist, or remove it.")
    (foreign if to == "hf" else folders).save(Path(folder), model.stored)


def write_vectors(parts: Sequence[Any], path: str | Path) -> tuple[int, int]:
    """Vectors [N,D] in parts as one .npy file; its shape."""
    import numpy
    import torch

    whole = torch.cat(list(parts)) if parts else torch.empty(0, 0)
    with weights.replacing(path) as file:
        numpy.save(file, whole.numpy(), allow_pickle=False)
    return whole.shape[0], whole.shape[1]


def read_text(path: str | Path) -> list[str]:
    """The lines of a text file (plain, .gz or .xz)."""
    return list(read_lines(path))


def write_alignment(found: Alignment, path: str | Path, *, site: str | None = None, head: int | None = None) -> None:
    """An alignment as .json (everything), or as a picture or page of the matrix (.svg, .png, .html)."""
    path = Path(path)
    if path.suffix == ".json":
        path.write_text(json.dumps(found.as_dict(), ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        found.picture(site, head).save(path)
