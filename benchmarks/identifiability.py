"""Identifiability (Brunner et al. 2020) on real weights: attention, tokens, and where states come from.

    python benchmarks/identifiability.py --minilm FOLDER --stories FILE --translator FOLDER [--only PART …]
                                         [--work FOLDER] [--out docs]

PART is the beginning of a part's name: effective, identify, attribute, or one of them for one model, as
effective-minilm. A part stores its numbers as JSON in --work; the tables and figures of docs/identifiability.md are
written from whatever is stored there, so parts can be run one at a time (`--only page`: write, measure nothing).

Texts: MRPC and multi30k (REGARD_DATA), and stories that the small model itself tells. Nothing here is trained but the
maps of token identifiability. Seeds are fixed; the sizes below say how much is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import _identifiability_page as page
import torch
from _identifiability_texts import SEED, joined, mrpc, sizes, story_sentences, told
from torch import Tensor

import regard
from regard import api
from regard.explain.methods.attribute import attributed
from regard.explain.methods.effective import correlation, effective_weights

SINGLE, PAIRS, JOINED, TARGETS = 120, 60, 10, (96, 128, 192, 256)  # texts for effective attention (MiniLM)
PREFIXES = (16, 32, 48, 56, 64, 80, 96, 128, 160, 192, 224, 256)
CAPTIONS = {1: 120, 2: 40, 4: 20, 8: 10}  # captions joined to one text: how many such texts
SENTENCES, TEST, EPOCHS = 400, 0.15, 30  # for token identifiability
LOOKED, LONGEST, PROBES = 20, 30, 32  # sentences, tokens and probes for attribution
MARKS = {"minilm": ("[CLS]", "[SEP]", "."), "stories": ("<s>", "."), "translator": ("<s>", "</s>", ".")}
NEEDED = {"minilm": "glue/MRPC", "translator": "multi30k"}


# ---------------------------------------------------------------------------------------------- effective attention


def shares(raw: Tensor, part: Tensor, norms: Tensor, keys: Tensor) -> dict[str, float | None]:
    """How much falls on some keys [K]: of maps [H,Q,K] and of weights times the norms of T's rows; means over heads.

    raw         Σ A over these keys, of Σ A over all             effective   the same of |A⊥|
    null        the same of |A∥|, the part that is not seen      reach       the same of A·‖T_k‖
    left        Σ A⊥ over these keys with its signs, of Σ A over all
    """

    def of(values: Tensor) -> Tensor:
        return values[..., keys].sum((1, 2)) / values.sum((1, 2)).clamp_min(1e-30)

    null = raw - part
    hidden = bool(null.abs().amax() > 1e-5)
    return {
        "raw": float(of(raw).mean()),
        "effective": float(of(part.abs()).mean()),
        "null": float(of(null.abs()).mean()) if hidden else None,
        "reach": float(of(raw * norms.unsqueeze(1)).mean()),
        "left": float((part[..., keys].sum((1, 2)) / raw.sum((1, 2))).mean()),
        "keys": float(keys.float().mean()),
    }


def decomposed(trace: Any) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Of every site A⊥, the null space's dimensions, and what A⊥ would be if T were random numbers."""
    found = {}
    for name, site in trace.sites.items():
        noise = torch.randn(site.path.shape, generator=torch.Generator().manual_seed(SEED))
        other = replace(trace, sites={name: replace(site, path=noise)})
        found[name] = (*effective_weights(trace, name), effective_weights(other, name)[0])
    return found


