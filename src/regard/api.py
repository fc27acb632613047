"""The functions behind both the Python interface and the command line.

model = regard.train("recipes/multi30k_en_de.yaml", out="out/de")
model = regard.load("out/de")
model.translate(["A man is riding a horse."])
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.core import config as configs
from regard.core import weights
from regard.core.errors import DataError, UnknownName
from regard.core.lines import read_lines
from regard.core.paths import expand_path
from regard.data.trees import Tree
from regard.evaluation.speed import Speeds, SpeedTest
from regard.evaluation.text_scores import Scores, evaluate, score
from regard.explain import explain, find_method, load_trace, method_names, result_file, trace
from regard.pipelines import Loaded, make_pipeline, pipeline_of
from regard.pipelines.translation import Alignment, Translation, Translator
from regard.runs.parsing import parse_recipe, read_recipe
from regard.runs.run import Run
from regard.runs.validation import grade, validate
from regard.store import load_model, save_model, unsaid, writable_formats
from regard.store.formats.regard import described
from regard.story import Told
from regard.views import tree as tree_view
from regard.views.result import Result, output_file

__all__ = [
    "Alignment",
    "Scores",
    "SpeedTest",
    "Speeds",
    "Translation",
    "Translator",
    "bench",
    "convert",
    "evaluate",
    "explain",
    "find_method",
    "glue",
    "grade",
    "load",
    "load_trace",
    "method_names",
    "output_file",
    "panels_for_terminal",
    "quickstart",
    "read_text",
    "result_file",
    "score",
    "trace",
    "train",
    "tree_lines",
    "tree_picture",
    "usage",
    "validate",
    "view_speeds",
    "words",
    "write_alignment",
    "write_vectors",
]


def load(folder: str | Path) -> Any:
    """Load a model: a folder of ours or of Hugging Face, a llama2.c checkpoint, or a file of word vectors.

    Returns a torch module with the verbs of its task: translate, generate, classify, answer, fill, embed, similar,
    neighbours, analogy.
    """
    return make_pipeline(load_model(Path(folder)))


from_pretrained = load


def train(
    recipe: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    changes: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> Any:
    """Run a recipe (a YAML file, or its contents as a mapping) to its end, resuming where an earlier run stopped."""
    if isinstance(recipe, Mapping):
        parsed, place, folder = parse_recipe(configs.override(recipe, changes or {}), "recipe"), Path("out/run"), None
    else:
        parsed, place, folder = read_recipe(recipe, changes), Path("out") / Path(recipe).stem, Path(recipe).parent
    return load(Run(parsed, Path(out or place), folder=folder, quiet=quiet).train())


def quickstart(out: str | Path) -> tuple[Translator, Callable[[], Any]]:
    """Train the quickstart's model in a folder; return it, and a function that scores it on unseen expressions."""
    from regard.runs import quickstart as steps

    model = steps.train(Path(out))
    return model, lambda: steps.evaluate(model)


def glue(folder: str | Path, data: str | Path | None = None, **options: Any) -> list[Any]:
    """A row for each GLUE task: see `regard.evaluation.glue`."""
    from regard.evaluation import glue as suite

    return suite.glue(folder, data or expand_path("$REGARD_DATA/glue"), **options)


def words(model: Any, data: str | Path | None = None, **options: Any) -> list[Any]:
    """A row for each test of word vectors: see `regard.evaluation.words`."""
    from regard.evaluation import words as suite

    return suite.words(model, data or expand_path("$REGARD_DATA/word_eval"), **options)


def bench(model: Loaded, **options: Any) -> Speeds:
    """Tokens per second of every engine; the options (tokens, rounds, threads) are those of `SpeedTest`."""
    return SpeedTest(model, **options).measure()


def view_speeds(speeds: Speeds, *, curves: bool = True) -> Result:
    """Measured speeds as a table and curves: `.save("bench.svg")`, or .png, .html, .json."""
    from regard.evaluation.speed_view import view

    return view(speeds, curves=curves)


