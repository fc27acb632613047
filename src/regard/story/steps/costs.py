"""What a score costs: BLEU beside the FLOPs of training, and ensembles (claim 10)."""

from __future__ import annotations

import json
from statistics import mean
from typing import Any

from regard.evaluation.text_scores import score
from regard.pipelines.translation import TranslationPipeline
from regard.story import Claim, Stage, Told, Verdict
from regard.story.phrases import phrases
from regard.story.steps import _printed
from regard.story.steps._spread import spread
from regard.views.result import Curves, Result, Table

NUMBER, TITLE = 13, "What a score costs"
LECTURE = """
The lectures show the Transformer's results in a table: BLEU for two pairs of languages beside the training cost, in
floating-point operations (FLOPs). It has the highest scores, and is said to cost a tenth to a hundredth of the others.
The best of the others are ensembles: several models, trained apart, that translate together. The table needs eight
GPUs for days. Here small models translate sentences of a small grammar, and their FLOPs are counted.
"""
COMMANDS = (
    "regard train recipes/multi30k_en_de.yaml",
    "regard train recipes/multi30k_en_de.yaml --training.seed 2 --out out/multi30k_en_de_2",
    "regard evaluate out/multi30k_en_de --with out/multi30k_en_de_2 --source $REGARD_DATA/multi30k/test_2016_flickr.en.gz "
    "--reference $REGARD_DATA/multi30k/test_2016_flickr.de.gz",
)
RECURRENT, TRANSFORMER = "Bahdanau", "Transformer"
MODELS: dict[str, tuple[str, dict[str, Any], int]] = {
    RECURRENT: (
        "seq2seq",
        {"cell": "gru", "d_embedding": 48, "d_hidden": 64, "dropout": 0.1, "attention": "bahdanau"},
        300,
    ),
    TRANSFORMER: (
        "transformer",
        {
            "d_model": 48,
            "n_heads": 4,
            "d_ff": 96,
            "n_encoder_layers": 2,
            "n_decoder_layers": 2,
            "dropout": 0.1,
            "order": "pre",
        },
        300,
    ),
}
_PAIRS, _HELD, _EVERY = 60, 200, 25
_TENTH = 0.1

Path = list[tuple[float, float]]
"""FLOPs and BLEU as training goes on."""


def run(stage: Stage) -> Told:
    paths, sizes, apart, together = (
        dict[str, list[Path]](),
        dict[str, int](),
        dict[str, list[float]](),
        dict[str, float](),
    )
    for name in MODELS:
        models = []
        for seed in stage.seeds:
            model, path = _trained(stage, name, seed)
            models.append(model)
            paths.setdefault(name, []).append(path)
        sizes[name] = sum(part.numel() for part in models[0].model.parameters())
        apart[name] = [_bleu(model) for model in models]
        models[0].join(*models[1:])
        together[name] = _bleu(models[0])
    spent = _spent(paths)
    result = Result(
        "story",
        "BLEU beside the FLOPs of training",
        [_printed.table(), _curves(paths), _table(paths, sizes, apart, together), _reached_table(spent)],
        [f"{name}: BLEU {mean(apart[name]):.1f} ± {spread(apart[name]):.1f} for "
         f"{mean(path[-1][0] for path in paths[name]):.2g} FLOPs; {len(apart[name])} together {together[name]:.1f}."
         for name in MODELS],
        {"alone": apart, "together": together, "FLOPs to equal BLEU": spent},
    )  # fmt: skip
    return Told(result, [_printed.claim(), _claim_of_cost(spent), _claim_of_ensembles(apart, together)], FOLLOWS)


FOLLOWS = """
FLOPs count the products of matrices, not the seconds: a recurrent net waits for each word before the next and so takes
longer for the same FLOPs. An ensemble costs its members' training and their time in every translation. So few pairs
are hard for the Transformer; with a few hundred the recurrent net makes no mistake and an ensemble adds nothing. What
the table shows comes from millions of pairs.
"""


def _lines(count: int, seed: int) -> list[tuple[str, str]]:
    return [(" ".join(phrase.source), " ".join(phrase.target)) for phrase in phrases(count, seed)]


def _trained(stage: Stage, name: str, seed: int) -> tuple[TranslationPipeline, Path]:
    kind, options, updates = MODELS[name]
    files = {
        part: {"tsv": stage.write_lines(f"{part}.tsv", ["\t".join(pair) for pair in _lines(count, number)])}
        for part, count, number in (("train", _PAIRS, 1), ("validation", _HELD, 2))
    }
    training = {"max_steps": updates, "tokens_per_batch": 512, "lr": 3e-3, "schedule": "constant", "warmup": 50}
    training |= {"betas": [0.9, 0.99], "eps": 1e-8, "clip": 1.0, "validate_every": _EVERY, "metric": "bleu"}
    recipe = {
        "task": "translation", "data": {**files, "tokenizer": {"kind": "space", "vocab_size": 500}},
        "model": {"name": kind, "options": options}, "training": {**training, "seed": seed},
        "evaluation": [{"name": "bleu", "beam": 1}],
    }  # fmt: skip
    folder = f"{kind}_{seed}"
    model = stage.train(folder, recipe)
    assert isinstance(model, TranslationPipeline)
    lines = [json.loads(line) for line in (stage.folder / folder / "log.jsonl").read_text("utf-8").splitlines()]
    whole = next(facts["training_flops"] for facts in lines if "training_flops" in facts)
    last = lines[-1]["step"]
    path = [(whole * facts["step"] / last, facts["validation_bleu"]) for facts in lines if "validation_bleu" in facts]
    return model, path


