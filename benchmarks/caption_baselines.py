"""Captions without a captioning model: one sentence for all images, and the caption of the most similar image.

    python benchmarks/caption_baselines.py            # development images
    python benchmarks/caption_baselines.py --split test

constant     the training caption that scores best on the development images, whatever the image shows
retrieval    the training image whose mean feature has the largest cosine; of its captions the one most like the others

Both are scored as captions are: BLEU-1 to BLEU-4 and chrF against all references, lower-case words.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

import torch

import regard
from regard.core.image_settings import Resizing
from regard.core.paths import expand_path
from regard.data.captions import Captioned, read_captions, words_only
from regard.data.images import ImageForm
from regard.data.pictures import Pictures
from regard.evaluation.evaluators.caption_bleu import caption_bleu
from regard.evaluation.text_scores import by_position
from regard.runs.features import features_of

FOLDER = expand_path("$REGARD_DATA/flickr8k")
CANDIDATES = 100


def references(split: str) -> tuple[list[str], list[list[str]]]:
    """The names of a split's images, and their captions as words."""
    entries: list[Captioned] = read_captions(FOLDER / "captions.jsonl.gz", split)
    return [entry.image for entry in entries], [[words_only(text) for text in entry.captions] for entry in entries]


def vectors(names: Sequence[str]) -> torch.Tensor:
    """The normalised mean features of images."""
    encoder = regard.load(expand_path("$REGARD_DATA/efficientnet_lite0"))
    form = ImageForm.parse(encoder.stored.extra["image"]).model_copy(update={"resizing": Resizing()})
    made = features_of(
        Pictures(FOLDER / "images_128.tar"), names, encoder.model, form, mirrored=False, whole=True, say=print
    )
    return torch.nn.functional.normalize(torch.stack(made.rows())[:, 0], dim=1)


def overlap(one: str, other: str) -> float:
    shared = sum((Counter(one.split()) & Counter(other.split())).values())
    return 2 * shared / (len(one.split()) + len(other.split()))


def most_alike(captions: Sequence[str]) -> str:
    """The caption that shares most words with the others."""
    return max(captions, key=lambda caption: sum(overlap(caption, other) for other in captions))


def constant(train: Sequence[Sequence[str]], held_out: Sequence[Sequence[str]]) -> str:
    """The best of the captions that are made of the most frequent words."""
    counts = Counter(word for captions in train for caption in captions for word in set(caption.split()))
    every = {caption for captions in train for caption in captions if 6 <= len(caption.split()) <= 12}
    usual = sorted(every, key=lambda caption: -sum(counts[w] for w in set(caption.split())) / len(caption.split()))
    return max(usual[:CANDIDATES], key=lambda text: caption_bleu([text] * len(held_out), held_out)["bleu_4"])


def scores(texts: Sequence[str], right: Sequence[Sequence[str]]) -> str:
    import sacrebleu

    numbers = caption_bleu(texts, right)
    chrf = sacrebleu.corpus_chrf(list(texts), by_position(right)).score
    return "BLEU-1 to 4 " + " / ".join(f"{value:.1f}" for value in numbers.values()) + f", chrF {chrf:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--split", default="dev", choices=("dev", "test"))
    split = parser.parse_args().split
    (names, train), (held_names, held_out) = references("train"), references(split)
    sentence = constant(train, references("dev")[1])
    print(f"constant   {scores([sentence] * len(held_out), held_out)}   ({sentence!r})")
    nearest = (vectors(held_names) @ vectors(names).T).argmax(1).tolist()
    print(f"retrieval  {scores([most_alike(train[place]) for place in nearest], held_out)}")


if __name__ == "__main__":
    main()