def usage(folder: str | Path) -> str:
    """An example command for a trained model."""
    said = described(Path(folder))
    return pipeline_of(said.task).usage_of(said.extra).replace("FOLDER", str(folder))


def convert(model: Loaded, folder: str | Path, *, to: str) -> list[str]:
    """Write a loaded model as a Hugging Face folder (`to="hf"`), as one of ours (`to="regard"`), an n-gram model as a
    file (`to="arpa"`), or word vectors as a file (`to="word2vec"`, "word2vec_binary" or "glove").

    Returns what that format cannot store of it, one line each."""
    if to not in writable_formats():
        raise UnknownName("format to convert to", to, writable_formats())
    if Path(folder).exists() and (not Path(folder).is_dir() or any(Path(folder).iterdir())):
        raise DataError(f"{folder} exists already", remedy="Give a folder that does not exist, or remove it.")
    if to == "regard":
        model.save(folder)
    else:
        save_model(Path(folder), model.stored, form=to)
    return unsaid(model.stored, to)


def write_vectors(parts: Iterable[Any], path: str | Path) -> tuple[int, int]:
    """Write vectors [N,D], given in parts, as one .npy file; return its shape. Only one part is held at a time."""
    count, width = 0, 0
    with weights.replacing(path) as file:
        file.write(_npy_header(count, width))
        for part in parts:
            count, width = count + part.shape[0], part.shape[1]
            file.write(part.numpy().astype("<f4", copy=False).tobytes())
        file.seek(0)
        file.write(_npy_header(count, width))
    return count, width


def _npy_header(count: int, width: int) -> bytes:
    """The first 128 bytes of an .npy file of float32 numbers; their size does not depend on the numbers in them."""
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {width}), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


def read_text(path: str | Path) -> list[str]:
    """The lines of a text file (plain, .gz or .xz)."""
    return list(read_lines(path))


def write_alignment(
    alignment: Alignment, path: str | Path, *, site: str | None = None, head: int | None = None
) -> None:
    """An alignment as .json (everything), or as a picture or page of the matrix (.svg, .png, .html)."""
    path = Path(path)
    if path.suffix == ".json":
        path.write_text(json.dumps(alignment.as_dict(), ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        alignment.picture(site, head).save(path)


def tree_lines(tree: Tree) -> list[str]:
    """A parsed sentence, drawn for the terminal."""
    return tree_view.tree_lines(_node(tree))


def tree_picture(tree: Tree) -> str:
    """A parsed sentence, drawn as SVG."""
    return tree_view.tree_svg(_node(tree))


def _node(tree: Tree) -> Any:
    return tree.word if tree.word is not None else (tree.label, [_node(part) for part in tree.parts])


def panels_for_terminal(result: Result, width: int) -> list[Any]:
    """A result as objects that the terminal can print."""
    from regard.views.terminal import panels_for_terminal

    return panels_for_terminal(result, width)


def story_steps() -> dict[str, Any]:
    """The steps of the lectures' thread, by name and in order."""
    from regard import story

    return dict(story.all_steps())


def story_step(name: str) -> str:
    """The name of a step that is given by name or number."""
    from regard import story

    return story.find_step(name).__name__.rpartition(".")[2]


def tell(
    name: str,
    out: str | Path,
    *,
    seeds: tuple[int, ...] = (1, 2, 3),
    pages: Path | None = None,
    models: str | Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Told:
    """Run a step of the story in a folder; with `pages`, also write its page there, and the index of all pages.

    With `models`, a folder of models that recipes have trained, the step measures those."""
    from regard import story
    from regard.story.pages import index_page, write_step

    step = story.find_step(name)
    stage = story.Stage(Path(out) / name, seeds, say)
    told: Told = step.run(stage) if models is None else step.full(replace(stage, models=Path(models)))
    if pages is not None:
        write_step(name, step, told, pages, full=models is not None)
        (pages / "index.md").write_text(index_page(pages), encoding="utf-8")
    return told
