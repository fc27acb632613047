"""Aligning: which source word a translation looks at, in a language where that is known."""

from __future__ import annotations

import math
from statistics import mean, stdev

from regard.pipelines.translation import TranslationPipeline
from regard.story import Claim, Stage, Told, Verdict
from regard.story.phrases import KINDS, Phrase, phrases
from regard.views.result import Matrix, Panel, Result, Table

NUMBER, TITLE = 5, "Aligning"
LECTURE = """
With attention each output word y_t has its own context, c_t = Σ α_{t,i} h_i, a mean of all encoder states. The
weights are a softmax of a score, a small net that is trained with the rest; nobody tells it which words belong
together. The matrix of weights explicitly shows the correlation between source and target words: diagonal attention
means words correspond in order, and "European Economic Area", "zone économique européenne" runs against the
diagonal. Here the grammar is small, so the right source word of every target word is known.
"""
COMMANDS = (
    "regard train recipes/multi30k_de_en_bahdanau.yaml",
    'regard align out/multi30k_de_en_bahdanau "Ein Mann schläft auf einer grünen Couch" --out alignment.svg',
)
SHOWN = Phrase(
    ["the", "young", "honest", "king", "sees", "a", "huge", "wild", "cow"],
    ["le", "roi", "honnête", "jeune", "voit", "une", "vache", "sauvage", "énorme"],
    [0, 3, 2, 1, 4, 5, 8, 7, 6],
    ["article", "noun", "adjective", "adjective", "verb", "article", "noun", "adjective", "adjective"],
)
_TRAIN, _HELD, _UPDATES = 6000, 200, 500
_OPTIONS = {"attention": "bahdanau", "cell": "gru", "d_embedding": 32, "d_hidden": 64, "dropout": 0.2}
Seen = dict[str, list[tuple[bool, bool, float]]]
"""By kind of target word: is the largest weight on the right word, would the diagonal be, and the entropy."""


def run(stage: Stage) -> Told:
    held = phrases(_HELD, seed=2)
    models = [_aligner(stage, seed) for seed in stage.seeds]
    seen = [_seen(model, held) for model in models]
    exact = [mean(got == " ".join(phrase.target) for got, phrase in zip(_written(model, held), held, strict=True))
             for model in models]  # fmt: skip
    right, diagonal, entropy = (_scores(seen, place) for place in range(3))
    rows: list[list[str | float | int | None]] = [
        [kind, *_spread(right[kind]), mean(diagonal[kind]), *_spread(entropy[kind])] for kind in right
    ]
    columns = ["target word", "right", "sd", "diagonal right", "entropy in bits", "sd of entropy"]
    note = f"{len(stage.seeds)} seeds, {_HELD} sentences held out; right: the largest weight is on the right word"
    shown = models[0].align(" ".join(SHOWN.source), " ".join(SHOWN.target))
    whole: list[list[str | float | int | None]] = [["translated without an error", *_spread(exact)]]
    panels: list[Panel] = [
        Matrix("Weights of an aligner", shown.target, shown.source, shown.matrix(), note="a row: a target word"),
        Table("Right words and softness", columns, rows, note),
        Table("Sentences", ["share", "mean of the seeds", "sd"], whole, f"{_HELD} sentences held out"),
    ]
    statements = [
        f"The largest weight is on the right word for {mean(right['all']):.1%} of the words; the word at the "
        f"same place is right for {mean(diagonal['all']):.1%}.",
        f"The weights have an entropy of {mean(entropy['all']):.2f} bits.",
    ]
    result = Result("story", "Which English word each French word looks at", panels, statements)
    return Told(result, [_aligned(right, diagonal), _soft(entropy)], FOLLOWS)


FOLLOWS = """
Nothing but translations was given, and the order of the words came out as a matrix. The score that makes the weights
was a small net here. There are cheaper ones, and ones that look at a part of the source only: the next step compares
them.
"""


def _aligner(stage: Stage, seed: int) -> TranslationPipeline:
    lines = [f"{' '.join(phrase.source)}\t{' '.join(phrase.target)}" for phrase in phrases(_TRAIN, seed=1)]
    tokenizer = {"kind": "space", "vocab_size": 200, "joint": False}
    data = {"train": {"tsv": stage.write_lines("train.tsv", lines)}, "tokenizer": tokenizer}
    training = {"seed": seed, "max_steps": _UPDATES, "tokens_per_batch": 512, "lr": 3e-3, "schedule": "cosine"}
    training |= {"warmup": 50, "label_smoothing": 0.0, "clip": 1.0}
    model = {"name": "seq2seq", "options": _OPTIONS}
    trained = stage.train(
        f"aligner_{seed}", {"task": "translation", "data": data, "model": model, "training": training}
    )
    assert isinstance(trained, TranslationPipeline)
    return trained


def _written(model: TranslationPipeline, held: list[Phrase]) -> list[str]:
    return model.translate([" ".join(phrase.source) for phrase in held], beam=1)


def _seen(model: TranslationPipeline, held: list[Phrase]) -> Seen:
    found: Seen = {kind: [] for kind in (*KINDS, "all")}
    for phrase in held:
        weights = model.align(" ".join(phrase.source), " ".join(phrase.target)).matrix()
        for place, (link, kind) in enumerate(zip(phrase.links, phrase.kinds, strict=True)):
            row = weights[place]
            bits = -sum(weight * math.log2(weight) for weight in row if weight > 0)
            for name in (kind, "all"):
                found[name].append((row.index(max(row)) == link, place == link, bits))
    return found


def _scores(seen: list[Seen], place: int) -> dict[str, list[float]]:
    """By kind of word: a mean for each seed."""
    return {kind: [mean(float(one[place]) for one in own[kind]) for own in seen] for kind in seen[0]}


def _spread(values: list[float]) -> tuple[float, float | None]:
    return mean(values), stdev(values) if len(values) > 1 else None


def _aligned(right: dict[str, list[float]], diagonal: dict[str, list[float]]) -> Claim:
    """It holds from 90 % on, and in part if the weights are right more often than the diagonal."""
    share, straight = mean(right["all"]), mean(diagonal["all"])
    verdict: Verdict = "holds" if share >= 0.9 else "holds in part" if share > straight else "does not hold here"
    return Claim(
        "The matrix of alignment scores explicitly shows the correlation between source and target words.",
        verdict,
        f"The largest weight is on the right word for {share:.1%} of the target words ({min(right['all']):.1%} with "
        f"the worst seed): {mean(right['noun']):.1%} of nouns, {mean(right['adjective']):.1%} of adjectives, "
        f"{mean(right['article']):.1%} of articles. The diagonal has {straight:.1%}. Rule: 90 % or more in the mean "
        "of the seeds; in part: more than the diagonal.",
    )


def _soft(entropy: dict[str, list[float]]) -> Claim:
    """It holds if the weights are spread as over 1.5 words on average, and in part from 1.05 words on."""
    words = 2 ** mean(entropy["all"])
    verdict: Verdict = "holds" if words >= 1.5 else "holds in part" if words >= 1.05 else "does not hold here"
    return Claim(
        'Soft attention: the alignment weights are learned and placed "softly" over all of the source.',
        verdict,
        f"The entropy is {mean(entropy['all']):.2f} bits, as if {words:.2f} words shared the weight evenly; "
        f"articles, which need the noun's gender, have {mean(entropy['article']):.2f} bits, "
        f"nouns {mean(entropy['noun']):.2f}. Rule: 1.5 words or more; in part: 1.05 or more.",
    )
