"""Makes the subject of an explanation: a loaded model's inputs, its tokens, and its answer as one number per row.

model                      the number
translation                log p of the target, `</s>` included: the given target, or the result of the search
language model             log p of the target after the text; without a target, of the most likely next token
masked words               log p of the most likely word in each gap; without a gap, of every token of the text
classes, images            log p of the most likely class; for a regression, its number
captions                   log p of the caption, `</s>` included: the given caption, or the result of the search
classes of tokens, spans   log p of the most likely ones
encoder without a head     the cosine of the text's vector with that of the target; none without a target
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import pad
from regard.core.errors import UsageError
from regard.core.pooling import Pooling, pool
from regard.explain import Subject
from regard.models import make_model
from regard.pipelines._classes import probabilities

if TYPE_CHECKING:
    from regard.pipelines._loaded import Loaded, TextEncoder
    from regard.pipelines.image_classification import ImageClassificationPipeline
    from regard.pipelines.language_model import LanguageModelPipeline
    from regard.pipelines.translation import TranslationPipeline

Texts = str | Sequence[str]
NOT_ASKED = -100
"""The label of positions where no token is predicted."""


def listed(texts: Texts | None, what: str = "text") -> list[str]:
    """One text or several as a list; none may be empty."""
    rows = [texts] if isinstance(texts, str) else list(texts or [])
    if not rows:
        raise UsageError(f"there is nothing to explain: no {what}")
    if empty := [number for number, row in enumerate(rows, 1) if not row.strip()]:
        which = f" {empty[0]}" if len(rows) > 1 else ""
        raise UsageError(f"there is nothing to explain: {what}{which} is empty", remedy="Give at least one word.")
    return rows


def token_score(output: Any, goal: Mapping[str, Tensor]) -> Tensor:
    """log p of the target tokens [B,T], summed over those with a label [B]."""
    wanted = goal["wanted"]
    logits = output.logits.float()
    losses = F.cross_entropy(logits.transpose(1, 2), wanted, ignore_index=NOT_ASKED, reduction="none")
    return -losses.sum(1)


def class_score(output: Any, goal: Mapping[str, Tensor]) -> Tensor:
    """log p of the target classes [B]."""
    return output.logits.float().log_softmax(-1).gather(1, goal["wanted"]).squeeze(1)


def label_score(output: Any, goal: Mapping[str, Tensor]) -> Tensor:
    """log p of the target labels [B], where any number of labels can be right."""
    return F.logsigmoid(output.logits.float()).gather(1, goal["wanted"]).squeeze(1)


def span_score(output: Any, goal: Mapping[str, Tensor]) -> Tensor:
    """log p of the target's beginning and end [B,2]."""
    places = goal["wanted"].unsqueeze(1)
    logits = output.logits.float().masked_fill(~goal["real"].unsqueeze(-1), -torch.inf)
    return logits.log_softmax(1).gather(1, places).sum((1, 2))


def cosine_score(output: Any, goal: Mapping[str, Tensor], how: Pooling | None = None) -> Tensor:
    """The cosine of a text's vector (by default its mean state over real tokens) with another vector [B]."""
    return F.cosine_similarity(pool(output.hidden, goal["real"], how), goal["vector"], dim=-1)


def untrained(loaded: Loaded, again: Callable[[Loaded], Subject]) -> Callable[[int], Subject] | None:
    """Makes the subject with new random weights, by seed; None for a model without weights, such as one that counts."""
    if next(loaded.model.parameters(), None) is None:
        return None

    def make(seed: int) -> Subject:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = make_model(loaded.stored.name, loaded.config).eval()
        return again(type(loaded)(replace(loaded.stored, model=model)))

    return make


