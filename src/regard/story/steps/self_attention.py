"""Self-attention, heads and positions: the division by √d (claim 5), and the weight on the own word (claim 7)."""

from __future__ import annotations

from statistics import mean

import torch

from regard.attention.positions.sinusoidal import encode
from regard.explain import trace
from regard.story import Claim, Stage, Told, Verdict
from regard.story.steps import _scaling
from regard.story.steps._spread import spread
from regard.story.text import sentences
from regard.views.result import Matrix, Result, Table

NUMBER, TITLE = 7, "Self-attention, heads and positions"
LECTURE = """
In self-attention every word asks every word of its own sentence: softmax(QKᵀ/√d)·V. The scores are divided by √d so
that the dot product has unit variance, which is to stabilise the gradients. Self-attention can focus heavily on the
same word, and gives a single representation; multi-headed self-attention has H different versions of Q, K and V. It
does not see the order of the words, so a position is added to each of them, such as sines of many wavelengths.
"""
COMMANDS = (
    "regard train recipes/wikitext2_gpt2.yaml",
    'regard explain out/wikitext2_gpt2 "the animal did not cross the street because it was tired" --method maps',
)
HEADS = (1, 8)
_WIDTH = 64
_OFF = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}


def run(stage: Stage) -> Told:
    scores = _scaling.measure(stage.seeds)
    own = {(heads, trained): _own(stage, heads, trained) for trained in (False, True) for heads in HEADS}
    uniform = mean(weight for line in _held() for weight in (1 / place for place in range(2, len(line.split()) + 1)))
    positions, columns = range(0, 64, 2), range(0, _WIDTH, 2)
    waves = encode(torch.tensor(positions), _WIDTH)[:, ::2].tolist()
    result = Result(
        "story",
        "What √d keeps, where words look, and what tells their places",
        [
            _scaling.curves(scores, 0, "Variance of scores", "variance"),
            _scaling.curves(scores, 1, "Gradient of the softmax", "‖∂softmax(s)/∂s‖, mean"),
            _scaling.table(scores),
            _own_table(own, uniform),
            Matrix("Sinusoidal positions", [*map(str, positions)], [*map(str, columns)], waves, diverging=True,
                   note=f"rows: positions; columns: the sines of a width of {_WIDTH}"),
        ],
        _statements(scores, own),
        {"scores": scores, "own": [[*key, values] for key, values in own.items()]},
    )  # fmt: skip
    return Told(result, [_scaling.claim(scores), _claim_of_own(own, uniform)], FOLLOWS)


FOLLOWS = """
Attention mixes words, but a layer of it is a weighted mean and no more. The Transformer puts a net for each word, a
norm and a way around both of them into every layer; the next step looks at what each of these is for.
"""


def _held() -> list[str]:
    return sentences(40, seed=3)


def _own(stage: Stage, heads: int, trained: bool) -> list[float]:
    """The mean weight of a word on itself, for each seed; the first word of a sentence sees nothing else."""
    options = {"d_model": _WIDTH, "n_heads": heads, "n_layers": 2, "max_len": 64, **_OFF}
    lines = sentences(2000, seed=1)
    data = {"train": stage.write_lines("train.txt", lines), "tokenizer": {"kind": "space", "vocab_size": 500}}
    training = {"max_epochs": 8, "tokens_per_batch": 512, "lr": 3e-3, "schedule": "linear", "warmup": 20,
                "label_smoothing": 0.0}  # fmt: skip
    results = []
    for seed in stage.seeds:
        recipe = {
            "task": "language_model", "data": {**data, "documents": "lines", "context": 64},
            "model": {"name": "gpt2", "options": options}, "training": {**training, "seed": seed},
        }  # fmt: skip
        model = (
            stage.train(f"heads_{heads}_{seed}", recipe)
            if trained
            else stage.untrained("gpt2", options, lines, seed=seed)
        )
        record = trace(model, _held())
        looks = [look for site in record.sites for row in range(record.rows) for look in record.looks(site, row)]
        weights = torch.cat([look.weights.diagonal(dim1=1, dim2=2)[:, 1:].flatten() for look in looks])
        results.append(float(weights.mean()))
    return results


def _own_table(own: dict[tuple[int, bool], list[float]], uniform: float) -> Table:
    rows: list[list[str | float | int | None]] = [
        [heads, "trained" if trained else "untrained", mean(values), spread(values), uniform]
        for (heads, trained), values in own.items()
    ]
    columns = ["heads", "weights", "on the own word", "standard deviation", "if all were equal"]
    note = "two masked layers of width 64; unseen sentences without their first words, which see nothing else"
    return Table("Weight on the own word", columns, rows, note)


def _statements(scores: _scaling.Measured, own: dict[tuple[int, bool], list[float]]) -> list[str]:
    first, last = _scaling.WIDTHS[0], _scaling.WIDTHS[-1]
    lines = []
    for kind, by_width in scores.items():
        ends = [[mean(part) for part in zip(*by_width[width], strict=True)] for width in (first, last)]
        lines.append(
            f"Scores {kind}: from d = {first} to {last} their variance goes from {ends[0][0]:.3g} to {ends[1][0]:.3g}, "
            f"the gradient of the softmax from {ends[0][1]:.3f} to {ends[1][1]:.3f}, "
            f"that of the query from {ends[0][2]:.3f} to {ends[1][2]:.3f}."
        )
    shares = ", ".join(f"{mean(own[heads, True]):.2f} with {heads} head{'s' * (heads > 1)}" for heads in HEADS)
    return [*lines, f"Weight of a trained model on the own word: {shares}."]


def _claim_of_own(own: dict[tuple[int, bool], list[float]], uniform: float) -> Claim:
    one, many = own[HEADS[0], True], own[HEADS[1], True]
    mostly, harder = mean(one) > 0.5, mean(one) - mean(many) > spread(one) + spread(many)
    verdict: Verdict = "holds" if mostly and harder else "holds in part" if mostly or harder else "does not hold here"
    return Claim(
        "Self Attention can focus heavily on the same word; several heads make that harder.",
        verdict,
        f"The weight on the own word is {mean(one):.2f} ± {spread(one):.2f} with one head and "
        f"{mean(many):.2f} ± {spread(many):.2f} with {HEADS[1]} ({uniform:.2f} if all weights were equal). "
        "Mostly would be above 0.5; harder, less by more than both standard deviations.",
    )
