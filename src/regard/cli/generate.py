"""Continue a prompt with a language model.

Prompts come from --prompt (repeat it for several), from --file, or from standard input, one per line. Prints the prompt
and its continuation; with --json one object per prompt. Any of --temperature, --top-k, --top-p and --min-p turns on
sampling.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._inputs import batches, opened, text_counter
from regard.cli._progress import Progress
from regard.cli._terminal import shown, shown_json

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")
_OPTIONS = (*_SAMPLING, "beam", "min_length", "no_repeat_ngram", "repetition_penalty")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder, or a llama2.c checkpoint")
    parser.add_argument("--prompt", action="append", dest="texts", metavar="TEXT", help="the text to continue")
    parser.add_argument("--file", metavar="FILE", help="prompts, one per line (plain, .gz or .xz)")
    parser.add_argument("--json", action="store_true", help="write JSON lines")
    parser.add_argument("--stream", action="store_true", help="print text as it is generated (one prompt)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="maximum number of new tokens")
    parser.add_argument("--temperature", type=float, metavar="T", help="0: greedy; below 1: favour probable tokens")
    parser.add_argument("--top-k", type=int, metavar="K", help="sample from the K most probable tokens")
    parser.add_argument("--top-p", type=float, metavar="P", help="sample from the top tokens with total probability P")
    parser.add_argument(
        "--min-p", type=float, metavar="P", help="sample from tokens at least P times as probable as the best"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same text")
    parser.add_argument("--beam", type=int, metavar="N", help="beam search with N hypotheses")
    parser.add_argument("--min-length", type=int, metavar="N", help="minimum number of new tokens")
    parser.add_argument("--no-repeat-ngram", type=int, metavar="N", help="never generate the same N tokens twice")
    parser.add_argument(
        "--repetition-penalty", type=float, metavar="P", help="above 1, earlier tokens become less probable"
    )
    parser.add_argument(
        "--draft",
        metavar="MODEL",
        help="guess tokens ahead, faster for large models and with the same result: a smaller model with the same "
        "vocabulary, or 'lookup' for what followed the same words before",
    )
    parser.add_argument("--draft-tokens", type=int, default=5, metavar="N", help="tokens to guess at a time (5)")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    model: Any = opened_with_engine(arguments)
    options = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name) is not None}
    if arguments.beam is not None:
        options.setdefault("sample", False)
    if arguments.draft is not None:
        options["draft"] = "lookup" if arguments.draft == "lookup" else opened(arguments.draft)
        options["draft_tokens"] = arguments.draft_tokens
    number, most = 0, arguments.max_tokens
    with Progress("writing", text_counter(arguments)) as progress:
        for prompts in batches(arguments):
            if arguments.stream and len(prompts) == 1 and not arguments.json:
                _stream(model, prompts[0], most, number, options)
                number += 1
                continue
            with progress.working():
                results = model.generate(
                    prompts, max_tokens=most, first=number, on_progress=progress.on_progress, **options
                )
            for generated in results:
                print(_line(generated) if arguments.json else shown(generated.prompt + generated.text))
                _tell(model, generated)
            sys.stdout.flush()
            number += len(prompts)
    return 0


def _stream(model: Any, prompt: str, max_tokens: int | None, number: int, options: dict[str, Any]) -> None:
    print(shown(prompt), end="", flush=True)

    def show(piece: str) -> None:
        print(shown(piece), end="", flush=True)

    (generated,) = model.generate([prompt], max_tokens=max_tokens, first=number, on_text=show, **options)
    print()
    _tell(model, generated)


def _tell(model: Any, generated: Any) -> None:
    if generated.full:
        longest = model.model.longest
        print(f"regard: note: the text ends at the model's limit of {longest} tokens", file=sys.stderr)


def _line(generated: Any) -> str:
    facts = {
        "prompt": generated.prompt,
        "text": generated.text,
        "log_prob": generated.log_prob,
        "finished": generated.finished,
    }
    return shown_json(facts)
