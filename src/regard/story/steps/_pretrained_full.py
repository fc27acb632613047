"""The same word in two sentences, by layer, in the BERT that a recipe trained."""

from __future__ import annotations

from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.explain import trace
from regard.pipelines import Loaded
from regard.story import Claim, Stage, Told, Verdict
from regard.story.steps._contextual import KINDS
from regard.views.result import Curves, Result, Table

MODEL = "bert_mini"
SENTENCES = {
    "bank": (
        ("he took the money to the bank", "she has a loan from the bank", "the company owes the bank a million dollars",
         "the bank was closed after the financial crisis"),
        ("the boat lay on the bank of the river", "trees grow along the bank of the stream",
         "the army camped on the eastern bank of the river", "the river flooded its bank in the spring"),
    ),
    "match": (
        ("he scored twice in the final match", "the team won the match by two goals", "the match ended in a draw",
         "she lost the match in the third round"),
        ("he lit the lamp with a match", "she struck a match in the dark", "the fire was started with a match",
         "a burning match fell on the floor"),
    ),
    "season": (
        ("the team finished the season in third place", "he played every game of the season",
         "the first episode of the season was watched by millions", "she signed for the club after the season"),
        ("the storm season begins in june", "the rainy season lasts for five months",
         "the birds breed in the dry season", "the season of storms ended in november"),
    ),
}  # fmt: skip


def told(stage: Stage, follows: str) -> Told:
    model = stage.recipe_model(MODEL)
    means, changed = _cosines(model)
    layers = range(len(means[KINDS[0]]))
    rows: list[list[str | float | int | None]] = [[layer, *(means[kind][layer] for kind in KINDS)] for layer in layers]
    result = Result(
        "story",
        "The same word in two sentences, in a BERT trained on Wikipedia, news and film reviews",
        [Curves("Cosine by layer", "layer", "cosine", {
            kind: [(float(layer), value) for layer, value in enumerate(values)] for kind, values in means.items()}),
         Table("Cosine", ["layer", *KINDS], rows, f"{len(SENTENCES)} words; layer 0 has word and place")],
        [f"Last layer: cosine {means[KINDS[0]][-1]:.2f} in one sense, {means[KINDS[1]][-1]:.2f} in two."],
        {"cosines": means, "change by the last word": changed},
    )  # fmt: skip
    same, other = (means[kind][-1] for kind in KINDS)
    whole = changed > 0 and other < means[KINDS[1]][0]
    verdict: Verdict = "holds" if whole and same > other else "holds in part" if whole else "does not hold here"
    claim = Claim(
        "BERT's word representations are functions of the entire input sentence.",
        verdict,
        f"From layer 0 to the last the cosine of a word with itself goes from {means[KINDS[0]][0]:.3f} to {same:.3f} "
        f"in one sense, from {means[KINDS[1]][0]:.3f} to {other:.3f} in two; another last word of the sentence changes "
        f"the vector by {changed:.2g} at least. Rule: a change by the last word, a lower cosine at the end than at the "
        "start, and one sense closer than two; in part: the first two. One training, so without a spread.",
    )
    return Told(result, [claim], follows)


def _cosines(model: Loaded) -> tuple[dict[str, list[float]], float]:
    """The mean cosine by kind of pair and layer; and the smallest change of a vector if the last word is replaced."""
    by_kind: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
    changes = []
    for word, senses in SENTENCES.items():
        unit = [(sense, F.normalize(vectors(model, text, word), dim=-1)) for sense in (0, 1) for text in senses[sense]]
        for (first, left), (second, right) in combinations(unit, 2):
            by_kind[KINDS[first != second]].append((left * right).sum(-1))
        for text in senses[0]:
            rest = text.rsplit(" ", 1)[0]
            if word in rest.split():
                both = [vectors(model, f"{rest} {last}", word)[-1] for last in ("today", "again")]
                changes.append(float((both[0] - both[1]).abs().max()))
    return {kind: torch.stack(rows).mean(0).tolist() for kind, rows in by_kind.items()}, min(changes)


def vectors(model: Loaded, text: str, word: str) -> Tensor:
    """The word's vector in every layer [L,D], the mean of its pieces; layer 0 is the input."""
    before = text.split()[: text.split().index(word)]
    first, last = (len(model.tokenizer.encode_batch([" ".join(part)])[0]) for part in (before, [*before, word]))
    record = trace(model, [text], weights=False)
    return torch.stack([states[0, 1 + first : 1 + last].mean(0) for states in record.hidden.values()]).double()
