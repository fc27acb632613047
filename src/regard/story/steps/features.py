"""Fixed-size features: what a bag of words knows, and what it cannot, because it has no order."""

from __future__ import annotations

import random
from statistics import mean, stdev
from typing import Any

from regard.story import Claim, Stage, Told, Verdict
from regard.views.result import Matrix, Panel, Result, Table

NUMBER, TITLE = 1, "Fixed-size features"
LECTURE = """
A classifier wants a vector of a fixed size, and a text has any number of words. The oldest way out is to count: one
feature for each word of the vocabulary, or a few chosen by hand. The problems with fixed-size representations: they
lose important contextual information, and they are order invariant. "The dog bites the man" and "the man bites the
dog" have the same counts. Sequence models come to the rescue. Here the same sentences are classified twice: by what
is done, which a word tells, and by who does it, which only the order tells.
"""
COMMANDS = ("regard train recipes/sst2_bow.yaml", "regard train recipes/sst2_dan.yaml")
_PEOPLE = ("man", "woman", "child", "teacher", "doctor", "farmer", "king", "singer")
_ANIMALS = ("dog", "cat", "horse", "bird", "cow", "fox", "mouse", "lion")
_KIND, _UNKIND = ("likes", "feeds", "follows", "helps"), ("bites", "chases", "scares", "hits")
_PLACES = ("in the house", "near the river", "on the hill", "at the market")
LECTURED = ("john likes to watch movies mary likes movies too", "mary also likes to watch football games")
SLIDE = ((0, 0, 0, 1, 2, 1, 2, 1, 2, 1), (1, 1, 1, 0, 1, 1, 0, 0, 0, 0))
"""The counts as the lecture prints them, the words in alphabetical order."""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bag of words": ("bow", {"features": "counts", "hidden": []}),
    "bag of words, a hidden layer": ("bow", {"features": "counts", "hidden": [32]}),
    "deep averaging": ("dan", {"d_embedding": 32, "hidden": [32, 32], "word_dropout": 0.0}),
    "recurrent (GRU)": ("rnn", {"cell": "gru", "d_embedding": 32, "d_hidden": 32, "n_layers": 1}),
}
_BAGS = tuple(MODELS)[:3]
TASKS = ("what is done", "who does it")
_TRAIN, _HELD = 1000, 250
Scores = dict[str, dict[str, list[float]]]


def run(stage: Stage) -> Told:
    scores: Scores = {name: {} for name in MODELS}
    train = twins(_TRAIN, seed=1)
    parts = {"train": train, "validation": [pair for pair in twins(_HELD, seed=2) if pair not in train]}
    for place, task in enumerate(TASKS):
        files = {}
        for part, pairs in parts.items():
            lines = [f"{text}\t{labels[place]}" for text, labels in pairs]
            files[part] = {"file": stage.write_lines(f"{part}_{place}.tsv", lines)}
        for number, (name, (kind, options)) in enumerate(MODELS.items()):
            for seed in stage.seeds:
                folder = f"{kind}_{number}_{place}_{seed}"
                stage.train(folder, _recipe(files, {"name": kind, "options": options}, seed))
                scores[name].setdefault(task, []).append(stage.validated(folder)["accuracy"])
    rows: list[list[str | float | int | None]] = [
        [name, *(cell for task in TASKS for cell in _spread(own[task]))] for name, own in scores.items()
    ]
    columns = ["model", TASKS[0], "sd", TASKS[1], "sd of it"]
    note = f"accuracy, {len(stage.seeds)} seeds, {len(train)} sentences to learn from, "
    note += f"{len(parts['validation'])} others held out"
    words, counts = counted(LECTURED)
    labels = [f"x_{number}" for number in range(1, len(counts) + 1)]
    panels: list[Panel] = [
        Matrix("The lecture's two texts, counted", labels, words, counts),
        Table("Accuracy", columns, rows, note),
    ]
    statements = [
        f"{name}: {mean(own[TASKS[0]]):.1%} for what is done, {mean(own[TASKS[1]]):.1%} for who does it."
        for name, own in scores.items()
    ]
    result = Result("story", "What counts of words tell", panels, [*statements, _compared(words, counts)])
    return Told(result, [_claim(scores)], FOLLOWS)


FOLLOWS = """
No training gives a bag of words an order: both sentences are the same vector to it. The least that order can mean is
which word follows which. That can be counted too, as the next step does.
"""


def twins(count: int, seed: int) -> list[tuple[str, tuple[str, str]]]:
    """`count` sentences, and the same with the two nouns exchanged; each with its labels for both tasks."""
    dice, made = random.Random(seed), list[tuple[str, tuple[str, str]]]()
    for _ in range(count):
        person, animal = f"the {dice.choice(_PEOPLE)}", f"the {dice.choice(_ANIMALS)}"
        verb, place = dice.choice(_KIND + _UNKIND), dice.choice(_PLACES)
        done = "kind" if verb in _KIND else "unkind"
        made.append((f"{place} {person} {verb} {animal}", (done, "person")))
        made.append((f"{place} {animal} {verb} {person}", (done, "animal")))
    return made


def counted(texts: tuple[str, ...]) -> tuple[list[str], list[list[float]]]:
    """All words in alphabetical order, and how often each text has each."""
    words = sorted({word for text in texts for word in text.split()})
    return words, [[float(text.split().count(word)) for word in words] for text in texts]


def _compared(words: list[str], counts: list[list[float]]) -> str:
    """Where the lecture's own table of counts differs."""
    odd = [
        f"{word} in x_{row + 1} ({SLIDE[row][place]}, here {counts[row][place]:.0f})"
        for row in range(len(counts))
        for place, word in enumerate(words)
        if SLIDE[row][place] != counts[row][place]
    ]
    return f"The lecture prints other counts for {', '.join(odd)}." if odd else "The counts are those of the lecture."


def _recipe(files: dict[str, Any], model: dict[str, Any], seed: int) -> dict[str, Any]:
    data = {**files, "tokenizer": {"kind": "space", "vocab_size": 100}, "max_len": 32, "metrics": ["accuracy"]}
    training = {"seed": seed, "max_epochs": 6, "tokens_per_batch": 512, "lr": 1e-2, "schedule": "linear"}
    return {"task": "classification", "data": data, "model": model, "training": training | {"warmup": 10}}


def _spread(values: list[float]) -> tuple[float, float | None]:
    return mean(values), stdev(values) if len(values) > 1 else None


def _claim(scores: Scores) -> Claim:
    """It holds if all bags tell what is done but guess who does it, and the recurrent net tells both; in part if the
    recurrent net is ahead of every bag by ten points where order decides."""
    what, who = ({name: mean(own[task]) for name, own in scores.items()} for task in TASKS)
    net, best = "recurrent (GRU)", max(who[name] for name in _BAGS)
    told = min(what.values()) >= 0.9 and who[net] >= 0.9
    verdict: Verdict = (
        "holds" if told and best <= 0.6 else "holds in part" if who[net] > best + 0.1 else "does not hold here"
    )
    return Claim(
        "Problems with fixed-size representations: loss of important contextual information; order invariant.",
        verdict,
        f"Where a word decides, bags of words are right in {min(what[name] for name in _BAGS):.1%} at least; where "
        f"order decides, in {best:.1%} at best, and the recurrent net in {who[net]:.1%}. Rule: 90 % or more for what "
        "is done, at most 60 % for who does it, where the recurrent net has 90 %.",
    )