def compared(
    trace: Any, marks: tuple[str, ...], maps: dict[str, tuple[Tensor, Tensor, Tensor]], first: int | None = None
) -> list[dict[str, Any]]:
    """Raw against effective attention (`maps`) at every site of one text; or of its first tokens, if it is causal."""
    found = []
    for name, site in trace.sites.items():
        part, noise = (maps[name][place][:, :first, :first] for place in (0, 2))
        null = maps[name][1][:, :first]
        raw = trace.heads(name)[:, :first, :first]
        labels = trace.labels(site.keys)[:first]
        of = {mark: torch.tensor([label == mark for label in labels]) for mark in marks}
        of["others"] = others = ~torch.stack(list(of.values())).any(0)
        norms = site.path[0, :, : len(labels)].norm(dim=-1)
        found.append(
            {
                "site": name,
                "keys": len(labels),
                "width": site.path.shape[-1],
                "r": float(correlation(raw, part).mean()),
                "r_random": float(correlation(raw, noise).mean()),
                "r_others": float(correlation(raw[..., others], part[..., others]).mean()),
                "r_random_others": float(correlation(raw[..., others], noise[..., others]).mean()),
                "null": float(null.float().mean()),
                "most_null": int(null.max()),
                "norm": float((part.flatten(1).norm(dim=1) / raw.flatten(1).norm(dim=1)).mean()),
                "negative": float((part < -1e-6).any(-1).float().mean()),
                "marks": {mark: shares(raw, part, norms, keys) for mark, keys in of.items() if bool(keys.any())},
            }
        )
    return found


def looked(model: Any, marks: tuple[str, ...], source: str, target: str | None = None) -> list[dict[str, Any]]:
    trace = regard.trace(model, source, target, hidden=False, value_path=True)
    return compared(trace, marks, decomposed(trace))


def effective_minilm(model: Any, data: Path, work: Path) -> Any:
    pairs = mrpc(data)
    texts = [("single", one.text) for one in pairs[:SINGLE]]
    texts += [("pair", f"{one.text} {one.other}") for one in pairs[SINGLE : SINGLE + PAIRS]]
    for target in TARGETS:
        many = list(joined(model, [one.text for one in pairs], target))
        texts += [(f"joined to {target}", text) for text in random.Random(SEED).sample(many, JOINED)]
    return [{"kind": kind, "sites": looked(model, MARKS["minilm"], text)} for kind, text in texts]


def effective_stories(model: Any, data: Path, work: Path) -> Any:
    found = []
    for text in told(model, work):
        trace = regard.trace(model, text, hidden=False, value_path=True)
        maps = decomposed(trace)
        # Causal: the maps of a beginning are the beginning of the maps.
        firsts = [first for first in PREFIXES if first <= len(trace.labels("input"))]
        parts = ((first, compared(trace, MARKS["stories"], maps, first)) for first in firsts)
        found += [{"kind": f"first {first}", "sites": sites} for first, sites in parts]
    return found


def effective_translator(model: Any, data: Path, work: Path) -> Any:
    lines = {side: api.read_text(data / "multi30k" / f"test_2016_flickr.{side}.gz") for side in ("en", "de")}
    order = iter(random.Random(SEED).sample(range(len(lines["en"])), len(lines["en"])))
    found = []
    for count, texts in CAPTIONS.items():
        for _ in range(texts):
            places = [next(order) for _ in range(count)]
            source, target = (" ".join(lines[side][place] for place in places) for side in ("en", "de"))
            found.append({"kind": f"{count} captions", "sites": looked(model, MARKS["translator"], source, target)})
    return found


def example_minilm(model: Any, data: Path, work: Path) -> Any:
    """What `regard explain` shows of one text, as a picture."""
    regard.explain.effective(
        regard.trace(model, page.EXAMPLE, sites=page.EXAMPLE_SITE, value_path=True), sites=page.EXAMPLE_SITE
    ).save(work / "identifiability_example.svg")
    return page.EXAMPLE


# ------------------------------------------------------------------------------------------------ token identifiability


def identified(model: Any, texts: list[str], asked: list[dict[str, Any]]) -> Any:
    trace = regard.trace(model, texts, weights=False)
    found = []
    for options in asked:
        started = time.monotonic()
        result = regard.explain.identify(trace, test_share=TEST, epochs=EPOCHS, seed=SEED, **options)
        print(options, f"{time.monotonic() - started:.0f} s", *result.statements, sep="\n  ", flush=True)
        found.append({"options": options, "statements": result.statements, **result.data})
    return found


def identify_minilm(model: Any, data: Path, work: Path) -> Any:
    texts = list(dict.fromkeys(one.text for one in mrpc(data)))[:SENTENCES]  # one of each pair: no paraphrases
    return identified(model, texts, [{"map": "all", "distance": "all", "among": side} for side in page.AMONG])


