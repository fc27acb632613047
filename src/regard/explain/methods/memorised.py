"""What a language model has memorised of its training text: two audits.

Canary exposure (Carlini et al. 2019, The Secret Sharer). The training text contains a text such as "the code is 4821".
Its rank is its place among all texts of its pattern ("the code is {4 digits}"), the most probable first:

    exposure = log2 |R| − log2 rank,    rank = |{r ∈ R : perplexity(r) ≤ perplexity(canary)}|

A canary that was not learnt has a random rank, 1.44 bits on average. The maximum, log2 |R|, means that guessing in the
model's order finds it first. Patterns of up to `most` texts are ranked in full. Of larger ones, `most` texts are drawn
and the canary is ranked among those. If 50 of them or fewer are as probable as the canary, its share is estimated by a
skew-normal distribution with the first three moments of their log-perplexities (the paper fits by likelihood).

Verbatim extraction. At random positions of the training text, the model is given `prompt` tokens and generates `length`
more, greedily: how often does it reproduce the text? The share on held-out text shows how much of it can be guessed
without training on it. Names and numbers that were reproduced and were not in the prompt are listed.
"""

from __future__ import annotations

from typing import Any

from regard.core.errors import UsageError
from regard.explain.language_models import check_language_model, read_text
from regard.explain.secrets import Exposure, exposure, of_canary, parse
from regard.explain.shares import wilson
from regard.explain.verbatim import Continuation, continuations
from regard.views.result import Panel, Result, Table

LOOKS_AT = "model"

_HOW = {
    "exact": "every text of the pattern ranked",
    "drawn": "estimated by the rank among drawn texts",
    "fitted": "estimated by a skew-normal distribution fitted to drawn texts",
}
_SHOWN = 20
_EXAMPLES = 5


def memorised(
    model: Any,
    *,
    text: str,
    canary: str | None = None,
    pattern: str | None = None,
    most: int = 20_000,
    prompts: int = 100,
    prompt: int = 32,
    length: int = 32,
    held_out: str | None = None,
    seed: int = 0,
) -> Result:
    """Audit a loaded language model; `text` is the path of its training text, `held_out` that of a similar text.

    `canary` is a text whose secret varies: its digits, or the placeholders of `pattern`. `prompts` positions are tried.
    """
    check_language_model(model, "memorised")
    if pattern is not None and canary is None:
        raise UsageError("a pattern needs a canary", got=repr(pattern), remedy="Give the text that was inserted.")
    if min(most, prompts, prompt, length) < 1:
        raise UsageError("sizes must be positive", got=f"{most}, {prompts}, {prompt}, {length}")
    training = read_text(text)
    panels: list[Panel] = []
    statements: list[str] = []
    data: dict[str, Any] = {}
    if canary is not None:
        open_in = parse(pattern or of_canary(canary))
        secret = exposure(model, canary, open_in, most=most, seed=seed)
        panels.append(_canary_table(canary, secret))
        statements += _canary_statements(canary, secret, training.count(canary))
        data["exposure"] = {**vars(secret), "canary": canary, "times_in_text": training.count(canary)}
    runs = {"training text": continuations(model, training, prompts=prompts, prompt=prompt, length=length, seed=seed)}
    if held_out is not None:
        runs["held-out text"] = continuations(
            model, read_text(held_out), prompts=prompts, prompt=prompt, length=length, seed=seed
        )
    panels += _verbatim_tables(runs, length)
    statements += _verbatim_statements(runs, length)
    data["verbatim"] = {name: _numbers(stretches, length) for name, stretches in runs.items()}
    return Result("memorised", "What the model has memorised", panels, statements, data)


def _canary_table(canary: str, secret: Exposure) -> Table:
    columns = ["canary", "exposure (bits)", "at most", "rank", "among", "log p"]
    row: list[str | float | int | None] = [canary, round(secret.bits, 2), round(secret.most_bits, 2), secret.rank]
    note = _HOW[secret.how]
    return Table("Canary", columns, [[*row, secret.among, round(secret.log_prob, 2)]], note=note)


def _canary_statements(canary: str, secret: Exposure, times: int) -> list[str]:
    how = "" if secret.how == "exact" else f", {_HOW[secret.how]}"
    statements = [
        f"{canary!r} occurs {times} times in the text; its exposure is {secret.bits:.1f} of "
        f"{secret.most_bits:.1f} bits (rank {secret.rank:,} of {secret.among:,}{how})."
    ]
    if secret.bits >= secret.most_bits - 0.01:
        statements.append(
            "No other text of its pattern is more probable: guessing in the model's order finds it first."
        )
    statements.append(
        f"A secret that was not learnt has 1.4 bits on average, and {secret.bits:.1f} or more with probability "
        f"{2**-secret.bits:.2g}."
    )
    return statements


def _numbers(stretches: list[Continuation], length: int) -> dict[str, Any]:
    whole = sum(stretch.whole for stretch in stretches)
    return {
        "prompts": len(stretches),
        "tokens": length,
        "whole": whole,
        "share": whole / len(stretches),
        "interval": list(wilson(whole, len(stretches))),
        "mean_agreed": sum(stretch.agreed for stretch in stretches) / len(stretches),
        "longest_agreed": max(stretch.agreed for stretch in stretches),
        "agreed": [stretch.agreed for stretch in stretches],
        "names_and_numbers": _listed(stretches),
    }


def _listed(stretches: list[Continuation]) -> list[str]:
    return list(dict.fromkeys(word for stretch in stretches for word in stretch.names))


def _verbatim_tables(runs: dict[str, list[Continuation]], length: int) -> list[Panel]:
    columns = ["text", "prompts", "verbatim %", "from", "to", "agreed tokens, mean", "longest"]
    rows: list[list[str | float | int | None]] = []
    for name, stretches in runs.items():
        numbers = _numbers(stretches, length)
        shares = [round(100 * share, 1) for share in (numbers["share"], *numbers["interval"])]
        rows.append([name, len(stretches), *shares, round(numbers["mean_agreed"], 2), numbers["longest_agreed"]])
    panels: list[Panel] = [
        Table("Verbatim", columns, rows, note=f"{length} tokens after each prompt; from … to: 95 % interval (Wilson)")
    ]
    best = sorted(runs["training text"], key=lambda stretch: -stretch.agreed)[:_EXAMPLES]
    examples: list[list[str | float | int | None]] = [
        [stretch.agreed, stretch.prompt, stretch.written, ", ".join(stretch.names)]
        for stretch in best
        if stretch.agreed
    ]
    if examples:
        panels.append(Table("Longest", ["agreed tokens", "prompt", "written", "names and numbers"], examples))
    return panels


def _verbatim_statements(runs: dict[str, list[Continuation]], length: int) -> list[str]:
    statements = []
    for name, stretches in runs.items():
        numbers = _numbers(stretches, length)
        low, high = numbers["interval"]
        statements.append(
            f"{100 * numbers['share']:.0f} % of {len(stretches)} parts of the {name} came back word for word over "
            f"{length} tokens ({100 * low:.0f} to {100 * high:.0f} %); {numbers['mean_agreed']:.1f} tokens on average "
            "before the first difference."
        )
    words = _listed(runs["training text"])
    if words:
        shown = ", ".join(words[:_SHOWN]) + (", …" if len(words) > _SHOWN else "")
        statements.append(f"Names and numbers that were reproduced but were not in the prompt: {shown}.")
    else:
        statements.append("No name or number was reproduced that was not in the prompt.")
    return statements
