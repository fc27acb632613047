"""Words by the rules of the Moses toolkit (Koehn et al. 2007), as the optional package sacremoses has them.

Papers on small corpora often report BLEU of lowercased text that Moses' tokenizer has cut into words, for example Wu et
al. 2021 on Multi30k. The rules depend on the language: they know its abbreviations and its apostrophes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard.core.errors import UnknownName, UsageError


def lowercased_words(language: str) -> Callable[[str], str]:
    """A function that lowercases a line and puts a space between its words; `language` is a code such as "de"."""
    sacremoses = _package()
    # sacremoses itself takes the rules of English for a language that it does not know.
    known = set(sacremoses.corpus.NonbreakingPrefixes().available_langs.values())
    if language not in known:
        raise UnknownName("language of Moses' tokenizer", language, known)
    tokenizer = sacremoses.MosesTokenizer(lang=language)
    return lambda line: str(tokenizer.tokenize(line.lower(), return_str=True, escape=False))


def version() -> str:
    return str(_package().__version__)


def _package() -> Any:
    try:
        import sacremoses  # type: ignore[import-untyped]
        import sacremoses.corpus  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError(
            "Moses' tokenizer needs the package sacremoses, which is not installed",
            remedy="Run `pip install sacremoses`.",
        ) from error
    return sacremoses