def reader_subject(loaded: TextEncoder, texts: Texts, others: Texts | None = None) -> Subject:
    """An encoder of text; `others` are the second texts of pairs, or texts to compare with."""
    rows, model = listed(texts), loaded.model
    seconds = listed(others, "second text") if others is not None else None
    bare = getattr(loaded.config, "head", "none") in ("none", "sentence")
    inputs = loaded.whole_inputs(rows, None if bare else seconds)
    labels = [loaded.tokenizer.tokens(ids[real].tolist()) for ids, real in _real(inputs)]
    with torch.no_grad():
        output = model(**inputs)
    score, goal, answer = loaded.head_answer(output, inputs)
    if bare and seconds is not None:
        goal = {"vector": loaded.embed(seconds), "real": inputs["attention_mask"]}
        score = functools.partial(cosine_score, how=getattr(loaded.config, "pooling", None))
        answer = {"cosines": score(output, goal).tolist()}
    shares: list[tuple[str, float]] = getattr(model, "layer_shares", list)()
    if shares:
        answer = {**answer, "layers": [shares] * len(rows)}
    return Subject(
        loaded.stored.name,
        loaded.stored.task,
        model,
        inputs,
        {"input": labels, **_more_sides(model, inputs, labels)},
        score,
        goal,
        {"input": inputs["input_ids"]},
        answer,
        getattr(model, "head_logits", None),
        loaded.answer_label,
        _table(model),
        untrained=untrained(loaded, lambda other: reader_subject(other, texts, others)),  # type: ignore[arg-type]
        texts=_with_seconds(rows, seconds),
        probabilities=functools.partial(probabilities, extra=loaded.stored.extra),
    )


def writer_subject(loaded: LanguageModelPipeline, texts: Texts, targets: Texts | None = None) -> Subject:
    """A language model; the target is the continuation of the text."""
    rows, seconds = listed(texts), listed(targets, "target") if targets is not None else None
    prompts = [loaded.prompt_ids(text) for text in rows]
    after = loaded.tokenizer.encode_batch(seconds) if seconds is not None else [[] for _ in prompts]
    if len(after) != len(prompts):
        raise UsageError("each text needs a target", got=f"{len(prompts)} and {len(after)}", expected="the same number")
    whole = [[*prompt, *target] for prompt, target in zip(prompts, after, strict=True)]
    for row in whole:
        loaded.check_fits(row)
    ids, real = pad(whole, value=0)
    inputs = {"input_ids": ids} if bool(real.all()) else {"input_ids": ids, "attention_mask": real}
    wanted, answer = torch.full_like(ids, NOT_ASKED), dict[str, Any]()
    if targets is None:
        with torch.no_grad():
            last = torch.stack(
                [row[real_row][-1] for row, real_row in zip(loaded.model(**inputs).logits, real, strict=True)]
            )
        best = last.float().softmax(-1).topk(min(5, last.shape[-1]))
        for number, row in enumerate(whole):
            wanted[number, len(row) - 1] = best.indices[number, 0]
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        answer["next"] = [list(zip(loaded.tokenizer.tokens(tokens), shares, strict=True)) for tokens, shares in pairs]
    for number, (prompt, target) in enumerate(zip(prompts, after, strict=True)):
        wanted[number, len(prompt) - 1 : len(prompt) - 1 + len(target)] = torch.tensor(target, dtype=torch.long)
    labels = [loaded.tokenizer.tokens(row) for row in whole]
    return Subject(
        loaded.stored.name,
        loaded.stored.task,
        loaded.model,
        inputs,
        {"input": labels, **_more_sides(loaded.model, inputs, labels)},
        token_score,
        {"wanted": wanted},
        {"input": ids},
        answer,
        getattr(loaded.model, "head_logits", None),
        lambda token: loaded.tokenizer.tokens([token])[0],
        _table(loaded.model),
        untrained=untrained(loaded, lambda other: writer_subject(other, texts, targets)),  # type: ignore[arg-type]
        texts=_with_seconds(rows, seconds),
    )


def translation_subject(loaded: TranslationPipeline, texts: Texts, targets: Texts | None, **search: Any) -> Subject:
    """A translator with the given target, or with its own best translation."""
    rows = listed(texts, "source")
    source_ids, tokenizer = loaded.encode_source(rows), loaded.target_tokenizer
    decoded: dict[str, Any] = {}
    if targets is None:
        best = [hypotheses[0] for hypotheses in loaded.translate_nbest(rows, **search)]
        written = [translation.tokens for translation in best]
        decoded = {"log_probs": [translation.log_prob for translation in best], "decoded": True}
    else:
        written = tokenizer.encode_batch(listed(targets, "target"))
    if len(written) != len(rows):
        raise UsageError(
            "each source needs a target", got=f"{len(rows)} and {len(written)}", expected="the same number"
        )
    source, mask, read, wanted = loaded.sides(source_ids, written)
    targets = [tokenizer.decode(row) for row in written]
    ends = [[*tokenizer.tokens(row), "</s>"] for row in written]
    sides = {
        "source": [[*loaded.source_tokenizer.tokens(row), "</s>"] for row in source_ids],
        "target": ends,
        "prefix": [["<s>", *row[:-1]] for row in ends],
    }
    more: Mapping[str, list[list[str]]] = getattr(loaded.model, "more_sides", lambda _: {})(sides)
    return Subject(
        loaded.stored.name,
        loaded.stored.task,
        loaded,
        {"input_ids": source, "attention_mask": mask, "decoder_input_ids": read},
        {**sides, **more},
        token_score,
        {"wanted": wanted},
        {"source": source, "target": wanted, "prefix": read},
        {"translations": targets, **decoded},
        loaded.model.head_logits,
        lambda token: tokenizer.tokens([token])[0],
        loaded.model.source_embedding.weight.detach(),
        untrained=untrained(loaded, lambda other: translation_subject(other, texts, targets)),  # type: ignore[arg-type]
        texts=rows,
    )


