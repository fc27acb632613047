"""The bottleneck in real translations: BLEU by the length of the source, of models that the recipes trained."""

from __future__ import annotations

from regard.core.lines import read_lines
from regard.core.paths import expand_path
from regard.evaluation.text_scores import score
from regard.pipelines.translation import TranslationPipeline
from regard.story import Claim, Stage, Told, Verdict
from regard.views.result import Curves, Result, Table

ONE, BAHDANAU = "one context vector, de → en", "Bahdanau, de → en"
MODELS = {
    ONE: ("multi30k_none", "de", "en",
          "regard train recipes/multi30k_de_en_bahdanau.yaml --model.options.attention none --out out/multi30k_none"),
    BAHDANAU: ("multi30k_de_en_bahdanau", "de", "en", ""),
    "Transformer, en → de": ("multi30k_en_de", "en", "de", ""),
}  # fmt: skip
SPANS = ((1, 8), (9, 11), (12, 15), (16, 99))
_TEST = "$REGARD_DATA/multi30k/test_2016_flickr.{}.gz"
_MORE, _SHARE = 5.0, 0.3

Scores = dict[str, list[float]]
"""BLEU of each model, by span."""


def told(stage: Stage, follows: str) -> Told:
    scores, counts = Scores(), dict[str, list[int]]()
    for name, (folder, source, target, command) in MODELS.items():
        model = stage.recipe_model(folder, command)
        assert isinstance(model, TranslationPipeline)
        texts, references = (list(read_lines(expand_path(_TEST.format(side)))) for side in (source, target))
        written = model.translate(texts)
        for low, high in SPANS:
            rows = [row for row, text in enumerate(texts) if low <= len(text.split()) <= high]
            counts.setdefault(name, []).append(len(rows))
            scored = score([written[row] for row in rows], [references[row] for row in rows])
            scores.setdefault(name, []).append(scored.bleu)
    return Told(_result(scores, counts), [_claim(scores)], follows)


def _result(scores: Scores, counts: dict[str, list[int]]) -> Result:
    series = {
        name: [(float(low), bleu) for (low, _), bleu in zip(SPANS, values, strict=True)]
        for name, values in scores.items()
    }
    rows: list[list[str | float | int | None]] = [
        [name, f"{low}–{high}", count, bleu]
        for name, values in scores.items()
        for (low, high), count, bleu in zip(SPANS, counts[name], values, strict=True)
    ]
    return Result(
        "story",
        "BLEU by the length of the source, Multi30k",
        [Curves("BLEU by length", "words in the source, from", "BLEU", series),
         Table("By length", ["model", "words in the source", "sentences", "BLEU"], rows, "test_2016_flickr")],
        [f"{name}: BLEU {values[0]:.1f} for sources of {SPANS[0][1]} words or fewer, {values[-1]:.1f} from "
         f"{SPANS[-1][0]} on." for name, values in scores.items()],
        {"scores": scores},
    )  # fmt: skip


def _claim(scores: Scores) -> Claim:
    """It holds if, from the shortest to the longest sources, one context vector loses 30 % of its BLEU and 5 points
    more than Bahdanau's model; in part: it loses more."""
    lost = {name: values[0] - values[-1] for name, values in scores.items()}
    holds = lost[ONE] > _SHARE * scores[ONE][0] and lost[ONE] > lost[BAHDANAU] + _MORE
    verdict: Verdict = "holds" if holds else "holds in part" if lost[ONE] > lost[BAHDANAU] else "does not hold here"
    numbers = "; ".join(f"{name}: {values[0]:.1f} and {values[-1]:.1f}" for name, values in scores.items())
    return Claim(
        "The performance of the encoder-decoder degrades rapidly as the length of the input sentence increases.",
        verdict,
        f"BLEU of the shortest and of the longest sources: {numbers}. Rule: 30 % of it lost, and 5 points more than "
        "with Bahdanau's attention; in part: more than with it. One training each, so without a spread.",
    )