def identify_stories(model: Any, data: Path, work: Path) -> Any:
    texts = story_sentences(model, work)[:SENTENCES]
    return identified(model, texts, [{"map": "linear", "distance": "all", "among": side} for side in page.AMONG])


# ------------------------------------------------------------------------------------------------ hidden attribution


def contributions(model: Any, texts: list[str]) -> Any:
    """Of every token and layer: what it contributes to its own state, and whether another contributes more."""
    found: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        trace = regard.trace(model, text)
        n = len(trace.labels("input"))
        for layer in trace.layers():
            moved = attributed(trace, layer, probes=PROBES, seed=SEED + number)
            share_TT = moved.contributions
            # The exact norms take long, so they are worked out for one sentence, to see how far the probes are off.
            exact_TT = attributed(trace, layer).contributions if number == 0 else None
            looks_TT = trace.heads(f"{layer}.self").mean(0).double()
            apart = ~torch.eye(n, dtype=torch.bool) & ((looks_TT > 0) | (share_TT > 0))
            pair = torch.stack([share_TT[apart], looks_TT[apart]])
            found.append(
                {
                    "layer": layer,
                    "tokens": n,
                    "own": share_TT.diagonal().tolist(),
                    "not_main": (share_TT.argmax(1) != torch.arange(n)).tolist(),
                    "attention_r": float(torch.corrcoef(pair)[0, 1]),
                    "off": None if exact_TT is None else float((share_TT - exact_TT).abs().max()),
                    "error": float((moved.error / moved.squares.clamp_min(1e-30))[moved.squares > 0].mean()),
                }
            )
    return found


def _short(model: Any, texts: list[str]) -> list[str]:
    """Sentences of 12 to LONGEST tokens, marks included."""
    return [text for text, size in zip(texts, sizes(model, texts), strict=True) if 10 <= size <= LONGEST - 2][:LOOKED]


def attribute_minilm(model: Any, data: Path, work: Path) -> Any:
    return contributions(model, _short(model, [one.text for one in mrpc(data)]))


def attribute_stories(model: Any, data: Path, work: Path) -> Any:
    return contributions(model, _short(model, story_sentences(model, work)))


PARTS: dict[str, Callable[[Any, Path, Path], Any]] = {
    "example-minilm": example_minilm, "effective-minilm": effective_minilm, "effective-stories": effective_stories,
    "effective-translator": effective_translator, "identify-minilm": identify_minilm,
    "identify-stories": identify_stories, "attribute-minilm": attribute_minilm, "attribute-stories": attribute_stories,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in MARKS:
        parser.add_argument(f"--{name}", type=Path, help=f"the model, or ${page.VARIABLES[name]}")
    parser.add_argument("--only", nargs="*", metavar="PART", help="effective, identify, attribute-stories, …; page")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "regard_identifiability")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs")
    arguments = parser.parse_args()
    if "REGARD_DATA" not in os.environ:
        sys.exit("Set REGARD_DATA to the folder that holds glue/MRPC and multi30k.")
    data, work = Path(os.environ["REGARD_DATA"]), arguments.work
    work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    models: dict[str, Any] = {}
    for part, measure in PARTS.items():
        if arguments.only and not any(part.startswith(name) for name in arguments.only):
            continue
        name = part.split("-")[1]
        place = getattr(arguments, name) or os.environ.get(page.VARIABLES[name])
        if place is None or not Path(place).exists():
            print(f"{part}: skipped, no model ({place or f'give --{name}'})")
            continue
        if name in NEEDED and not (data / NEEDED[name]).is_dir():
            print(f"{part}: skipped, REGARD_DATA has no {NEEDED[name]}")
            continue
        models[name] = models.get(name) or regard.load(place)
        started = time.monotonic()
        found = measure(models[name], data, work)
        seconds = time.monotonic() - started
        (work / f"{part}.json").write_text(json.dumps({"seconds": seconds, "found": found}))
        print(f"{part}: {seconds:.0f} s", flush=True)
    page.write(work, arguments.out)


if __name__ == "__main__":
    main()