def image_subject(loaded: ImageClassificationPipeline, images: Sequence[Any]) -> Subject:
    """An image encoder: its tokens are the special tokens and the patches, by row and column."""
    model, pixels = loaded.model, loaded.form.pixel_values(images)
    grid = model.grid_of(*pixels.shape[2:])
    labels = ["[CLS]", "[DIST]"][: model.n_special] + patch_labels(grid)
    inputs = {"pixel_values": pixels}
    with torch.no_grad():
        output = model(**inputs)
    score, goal, answer = loaded.head_answer(output, inputs)
    return Subject(
        loaded.stored.name,
        loaded.stored.task,
        model,
        inputs,
        {"image": [labels] * len(pixels)},
        score,
        goal,
        output=answer,
        head_logits=model.head_logits,
        label=loaded.answer_label,
        grids={"image": grid},
        pictures=loaded.form.pictures(pixels),
        untrained=untrained(loaded, lambda other: image_subject(other, images)),  # type: ignore[arg-type]
        probabilities=functools.partial(probabilities, extra=loaded.stored.extra),
    )


def patch_labels(grid: tuple[int, int]) -> list[str]:
    """A name for each cell of an image, row by row: "0,0", "0,1", …"""
    return [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]


def _with_seconds(texts: Sequence[str], seconds: Sequence[str] | None) -> list[str]:
    """For titles: each text, and its second text or target."""
    if seconds is None or len(seconds) != len(texts):
        return list(texts)
    return [f"{first} / {second}" for first, second in zip(texts, seconds, strict=True)]


def _more_sides(model: Any, inputs: Mapping[str, Tensor], labels: list[list[str]]) -> dict[str, list[list[str]]]:
    """The labels of the model's other axes: one for a whole text, or what the model makes of the tokens' labels."""
    whole = {side: [[side]] * len(labels) for side in getattr(model, "whole_sides", ())}
    return {**whole, **(model.sides(labels, **inputs) if hasattr(model, "sides") else {})}


def _table(model: Any) -> Tensor | None:
    """The vectors of all tokens; None for a model without them, such as one that counts."""
    embedding = getattr(model, "embedding", None)
    return None if embedding is None else embedding.weight.detach()


def _real(inputs: Mapping[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(inputs["input_ids"], inputs["attention_mask"].bool(), strict=True))


Answer = tuple[Callable[[Any, Mapping[str, Tensor]], Tensor] | None, dict[str, Tensor], dict[str, Any]]
"""How the head's answer is scored, which answer it is, and the answer in words."""


def class_answer(loaded: Loaded, output: Any) -> Answer:
    """The most likely class, or the number of a regression; None without a head."""
    logits = output.logits
    if logits is None:
        return None, {}, {}
    if loaded.stored.extra.get("regression"):
        return (lambda again, _: again.logits[:, 0]), {}, {"values": logits[:, 0].tolist()}
    shares = probabilities(logits, loaded.stored.extra)
    best = shares.argmax(-1, keepdim=True)
    named = [[loaded.answer_label(int(place)), float(row[place])] for place, row in zip(best, shares, strict=True)]
    score = label_score if loaded.stored.extra.get("multi_label") else class_score
    return score, {"wanted": best}, {"classes": named}


def token_answer(loaded: Loaded, wanted: Tensor) -> Answer:
    """The target class or word [B,T] of each token, NOT_ASKED where there is none."""
    named = [[loaded.answer_label(token) for token in row[row != NOT_ASKED].tolist()] for row in wanted]
    return token_score, {"wanted": wanted}, {"tokens": named}


def span_answer(places: Sequence[tuple[int, int]], real: Tensor) -> Answer:
    """The first and last token of the answer in each row; (0, 0), which is [CLS], where there is none."""
    return span_score, {"wanted": torch.tensor(places), "real": real}, {"spans": [list(place) for place in places]}
