"""Which models can translate together."""

from __future__ import annotations

from typing import Any

from regard.core.errors import UsageError


def check_partner(model: Any, partner: Any) -> None:
    """Raise an error if `partner` cannot be in an ensemble with the model."""
    if not hasattr(partner, "join"):
        raise UsageError("an ensemble needs translation models", got=type(partner).__name__)

    def facts(asked: Any) -> tuple[Any, ...]:
        sides = asked.source_tokenizer.pieces(), asked.target_tokenizer.pieces()
        return (*sides, asked.first_token, asked.end_token)

    if facts(model) != facts(partner):
        raise UsageError(
            "the models of an ensemble must have the same vocabularies",
            got=f"{model.target_tokenizer.vocab_size} and {partner.target_tokenizer.vocab_size} tokens that differ",
            remedy="Train them by one recipe with other seeds: --training.seed 2.",
        )
