"""Small stand-ins for the models and files that README.md and docs/explain.md name: random, of the right kind."""

import random
from dataclasses import replace

import torch
from PIL import Image
from tests.system.small_models import IMAGE, fit_on_lines, stored

from regard.data.text import make_tokenizer
from regard.pipelines import make_pipeline

ENGLISH = ["A man", "A woman", "Two dogs", "The old cat", "A child"]
VERBS = {"rides a horse": "reitet auf einem Pferd", "is sitting": "sitzt", "wrote it": "schrieb es",
         "sits on a boat": "sitzt auf einem Boot", "remembers a film": "erinnert sich an einen Film"}  # fmt: skip
GERMAN = ["Ein Mann", "Eine Frau", "Zwei Hunde", "Die alte Katze", "Ein Kind"]
PAIRS = [
    (f"{english} {verb}.", f"{german} {ziel}.")
    for english, german in zip(ENGLISH, GERMAN, strict=True)
    for verb, ziel in VERBS.items()
]
STORY = "Once upon a time, there was a little dog. The dog had a red ball and ran to the old house with it every day."
TEXTS = [side for pair in PAIRS for side in pair] + [
    STORY,
    "a film to remember, though the ending is a mess",
    "Paris is the capital of France.",
    "A feline is sitting. Who wrote it?",
    "ROMEO: 0123456789",
    "They sat on the bank of the river. She put money in the bank.",
]
SIDES = {"d_model": 32, "n_heads": 4, "d_ff": 40, "n_encoder_layers": 4, "n_decoder_layers": 4}
ONE_SIDE = {"d_model": 24, "n_heads": 6, "n_layers": 4}


def translator(name="transformer", **options):
    tokenizer = make_tokenizer("bpe", TEXTS, vocab_size=200)
    sizes = {"source_vocab": tokenizer.vocab_size, "target_vocab": tokenizer.vocab_size}
    return make_pipeline(stored(name, "translation", {**sizes, **(options or SIDES)}, {}, tokenizer))


def encoder(head, task, **extra):
    tokenizer = make_tokenizer("wordpiece", TEXTS, vocab_size=200, marks="bert")
    sizes = {**ONE_SIDE, "vocab_size": tokenizer.vocab_size, "d_ff": 40, "max_len": 64, "head": head, "n_labels": 2}
    return make_pipeline(stored("bert", task, sizes, extra, tokenizer))


def writer(name, max_len, **options):
    tokenizer = make_tokenizer("char", TEXTS)
    sizes = {**ONE_SIDE, "vocab_size": tokenizer.vocab_size, "max_len": max_len, **options}
    return make_pipeline(stored(name, "language_model", sizes, {}, tokenizer))


def words():
    tokenizer = make_tokenizer("word", ["the king is a man in paris and the queen is a woman in rome"] * 3)
    return make_pipeline(stored("word2vec", "word_vectors", {"vocab_size": tokenizer.vocab_size}, {}, tokenizer))


def bag():
    tokenizer = make_tokenizer("space", TEXTS)
    sizes = {"vocab_size": tokenizer.vocab_size}
    return make_pipeline(stored("bow", "classification", sizes, {"labels": ["negative", "positive"]}, tokenizer))


def reads_words(name, task, **options):
    tokenizer = make_tokenizer("space", TEXTS)
    sizes = {"vocab_size": tokenizer.vocab_size, **options}
    return make_pipeline(stored(name, task, sizes, {"labels": ["negative", "positive"]}, tokenizer))


def machine():
    sizes = {"d_input": 10, "d_output": 8, "d_controller": 10, "n_rows": 12, "d_row": 6}
    return make_pipeline(stored("ntm", "bits", sizes, {"kind": "copy", "bits": 8}))


def counted():
    tokenizer = make_tokenizer("space", TEXTS)
    made = stored("ngram", "language_model", {"vocab_size": tokenizer.vocab_size}, {}, tokenizer)
    fit_on_lines(made.model, tokenizer, TEXTS)
    return make_pipeline(replace(made, config=made.model.config))


def vit():
    sizes = {**ONE_SIDE, "image_size": 8, "patch_size": 2, "d_ff": 40, "n_labels": 10}
    extra = {"image": IMAGE, "labels": list("0123456789")}
    return make_pipeline(stored("vit", "image_classification", sizes, extra))


def captioner():
    tokenizer = make_tokenizer("space", TEXTS)
    encoder = {"encoder": "resnet", "encoder_options": {"image_size": 8, "widths": (6, 8), "blocks": 1}}
    sizes = {"vocab_size": tokenizer.vocab_size, "d_embedding": 10, "d_hidden": 12, "d_memory": 14, "d_attention": 9}
    return make_pipeline(stored("show_attend_tell", "captioning", {**sizes, **encoder}, {"image": IMAGE}, tokenizer))


MODELS = {
    "words": words,
    "translator": translator,
    "bahdanau": lambda: translator("seq2seq", d_embedding=12, d_hidden=16, attention="bahdanau"),
    "sentences": lambda: encoder("none", "sentence_similarity"),
    "gaps": lambda: encoder("masked_lm", "masked_lm"),
    "spans": lambda: encoder("span", "question_answering"),
    "classes": lambda: encoder("classes", "classification", labels=["negative", "positive"]),
    "writer": lambda: writer("gpt2", 64),
    "llama": lambda: writer("llama", 160, n_kv_heads=2, d_ff=40),
    "images": vit,
    "captions": captioner,
    "bag": bag,
    "document": lambda: reads_words("han", "classification", d_embedding=8, d_hidden=5),
    "elman": lambda: reads_words("rnn", "language_model", cell="elman", d_embedding=8, d_hidden=8),
    "lstm": lambda: reads_words("rnn", "language_model", d_embedding=8, d_hidden=8),
    "tape": lambda: reads_words("lstmn", "language_model", d_embedding=8, d_hidden=8, n_layers=2),
    "spelling": lambda: reads_words(
        "elmo",
        "classification",
        head="classes",
        filters=((1, 4), (3, 4)),
        d_projection=6,
        d_hidden=8,
        d_task=4,
    ),
    "machine": machine,
    "counted": counted,
}


def save(kind, folder):
    MODELS[kind]().save(folder)


def write_files(folder):
    """Texts, an image, and a GLUE task."""
    for name, pairs in (("train", PAIRS), ("val", PAIRS[:2]), ("test", PAIRS[5:10])):
        for side, language in enumerate(("en", "de")):
            (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    english = [pair[0] for pair in PAIRS]
    draw = random.Random(0)
    texts = {
        "lines.txt": english[:4],
        "bank.txt": ["They sat on the bank of the river.", "She put money in the bank."],
        "page.txt": ["A man rides a horse.", "A woman wrote it."],
        "sentences.txt": [f"{draw.choice(english)} {draw.choice(english)}" for _ in range(60)],
        "play.txt": [draw.choice(english) for _ in range(80)],
        "rest.txt": [draw.choice(english) for _ in range(200)],
    }
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    pixels = torch.randint(0, 256, (8, 8, 3), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    for name in ("picture.png", "seven.png"):
        Image.fromarray(pixels.numpy()).save(folder / name)
    task = folder / "data" / "glue" / "SST-2"
    task.mkdir(parents=True)
    for split, count in (("train", 60), ("dev", 20)):
        rows = [f"{draw.choice(english)}\t{number % 2}" for number in range(count)]
        (task / f"{split}.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
