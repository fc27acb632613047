"""Which models can translate together."""

from __future__ import annotations

from typing import Any

from regard.core.errors import UsageError


def check_partner(model: Any, partner: Any, name: str = "") -> None:
    """Raise an error if `partner` cannot be in an ensemble with the model; `name` is its folder, if that is known."""
    if not hasattr(partner, "join"):
        raise UsageError(
            "an ensemble needs translation models",
            got=f"{name or 'a model'} for {partner.stored.task.replace('_', ' ')}",
            remedy="Leave it out, or give a model that was trained to translate.",
        )

    def facts(asked: Any) -> tuple[Any, ...]:
        sides = asked.source_tokenizer.pieces(), asked.target_tokenizer.pieces()
        return (*sides, asked.first_token, asked.end_token)

    if facts(model) != facts(partner):
        raise UsageError(
            "the models of an ensemble must have the same vocabularies",
            got=f"{model.target_tokenizer.vocab_size} and {partner.target_tokenizer.vocab_size} tokens that differ",
            remedy="Train them by one recipe with other seeds: --training.seed 2.",
        )
