"""Answer questions about a text with a span of it.

Give one question with --question and --context (a file), or lines of question and context separated by a tab from
--file or standard input. Prints answer and probability; the answer is empty if the text does not contain it.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._inputs import batches, columns
from regard.cli._terminal import shown, shown_json
from regard.core.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--question", metavar="TEXT", help="the question")
    parser.add_argument("--context", metavar="FILE", help="the text that holds the answer (plain, .gz or .xz)")
    parser.add_argument("--file", metavar="FILE", help="lines of question and context, separated by a tab")
    parser.add_argument("--json", action="store_true", help="write JSON lines")
    parser.set_defaults(texts=[])
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from regard import api

    if (arguments.question is None) != (arguments.context is None):
        raise UsageError("--question and --context belong together", remedy="Give both, or lines with --file.")
    model: Any = opened_with_engine(arguments)
    if arguments.question is not None:
        pairs = iter([([arguments.question], ["\n".join(api.read_text(arguments.context))])])
    else:
        pairs = (
            (pair[0], pair[1]) for pair in (columns(lines, 2, "question and context") for lines in batches(arguments))
        )
    for questions, contexts in pairs:
        for question, answer in zip(questions, model.answer(questions, contexts), strict=True):
            facts = {
                "question": question,
                "answer": answer.text,
                "score": answer.score,
                "start": answer.start,
                "end": answer.end,
            }
            print(shown_json(facts) if arguments.json else shown(f"{answer.text}\t{answer.score:.4f}"))
        sys.stdout.flush()
    if count := model.n_cut_questions:
        were = "1 question was" if count == 1 else f"{count} questions were"
        print(f"regard: note: {were} cut after {model.longest_question} tokens", file=sys.stderr)
    return 0
