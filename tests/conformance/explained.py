"""One small loaded model of every kind there is, with something for it to read."""

import functools
from dataclasses import replace

import torch
from PIL import Image
from tests.system.small_models import IMAGE, LINES, SIZES, fit_on_lines, stored

from regard.data.text import make_tokenizer
from regard.pipelines import make_pipeline

TEXT, SECOND = "the cat sat on the mat", "a dog ran"
SPELLING = {"d_character": 4, "filters": ((1, 5), (3, 6)), "d_projection": 6, "d_hidden": 8}
SIDES = {"d_model": 24, "n_heads": 3, "d_ff": 32, "n_encoder_layers": 2, "n_decoder_layers": 2}


def _translator(name, **options):
    tokenizer = make_tokenizer("word", LINES * 3, vocab_size=80)
    vocab = {"source_vocab": tokenizer.vocab_size, "target_vocab": tokenizer.vocab_size}
    return make_pipeline(stored(name, "translation", {**vocab, **options}, {}, tokenizer)), TEXT, SECOND


def _reader(head, task, **extra):
    tokenizer = make_tokenizer("wordpiece", LINES * 3, vocab_size=80, marks="bert")
    sizes = {**SIZES, "vocab_size": tokenizer.vocab_size, "d_ff": 40, "max_len": 48, "head": head, "n_labels": 3}
    return make_pipeline(stored("bert", task, sizes, extra, tokenizer))


def _encoder(**options):
    tokenizer = make_tokenizer("wordpiece", LINES * 3, vocab_size=80, marks="bert")
    sizes = {**SIZES, "vocab_size": tokenizer.vocab_size, "d_ff": 40, "max_len": 48, "n_labels": 3, **options}
    return make_pipeline(stored("encoder", "classification", sizes, {"labels": ["x", "y", "z"]}, tokenizer)), TEXT, None


def _writer(name, **options):
    tokenizer = make_tokenizer("char", LINES)
    sizes = {**SIZES, "vocab_size": tokenizer.vocab_size, "max_len": 64, **options}
    return make_pipeline(stored(name, "language_model", sizes, {}, tokenizer)), "the cat sat", " on"


def _judge(name):
    tokenizer = make_tokenizer("char", LINES)
    sizes = {**SIZES, "vocab_size": tokenizer.vocab_size, "max_len": 64, "head": "classes", "n_labels": 3}
    return make_pipeline(stored(name, "classification", sizes, {"labels": ["x", "y", "z"]}, tokenizer))


def _counted(**options):
    tokenizer = make_tokenizer("space", LINES)
    made = stored("ngram", "language_model", {"vocab_size": tokenizer.vocab_size, "order": 3, **options}, {}, tokenizer)
    fit_on_lines(made.model, tokenizer, LINES)
    return make_pipeline(replace(made, config=made.model.config)), "the cat sat on the house", "and the dog"


def _words(name, task, **options):
    tokenizer = make_tokenizer("space", LINES)
    options = {"vocab_size": tokenizer.vocab_size, **options}
    return make_pipeline(stored(name, task, options, {"labels": ["x", "y", "z"]}, tokenizer))


def _picture(seed=3):
    generator = torch.Generator().manual_seed(seed)
    return Image.fromarray(torch.randint(0, 256, (8, 8, 3), generator=generator, dtype=torch.uint8).numpy())


def _image(name, **options):
    extra = {"image": IMAGE, "labels": ["a", "b", "c"]}
    sizes = {"image_size": 8, "n_labels": 3, **options}
    return make_pipeline(stored(name, "image_classification", sizes, extra)), _picture(), None


def _captioner(name, **options):
    tokenizer = make_tokenizer("word", LINES * 3, vocab_size=80)
    encoder = {"image_size": 8, "widths": (6, 8), "blocks": 1}
    sizes = {"vocab_size": tokenizer.vocab_size, "encoder": "resnet", "encoder_options": encoder, "d_embedding": 10}
    made = stored(name, "captioning", {**sizes, "d_hidden": 12, **options}, {"image": IMAGE}, tokenizer)
    return make_pipeline(made), _picture(), "the cat sat on the mat"


