"""What a language model has memorised of its training text: two audits.

Canary exposure (Carlini et al. 2019, The Secret Sharer). A text such as "the code is 4821" stands in the training text.
Its rank is its place among all texts of its pattern ("the code is {4 digits}"), the most probable first:

    exposure = log2 |R| − log2 rank,    rank = |{r ∈ R : perplexity(r) ≤ perplexity(canary)}|

A canary that was not learnt takes any rank, 1.44 bits on average; the most that there is, log2 |R|, means that guessing
in the model's order finds it first. Patterns of up to `most` texts are ranked in full. Of larger ones `most` are drawn
and the rank among those is taken; where 50 of them or fewer are as probable as the canary, a skew-normal distribution
with the first three moments of their log-perplexities says which share of all is (the paper fits by likelihood).

Verbatim extraction. From random places of the training text, the first `prompt` tokens are given and the model writes
`length` more, each time the most probable one: how often is that the text itself? A share on held-out text says how
much of it anyone could have guessed. What came back and reads like a name or a number, and was not in the prompt, is
listed.
"""

from __future__ import annotations

from typing import Any

from regard.core.errors import UsageError
from regard.explain._plain_text import check_writes, read
from regard.explain._secrets import Exposure, exposure, of_canary, parse
from regard.explain._shares import wilson
from regard.explain._verbatim import Continuation, continuations
from regard.views.result import Panel, Result, Table

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
    """Audit a loaded language model; `text` is the path of its training text, `held_out` of one like it.

    `canary` is a text whose secret is open: its digits, or the holes of `pattern`. `prompts` places are continued.
    """
    check_writes(model, "memorised")
    if pattern is not None and canary is None:
        raise UsageError("a pattern needs a canary", got=repr(pattern), remedy="Give the text that was inserted.")
    if min(most, prompts, prompt, length) < 1:
        raise UsageError("sizes must be positive", got=f"{most}, {prompts}, {prompt}, {length}")
    training = read(text)
    panels: list[Panel] = []
    said: list[str] = []
    data: dict[str, Any] = {}
    if canary is not None:
        open_in = parse(pattern or of_canary(canary))
        found = exposure(model, canary, open_in, most=most, seed=seed)
        panels.append(_canary_table(canary, found))
        said += _canary_said(canary, found, training.count(canary))
        data["exposure"] = {**vars(found), "canary": canary, "times_in_text": training.count(canary)}
    runs = {"training text": continuations(model, training, prompts=prompts, prompt=prompt, length=length, seed=seed)}
    if held_out is not None:
        runs["held-out text"] = continuations(
            model, read(held_out), prompts=prompts, prompt=prompt, length=length, seed=seed
        )
    panels += _verbatim_tables(runs, length)
    said += _verbatim_said(runs, length)
    data["verbatim"] = {name: _numbers(found, length) for name, found in runs.items()}
    return Result("memorised", "What the model has memorised", panels, said, data)


def _canary_table(canary: str, found: Exposure) -> Table:
    columns = ["canary", "exposure (bits)", "at most", "rank", "among", "log p"]
    row: list[str | float | int | None] = [canary, round(found.bits, 2), round(found.most_bits, 2), found.rank]
    note = _HOW[found.how]
    return Table("Canary", columns, [[*row, found.among, round(found.log_prob, 2)]], note=note)


def _canary_said(canary: str, found: Exposure, times: int) -> list[str]:
    how = "" if found.how == "exact" else f", {_HOW[found.how]}"
    said = [
        f"{canary!r} stands {times} times in the text; its exposure is {found.bits:.1f} of {found.most_bits:.1f} bits "
        f"(rank {found.rank:,} of {found.among:,}{how})."
    ]
    if found.bits >= found.most_bits - 0.01:
        said.append("No other text of its pattern is more probable: guessing in the model's order finds it first.")
    said.append(
        f"A secret that was not learnt has 1.4 bits on average, and {found.bits:.1f} or more with probability "
        f"{2**-found.bits:.2g}."
    )
    return said


def _numbers(found: list[Continuation], length: int) -> dict[str, Any]:
    whole = sum(one.whole for one in found)
    return {
        "prompts": len(found),
        "tokens": length,
        "whole": whole,
        "share": whole / len(found),
        "interval": list(wilson(whole, len(found))),
        "mean_agreed": sum(one.agreed for one in found) / len(found),
        "longest_agreed": max(one.agreed for one in found),
        "agreed": [one.agreed for one in found],
        "names_and_numbers": _listed(found),
    }


def _listed(found: list[Continuation]) -> list[str]:
    return list(dict.fromkeys(word for one in found for word in one.found))


def _verbatim_tables(runs: dict[str, list[Continuation]], length: int) -> list[Panel]:
    columns = ["text", "prompts", "verbatim %", "from", "to", "agreed tokens, mean", "longest"]
    rows: list[list[str | float | int | None]] = []
    for name, found in runs.items():
        numbers = _numbers(found, length)
        shares = [round(100 * share, 1) for share in (numbers["share"], *numbers["interval"])]
        rows.append([name, len(found), *shares, round(numbers["mean_agreed"], 2), numbers["longest_agreed"]])
    panels: list[Panel] = [
        Table("Verbatim", columns, rows, note=f"{length} tokens after each prompt; from … to: 95 % interval (Wilson)")
    ]
    best = sorted(runs["training text"], key=lambda one: -one.agreed)[:_EXAMPLES]
    examples: list[list[str | float | int | None]] = [
        [one.agreed, one.prompt, one.written, ", ".join(one.found)] for one in best if one.agreed
    ]
    if examples:
        panels.append(Table("Longest", ["agreed tokens", "prompt", "written", "names and numbers"], examples))
    return panels


def _verbatim_said(runs: dict[str, list[Continuation]], length: int) -> list[str]:
    said = []
    for name, found in runs.items():
        numbers = _numbers(found, length)
        low, high = numbers["interval"]
        said.append(
            f"{100 * numbers['share']:.0f} % of {len(found)} stretches of the {name} came back word for word over "
            f"{length} tokens ({100 * low:.0f} to {100 * high:.0f} %); {numbers['mean_agreed']:.1f} tokens on average "
            "before the first difference."
        )
    words = _listed(runs["training text"])
    if words:
        shown = ", ".join(words[:_SHOWN]) + (", …" if len(words) > _SHOWN else "")
        said.append(f"Names and numbers that came back though they were not in the prompt: {shown}.")
    else:
        said.append("No name or number came back that was not in the prompt.")
    return said
