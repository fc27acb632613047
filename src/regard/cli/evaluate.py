"""Score a model.

A translation model: --source and --reference; BLEU and chrF by sacrebleu, with signatures. --moses de adds BLEU of
lowercased text, split by Moses' tokenizer for German, as many papers report it. A language model: --source alone; its
perplexity on that text. Any model that was trained here: its validation metrics, on the held-out data of its recipe.
The recipe can be changed as for `train`, for example to use other data:
regard evaluate out/mnist_vit --data.validation_share 0 --data.validation.images F --data.validation.labels G.
--graded 8: eight of the texts that it generates for that data, from right to wrong, each beside its nearest reference.
--suite glue: a table over SST-2, CoLA, MRPC, STS-B and RTE, for a model or for a folder with a model for each task.
--suite words: analogies by section and WordSim-353, for word vectors.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path

from regard.cli._changes import changes
from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._progress import Progress
from regard.cli._search import add_search, search_options
from regard.cli._terminal import shown
from regard.core.errors import UsageError
from regard.core.lines import malformed, malformed_note


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    parser.add_argument(
        "--with", dest="partners", nargs="+", default=[], metavar="MODEL", help="translate together with these models"
    )
    parser.add_argument(
        "--source", metavar="FILE", help="lines to translate, or the text of a language model (plain, .gz or .xz)"
    )
    parser.add_argument("--reference", metavar="FILE", help="their translations")
    parser.add_argument(
        "--moses",
        metavar="LANGUAGE",
        help="also BLEU of lowercased text that Moses' tokenizer splits; the language of the translations, such as de",
    )
    parser.add_argument(
        "--recipe", metavar="RECIPE.yaml", help="how to validate a model that was stored without a recipe"
    )
    parser.add_argument(
        "--graded",
        type=int,
        metavar="N",
        help="show N generated texts of the held-out data, from the best chrF to the worst",
    )
    parser.add_argument("--suite", choices=("glue", "words"), help="a table over several tasks")
    parser.add_argument(
        "--suite-data", metavar="FOLDER", help="the suite's data (default: $REGARD_DATA/glue or word_eval)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--out", metavar="FILE", help="also write the translations")
    parser.add_argument("--shortlist", metavar="FILE", help="choose from the tokens of this file: regard shortlist")
    add_search(parser)
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.moses and (arguments.suite or arguments.source is None or arguments.reference is None):
        raise UsageError("--moses scores translations", remedy="Give --source and --reference with it.")
    if arguments.partners and (arguments.suite or arguments.reference is None):
        raise UsageError("--with scores translations", remedy="Give --source and --reference with it.")
    _refuse_idle(arguments)
    if arguments.suite:
        return _words(arguments) if arguments.suite == "words" else _suite(arguments)
    if arguments.graded is not None:
        return _graded(arguments)
    if arguments.reference is None:
        return _validate(arguments)
    if arguments.source is None or arguments.rest:
        raise UsageError("--source and --reference belong together", remedy="Give both, without changes of a recipe.")
    return _translations(arguments)


def _refuse_idle(arguments: argparse.Namespace) -> None:
    """Refuse options that only a translation of --source, or a recipe, can use."""
    translates = arguments.reference is not None and not arguments.suite and arguments.graded is None
    if translates:
        return
    idle = [f"--{name}" for name in ("shortlist", "out") if getattr(arguments, name) is not None]
    idle += ["--engine"] if arguments.engine != "auto" else []
    if arguments.suite or arguments.graded is None:
        idle += [f"--{name.replace('_', '-')}" for name in search_options(arguments)]
    if idle:
        raise UsageError(
            "these options are for scoring translations, and have no effect here",
            got=", ".join(idle),
            remedy="Leave them out, or score translations: --source and --reference. The searches of a recipe's "
            "evaluators are in the recipe: --evaluation '[{name: bleu, beam: 5}]'.",
        )
    if arguments.suite:
        given = [name for name in ("source", "reference", "recipe", "graded") if getattr(arguments, name) is not None]
        if given or arguments.rest:
            got = ", ".join([*(f"--{name}" for name in given), *arguments.rest[:1]])
            raise UsageError("a suite has its own data and no recipe", got=got)


def _translations(arguments: argparse.Namespace) -> int:
    from regard import api

    arguments.model = [arguments.model, *arguments.partners]
    model = opened_with_engine(arguments)
    source, reference = api.read_text(arguments.source), api.read_text(arguments.reference)
    listed = {} if arguments.shortlist is None else {"shortlist": arguments.shortlist}
    with Progress("translating", lambda: len(source)) as progress, progress.working():
        scores, written = api.evaluate(
            model,
            source,
            reference,
            moses=arguments.moses,
            on_progress=progress.on_progress,
            **listed,
            **search_options(arguments),
        )
    if arguments.out:
        Path(arguments.out).write_text("".join(line + "\n" for line in written), encoding="utf-8")
    if arguments.json:
        print(json.dumps(asdict(scores)))
        return 0
    print(f"BLEU   {scores.bleu:6.2f}   {scores.bleu_signature}")
    print(f"chrF   {scores.chrf:6.2f}   {scores.chrf_signature}")
    print(f"BLEU   {scores.bleu_tokenised:6.2f}   {scores.bleu_tokenised_signature}, words as the files separate them")
    if scores.bleu_moses is not None:
        signature = f"{scores.bleu_moses_signature}, words of Moses' tokenizer ({scores.moses})"
        print(f"BLEU   {scores.bleu_moses:6.2f}   {signature}")
    print(f"exact  {100 * scores.exact:6.2f}   % of {scores.lines} lines")
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    from regard import api

    given = changes(arguments.rest)
    with malformed() as replaced:
        numbers = api.validate(arguments.model, recipe=arguments.recipe, changes=given, text=arguments.source)
    for path, count in replaced.items():
        print(f"regard: {malformed_note(path, count)}", file=sys.stderr)
    if math.isinf(numbers.get("loss", 0.0)):
        print("regard: note: the loss is infinite: some token has probability 0 for this model", file=sys.stderr)
    if arguments.json:
        finite = {name: number if math.isfinite(number) else None for name, number in numbers.items()}
        print(json.dumps(finite, allow_nan=False))
        return 0
    width = max(len(name) for name in numbers)
    for name, number in numbers.items():
        print(f"{name:{width}}  {number:.4f}")
    return 0


def _graded(arguments: argparse.Namespace) -> int:
    from regard import api

    if arguments.source is not None or arguments.reference is not None:
        raise UsageError("--graded uses the data that the recipe held out", remedy="Change data.validation instead.")
    given, search = changes(arguments.rest), search_options(arguments)
    rows = api.grade(arguments.model, arguments.graded, recipe=arguments.recipe, changes=given, search=search)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], ensure_ascii=False))
        return 0
    for row in rows:
        print(shown(f"{row.chrf:5.1f}  {row.input}\n       written    {row.text}\n       reference  {row.reference}"))
    return 0


def _suite(arguments: argparse.Namespace) -> int:
    from regard import api

    rows = api.glue(arguments.model, arguments.suite_data, say=lambda text: print(text, file=sys.stderr, flush=True))
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    print(f"{'task':6}  {'split':5}  {'how':10}  {'rows':>6}  score")
    for row in rows:
        scores = ", ".join(f"{name} {100 * value:.1f}" for name, value in row.scores.items())
        print(f"{row.task:6}  {row.split:5}  {row.how:10}  {row.rows:>6}  {scores}")
    return 0


def _words(arguments: argparse.Namespace) -> int:
    from regard import api
    from regard.cli._inputs import opened

    rows = api.words(opened(arguments.model), arguments.suite_data)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    width = max(len(row.test) for row in rows)
    print(f"{'test':{width}}  {'asked':>6}  {'of':>6}  score")
    for row in rows:
        scores = ", ".join(f"{name} {100 * value:.1f}" for name, value in row.scores.items()) or "–"
        print(f"{row.test:{width}}  {row.asked:>6}  {row.questions:>6}  {scores}")
    return 0
