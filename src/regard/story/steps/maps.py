"""What attention maps say and do not: other weights with the same output (claim 3), effective attention (claim 2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from regard.explain import trace
from regard.explain.methods.alternatives import alternatives, other_weights
from regard.explain.methods.attribute import attributed
from regard.explain.methods.effective import correlation, effective_weights
from regard.story import Stage, Told
from regard.story.steps import _map_numbers, _maps_full
from regard.story.steps._map_numbers import KINDS, ByLayer
from regard.story.text import sentences
from regard.views.result import Matrix, Result

NUMBER, TITLE = 10, "What attention maps say and do not"
LECTURE = """
A head adds A·T to the output: its weights A times the values T that it writes. The rank of T is at most the width of
the head, so there is a nontrivial null space if the sequence is long: infinitely many attention weights can give the
same output. Take the part of A in that null space away and what is left, A⊥, is the effective attention. It is said
to correlate better with the output. An attribution by gradients says where a state comes from, without looking at A.
"""
COMMANDS = (
    'regard explain out/wikitext2_gpt2 "the king of the land was a man of his word" --method alternatives',
    'regard explain out/wikitext2_gpt2 "the king of the land was a man of his word" --method effective',
)
_HEADS, _WIDTH, _LENGTH = 8, 64, 48
FULL = "the same for the GPT-2 of recipes/wikitext2_gpt2.yaml, on three passages of WikiText-2."


def run(stage: Stage) -> Told:
    return _measured((trace(_model(stage, seed), _text(), value_path=True) for seed in stage.seeds), "model")


def full(stage: Stage) -> Told:
    model = stage.recipe_model(_maps_full.MODEL)
    return _measured((trace(model, text, value_path=True) for text in _maps_full.passages(model)), "passage")


def _measured(records: Iterable[Any], run: str) -> Told:
    """The numbers of all records; `run` says what a record is: a seed's model, or a passage of text."""
    single, joint, others = ByLayer(), ByLayer(), list[dict[str, Any]]()
    pictures: list[Matrix] = []
    for record in records:
        others += alternatives(record).data["sites"].values()
        pictures = pictures or _pictures(record)
        for number, site in enumerate(record.sites, 1):
            for kind, (by_head, of_mean) in _correlations(record, site).items():
                single.setdefault((number, kind), []).append(by_head)
                joint.setdefault((number, kind), []).append(of_mean)
    result = Result(
        "story",
        "Other weights with the same output, and weights without what has no effect",
        [*pictures, _map_numbers.other_table(others, joint, run), _map_numbers.curves(joint, run),
         _map_numbers.table("One head at a time", single), _map_numbers.table("Mean of the heads", joint)],
        _map_numbers.statements(others, joint),
        {"alternatives": others, "heads": _map_numbers.listed(single), "mean of the heads": _map_numbers.listed(joint)},
    )  # fmt: skip
    return Told(result, [_map_numbers.claim_of_others(others), _map_numbers.claim_of_effective(single, joint)], FOLLOWS)


FOLLOWS = """
A map of weights is not yet an explanation: other weights would have done the same. What a model has learnt shows in
what it does, and one thing that it does is to repeat its training text. That is the next step.
"""


def _text() -> str:
    return " ".join(" ".join(sentences(20, seed=3)).split()[:_LENGTH])


def _model(stage: Stage, seed: int) -> Any:
    """A small language model whose heads are eight wide and read 48 words."""
    options = {"d_model": _WIDTH, "n_heads": _HEADS, "n_layers": _map_numbers.LAYERS, "max_len": 64}
    off = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
    data = {"train": stage.write_lines("train.txt", sentences(2000, seed=1)), "context": 64}
    training = {"max_epochs": 6, "tokens_per_batch": 512, "lr": 2e-3, "schedule": "linear", "warmup": 20}
    recipe = {
        "task": "language_model",
        "data": {**data, "tokenizer": {"kind": "space", "vocab_size": 500}},
        "model": {"name": "gpt2", "options": {**options, **off}},
        "training": {**training, "label_smoothing": 0.0, "seed": seed},
    }
    return stage.train(f"seed_{seed}", recipe)


def _correlations(record: Any, site: str) -> dict[str, tuple[float, float]]:
    """Pearson's r of weights and attribution, by head and of the heads' mean, in rows that have a null space."""
    effective_HQK, null_HQ = effective_weights(record, site)
    rows = null_HQ.amin(0) > 0
    contributions = attributed(record, site.rsplit(".", 1)[0], probes=64).contributions
    wanted_QK = contributions.to(effective_HQK.dtype)[rows]
    results = {}
    for kind, weights_HQK in zip(KINDS, (record.heads(site), effective_HQK), strict=True):
        kept_HQK: Tensor = weights_HQK[:, rows]
        by_head = correlation(kept_HQK, wanted_QK.expand_as(kept_HQK)).mean()
        results[kind] = float(by_head), float(correlation(kept_HQK.mean(0, keepdim=True), wanted_QK[None])[0])
    return results


def _pictures(record: Any) -> list[Matrix]:
    """A and A′ of the head in which most weight moves, for the last words of the text."""
    look = max((record.looks(site)[0] for site in record.sites), key=lambda each: float(_moved(each).amax()))
    head = int(_moved(look).argmax())
    rows = slice(len(look.queries) - 12, None)
    pair = {"A": look.weights[head, rows], "A′": other_weights(look)[head, rows]}
    return [
        Matrix(f"{kind} of {look.name}, head {head}", look.queries[rows], look.keys, values.tolist(),
               note="the last 12 words of the text; both give the same output")
        for kind, values in pair.items()
    ]  # fmt: skip


def _moved(look: Any) -> Tensor:
    """Half of Σ|A − A′|, the mean of each head's rows [H]."""
    return (other_weights(look) - look.weights.double()).abs().sum(-1).mean(-1) / 2
