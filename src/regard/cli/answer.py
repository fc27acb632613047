"""Answer questions about a text with a span of it, or about an image.

regard answer MODEL --question "Who wrote it?" --context page.txt     from a text
regard answer MODEL image.png "What shape is it?" ["…"]               about an image

Lines of question and context (for a model of images: the image's file), separated by a tab, come from --file or
standard input. Prints the answer and its score (about an image: its probability). The answer is empty if the text does
not hold it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._inputs import batches, columns
from regard.cli._terminal import shown, shown_json
from regard.core.errors import DataError, RegardError, UsageError

_Pairs = Iterator[tuple[list[str], list[str], int | None]]
"""Questions, what each is about, and the number of the first one's line if they are lines."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", help="a model folder")
    parser.add_argument("about", nargs="*", metavar="IMAGE QUESTION", help="an image, and questions about it")
    parser.add_argument("--question", metavar="TEXT", help="the question")
    parser.add_argument(
        "--context", metavar="FILE", help="the text that holds the answer (plain, .gz or .xz), or the image"
    )
    parser.add_argument("--file", metavar="FILE", help="lines of question and context, separated by a tab")
    parser.add_argument("--json", action="store_true", help="write JSON lines")
    parser.set_defaults(texts=[])
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    if (arguments.question is None) != (arguments.context is None):
        raise UsageError("--question and --context belong together", remedy="Give both, or lines with --file.")
    model: Any = opened_with_engine(arguments)
    for questions, contexts, first in _pairs(arguments, "image" in getattr(model, "accepts", ())):
        for question, answer in zip(questions, _answers(model, questions, contexts, first), strict=True):
            facts = {"question": question, "answer": answer.text, "score": answer.score}
            more = {name: getattr(answer, name) for name in ("start", "end", "scores") if hasattr(answer, name)}
            print(shown_json({**facts, **more}) if arguments.json else shown(f"{answer.text}\t{answer.score:.4f}"))
        sys.stdout.flush()
    if count := getattr(model, "n_cut_questions", 0):
        were = "1 question was" if count == 1 else f"{count} questions were"
        print(f"regard: note: {were} cut after {model.longest_question} tokens", file=sys.stderr)
    return 0


def _answers(model: Any, questions: list[str], contexts: list[str], first: int | None) -> Iterator[Any]:
    """The answers. If lines are refused, they are asked one by one: those before the bad one are answered, and the
    error names the line."""
    try:
        yield from model.answer(questions, contexts)
    except RegardError:
        if first is None:
            raise
        for number, (question, context) in enumerate(zip(questions, contexts, strict=True), first):
            try:
                yield from model.answer([question], [context])
            except RegardError as error:
                raise _on_line(number, error) from None


def _on_line(number: int, error: RegardError) -> RegardError:
    named = DataError(f"line {number}: {error.what}", got=error.got, expected=error.expected, remedy=error.remedy)
    named.exit_code = error.exit_code
    return named


def _pairs(arguments: argparse.Namespace, images: bool) -> _Pairs:
    """Questions and what each is about: texts, or the names of image files."""
    from regard import api

    if arguments.about:
        _check_about(arguments, images)
        image, *questions = arguments.about
        yield questions, [image] * len(questions), None
    elif arguments.question is not None:
        context = arguments.context if images else "\n".join(api.read_text(arguments.context))
        yield [arguments.question], [context], None
    else:
        first, what = 1, "question and image" if images else "question and context"
        for lines in batches(arguments):
            pair = columns(lines, 2, what, range(first, first + len(lines)))
            yield pair[0], pair[1], first
            first += len(lines)


def _check_about(arguments: argparse.Namespace, images: bool) -> None:
    if not images:
        remedy = "Give --question TEXT and --context FILE."
        raise UsageError("this model answers questions about texts", got=arguments.about[0], remedy=remedy)
    if arguments.question is not None or arguments.file is not None:
        raise UsageError("questions are given in two ways", remedy="Give an image and questions, or options.")
    if len(arguments.about) < 2:
        remedy = 'Give it after the image: regard answer MODEL image.png "What shape is it?"'
        raise UsageError("there is no question about the image", got=arguments.about[0], remedy=remedy)