def _asked(**options):
    tokenizer = make_tokenizer("word", LINES * 3, vocab_size=80)
    encoder = {"image_size": 8, "widths": (6, 8), "blocks": 1}
    sizes = {"vocab_size": tokenizer.vocab_size, "encoder": "resnet", "encoder_options": encoder, "d_embedding": 10}
    sizes |= {"n_labels": 3, "d_model": 12, "n_heads": 3, "exemplars": 2, "exemplar_questions": 1, **options}
    extra = {"image": IMAGE, "labels": ["a", "b", "c"]}
    made = stored("vqa", "visual_question_answering", sizes, extra, tokenizer)
    if made.model.bank is not None:
        ids = torch.tensor(tokenizer.encode_batch(["who saw the cat ?", "a dog ran to the"]))[:, None]
        made.model.bank.fill(torch.randn(2, 3, 8, 8), ids, torch.ones_like(ids).bool(), torch.tensor([[0], [2]]))
    return make_pipeline(made), _picture(), "who saw the old dog ?"


def _bits(**options):
    sizes = {"d_input": 5, "d_output": 3, "d_controller": 10, "n_rows": 12, "d_row": 6, **options}
    return make_pipeline(stored("ntm", "bits", sizes, {"kind": "copy", "bits": 3})), "101 001 110", None


def _few_shot():
    extra = {"image": IMAGE, "ways": 3, "shots": 2}
    sizes = {"n_outputs": 3, "seq_len": 7, "image_size": 8, "channels": 3, "n_filters": 6, "d_model": 8}
    made = stored("snail", "few_shot", {**sizes, "blocks": ((6, 5), (4,), (7, 6))}, extra)
    support = {"cat": [_picture(1), _picture(2)], "dog": [_picture(4)], "owl": [_picture(5)]}
    return make_pipeline(made), _picture(), support


def _policy():
    sizes = {"head": "policy", "n_outputs": 3, "seq_len": 9, "d_input": 5, "blocks": ((4,), (6, 5), (3, 4))}
    extra = {"environment": {"name": "bandit", "arms": 3, "pulls": 9}, "seed": 1}
    return make_pipeline(stored("snail", "policy", sizes, extra)), "0:1 2:0 1:1", None


