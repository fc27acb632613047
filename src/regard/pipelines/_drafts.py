"""Drafts that guess a language model's next tokens, so that it can check several at once (`decoding.speculation`)."""

from __future__ import annotations

from typing import Any

from regard.core.errors import UsageError
from regard.decoding.speculation import Draft, Guesser, Lookup, Speculative

LOOKUP = "lookup"


def speculative(model: Any, draft: Any, draft_tokens: int, work: int) -> Speculative:
    """A loaded language model as its engine runs it for about `work` tokens, with a draft that guesses tokens.

    `draft` is "lookup" or a loaded language model with the same vocabulary.
    """
    if draft_tokens < 1:
        raise UsageError("a draft has at least one token", got=f"draft_tokens {draft_tokens}", expected="1 or more")
    if not hasattr(model.model, "verify"):
        raise UsageError(
            "this model cannot check several tokens at once",
            got=model.stored.name,
            expected="a language model that remembers keys and values, such as gpt2 or llama",
            remedy="Generate without a draft.",
        )
    return Speculative(model.runner(work), _guesser(model, draft, work), draft_tokens)


def _guesser(model: Any, draft: Any, work: int) -> Guesser:
    if draft == LOOKUP:
        return Lookup()
    if not hasattr(getattr(draft, "model", None), "verify"):
        raise UsageError(
            "this cannot draft",
            got=draft if isinstance(draft, str) else type(getattr(draft, "model", draft)).__name__,
            expected=f"{LOOKUP!r}, or a loaded language model that remembers keys and values, such as gpt2 or llama",
        )
    if draft.tokenizer.pieces() != model.tokenizer.pieces():
        raise UsageError(
            "the draft model has another vocabulary",
            got=f"{draft.tokenizer.vocab_size} tokens",
            expected=f"the same {model.tokenizer.vocab_size} tokens",
            remedy="Train the draft model with the same tokenizer.",
        )
    return Draft(draft.runner(work))
