"""Gradients by distance in the trained LSTM of a recipe, on real text."""

from __future__ import annotations

from statistics import mean

from regard.core.lines import read_lines
from regard.core.paths import expand_path
from regard.explain import trace
from regard.explain.methods.gradients import compare
from regard.story import Claim, Stage, Told, Verdict
from regard.views.result import Curves, Result, Table

MODEL = "ptb_lstm"
_TEXT = "$REGARD_DATA/ptb/ptb.test.txt.gz"
_WORDS, _FAR = 60, 20
_GONE, _WEAK = 0.01, 0.1


def told(stage: Stage, follows: str) -> Told:
    model = stage.recipe_model(MODEL)
    words = [word for line in read_lines(expand_path(_TEXT)) for word in line.split()]
    curves, factors, kept = dict[str, list[tuple[float, float]]](), list[float](), list[float]()
    for number in range(3):
        text = " ".join(words[number * _WORDS : (number + 1) * _WORDS])
        flow = compare({MODEL: trace(model, text, weights=False)}, probes=48).data[MODEL]
        points = dict(zip(flow["distance"], flow["norm"], strict=True))
        curves[f"passage {number + 1}"] = [(float(distance), norm) for distance, norm in points.items()]
        factors.append(flow["factor"])
        kept.append(points[_FAR] / points[1])
    rows: list[list[str | float | int | None]] = [
        [name, factor, share] for name, factor, share in zip(curves, factors, kept, strict=True)
    ]
    columns = ["text", "factor per step", f"left after {_FAR} words"]
    result = Result(
        "story",
        "How the gradient of a trained LSTM changes with the distance to a word",
        [Curves("Gradient by distance", "distance t − s", "‖∂h_t/∂x_s‖", curves, log_y=True),
         Table("Factor per step", columns, rows, f"{MODEL}: {_WORDS} words each of the Penn Treebank's test text")],
        [f"{mean(factors):.3f} a step; after {_FAR} words {mean(kept):.2%} of the gradient at one word is left."],
        {"factors": factors, "kept": kept},
    )  # fmt: skip
    worst = max(kept)
    verdict: Verdict = "holds" if worst < _GONE else "holds in part" if worst < _WEAK else "does not hold here"
    claim = Claim(
        "Recurrent nets suffer from the vanishing gradient (here: an LSTM that was trained on text).",
        verdict,
        f"After {_FAR} words {', '.join(f'{share:.2%}' for share in kept)} of the gradient at one word is left in the "
        f"three passages. Rule: less than {_GONE:.0%} in each; in part: less than {_WEAK:.0%}.",
    )
    return Told(result, [claim], follows)