MAKERS = {
    "transformer": lambda: _translator("transformer", **SIDES),
    "transformer-post": lambda: _translator("transformer", **SIDES, order="post", position="sinusoidal"),
    "seq2seq": lambda: _translator("seq2seq", d_embedding=12, d_hidden=16),
    "seq2seq-luong-lstm": lambda: _translator(
        "seq2seq",
        d_embedding=12,
        d_hidden=16,
        attention="luong",
        cell="lstm",
        score="general",
        reach="local_m",
        radius=2,
    ),
    "seq2seq-none": lambda: _translator("seq2seq", d_embedding=12, d_hidden=16, attention="none", cell="elman"),
    "lstmn_seq2seq": lambda: _translator("lstmn_seq2seq", d_embedding=12, d_hidden=16, n_layers=2),
    "lstmn_seq2seq-shallow": lambda: _translator("lstmn_seq2seq", d_embedding=12, d_hidden=16, fusion="shallow"),
    "bert-masked_lm": lambda: (_reader("masked_lm", "masked_lm"), "the [MASK] sat on the mat", None),
    "bert-classes": lambda: (_reader("classes", "classification", labels=["x", "y", "z"]), TEXT, None),
    "bert-pair": lambda: (_reader("classes", "classification"), TEXT, SECOND),
    "bert-none": lambda: (_reader("none", "sentence_similarity"), TEXT, None),
    "bert-sentence": lambda: (_reader("sentence", "sentence_similarity"), TEXT, SECOND),
    "bert-span": lambda: (_reader("span", "question_answering"), "who sat ?", TEXT),
    "bert-tokens": lambda: (_reader("token_classes", "token_classification"), TEXT, None),
    "encoder": lambda: _encoder(),
    "encoder-mean": lambda: _encoder(pooling="mean", position="rotary"),
    "gpt2": lambda: _writer("gpt2"),
    "gpt2-alibi": lambda: _writer("gpt2", position="alibi"),
    "llama": lambda: _writer("llama", n_heads=6, n_kv_heads=2, d_ff=40),
    "gpt2-classes": lambda: (_judge("gpt2"), TEXT, None),
    "vit": lambda: _image("vit", **SIZES, patch_size=2, d_ff=40),
    "resnet": lambda: _image("resnet", widths=(6, 8), blocks=1),
    "efficientnet_lite": lambda: _image("efficientnet_lite", stages=((1, 3, 1, 1, 5), (2, 5, 2, 2, 7)), d_model=9),
    "show_tell": lambda: _captioner("show_tell"),
    "show_attend_tell": lambda: _captioner("show_attend_tell", d_memory=14, d_attention=9),
    "show_attend_tell-hard": lambda: _captioner("show_attend_tell", attention="hard", d_memory=14, score="general"),
    "vqa": lambda: _asked(),
    "vqa-transformer": lambda: _asked(question="transformer", hops=1),
    "vqa-dan": lambda: _asked(differential="dan"),
    "vqa-dcn": lambda: _asked(differential="dcn", score="general"),
    "elmo": lambda: (_words("elmo", "bidirectional_lm", **SPELLING), "the cat sat on a zebra", None),
    "elmo-classes": lambda: (
        _words("elmo", "classification", head="classes", n_labels=3, d_task=7, frozen=True, **SPELLING),
        "the zebra sat on the mat",
        None,
    ),
    "elmo-vectors": lambda: (
        _words("elmo", "classification", head="classes", n_labels=3, d_task=7, d_embedding=4, frozen=True, **SPELLING),
        "the zebra sat on the mat",
        None,
    ),
    "snail": _few_shot,
    "snail-policy": _policy,
    "ntm": _bits,
    "ntm-heads": lambda: _bits(n_reads=2, n_writes=2, controller="feedforward"),
    "ntm-none": lambda: _bits(n_reads=0, n_writes=0),
    "ngram": _counted,
    "bow": lambda: (_words("bow", "classification", n_labels=3, features="tf_idf"), TEXT, None),
    "bow-deep": lambda: (_words("bow", "classification", n_labels=3, hidden=(8, 8)), TEXT, None),
    "bow-lexicon": lambda: (_words("bow", "classification", n_labels=3, features="lexicon"), TEXT, None),
    "dan": lambda: (_words("dan", "language_model", d_embedding=8, hidden=(8,)), "the cat sat", "on the mat"),
    "dan-classes": lambda: (
        _words("dan", "classification", d_embedding=8, hidden=(8,), head="classes", n_labels=3),
        TEXT,
        None,
    ),
    "window_lm": lambda: (
        _words("window_lm", "language_model", d_embedding=8, hidden=(12,), window=3),
        "the cat sat",
        "on the mat",
    ),
    "rnn": lambda: (_words("rnn", "language_model", d_embedding=8, d_hidden=10), "the cat sat", "on the mat"),
    "rnn-classes": lambda: (
        _words("rnn", "classification", d_embedding=8, d_hidden=8, bidirectional=True, head="classes", n_labels=3),
        TEXT,
        None,
    ),
    "rnn-characters": lambda: (
        _words(
            "rnn", "token_classification", d_embedding=8, d_hidden=8, characters=5, head="token_classes", n_labels=3
        ),
        "the zebra sat on the mat",
        None,
    ),
    "lstmn": lambda: (
        _words("lstmn", "language_model", d_embedding=8, d_hidden=10, n_layers=2, span=3),
        "the cat sat on",
        "the mat",
    ),
    "lstmn-classes": lambda: (
        _words("lstmn", "classification", d_embedding=8, d_hidden=8, head="classes", n_labels=3),
        TEXT,
        None,
    ),
    "han": lambda: (_words("han", "classification", d_embedding=8, d_hidden=5, n_labels=3), TEXT, None),
    "han-mean": lambda: (
        _words("han", "classification", d_embedding=8, d_hidden=5, n_labels=3, pooling="mean"),
        TEXT,
        None,
    ),
}


@functools.cache
def made(name):
    """The loaded model, an input, and a target or None."""
    return MAKERS[name]()