def _bleu(model: TranslationPipeline) -> float:
    """Of other unseen sentences than those that chose the best weights."""
    pairs = _lines(_HELD, 3)
    written = model.translate([source for source, _ in pairs], beam=1)
    return float(score(written, [target for _, target in pairs]).bleu)


def _spent(paths: dict[str, list[Path]]) -> dict[str, list[float | None]]:
    """The FLOPs that each seed takes to the best BLEU that all models of all seeds reach; None: not reached."""
    target = min(max(bleu for _, bleu in path) for runs in paths.values() for path in runs)
    return {
        name: [next((flops for flops, bleu in path if bleu >= target), None) for path in runs]
        for name, runs in paths.items()
    }


def _curves(paths: dict[str, list[Path]]) -> Curves:
    series = {
        name: [(mean(point[0] for point in row), mean(point[1] for point in row)) for row in zip(*runs, strict=True)]
        for name, runs in paths.items()
    }
    return Curves("BLEU by training FLOPs", "FLOPs", "BLEU, mean of the seeds", series, log_x=True)


def _table(
    paths: dict[str, list[Path]], sizes: dict[str, int], apart: dict[str, list[float]], together: dict[str, float]
) -> Table:
    rows: list[list[str | float | int | None]] = []
    for name in MODELS:
        flops, count = mean(path[-1][0] for path in paths[name]), len(apart[name])
        rows.append([name, sizes[name], flops, mean(apart[name]), spread(apart[name])])
        rows.append([f"{name}, {count} together", count * sizes[name], count * flops, together[name], None])
    columns = ["model", "parameters", "training FLOPs", "BLEU", "± BLEU"]
    return Table("Measured here", columns, rows, f"{_PAIRS} pairs of a small grammar, {_HELD} unseen sentences")


def _reached_table(spent: dict[str, list[float | None]]) -> Table:
    rows: list[list[str | float | int | None]] = []
    for name, values in spent.items():
        numbers = [value for value in values if value is not None]
        rows.append([name, mean(numbers), spread(numbers)])
    note = f"to the highest BLEU that every run reaches, in steps of {_EVERY} updates"
    return Table("FLOPs to equal BLEU", ["model", "FLOPs", "± FLOPs"], rows, note)


def _claim_of_cost(spent: dict[str, list[float | None]]) -> Claim:
    """It holds if the Transformer takes a tenth of the recurrent net's FLOPs to the same BLEU, or less; in part: less,
    by more than both standard deviations."""
    ours, others = ([value for value in spent[name] if value is not None] for name in (TRANSFORMER, RECURRENT))
    share = mean(ours) / mean(others)
    less = mean(others) - mean(ours) > spread(ours) + spread(others)
    verdict: Verdict = "holds" if share <= _TENTH else "holds in part" if less else "does not hold here"
    return Claim(
        "The Transformer reaches the same BLEU with a tenth of a recurrent net's training FLOPs or less.",
        verdict,
        f"To the same BLEU the Transformer takes {mean(ours):.2g} ± {spread(ours):.1g} FLOPs and the recurrent net "
        f"{mean(others):.2g} ± {spread(others):.1g}: {share:.2f} of it. Rule: 0.1 or less; in part: less by more than "
        "both standard deviations.",
    )


def _claim_of_ensembles(apart: dict[str, list[float]], together: dict[str, float]) -> Claim:
    """It holds if, for both kinds, the ensemble has more BLEU than the mean member by more than their standard
    deviation; in part: more than the mean member of one kind."""
    gains = {name: together[name] - mean(apart[name]) for name in MODELS}
    clear = sum(gains[name] > spread(apart[name]) for name in MODELS)
    verdict: Verdict = (
        "holds" if clear == len(MODELS) else "holds in part" if max(gains.values()) > 0 else "does not hold here"
    )
    told = "; ".join(
        f"{name} {mean(apart[name]):.1f} ± {spread(apart[name]):.1f} alone, {together[name]:.1f} together"
        for name in MODELS
    )
    return Claim(
        "Ensembles score higher than single models.",
        verdict,
        f"BLEU of {len(next(iter(apart.values())))} models: {told}. Rule: more than the mean member by more than the "
        "standard deviation, for both kinds; in part: more for one.",
    )
