"""Translators trained here translate the same as Hugging Face folders, in transformers and in CTranslate2."""

import re

import pytest
import torch
from safetensors.torch import load_file
from tests.system.commands import one_line, run
from tests.system.conftest import reversed_pairs, write_pairs
from tests.system.translators import CTranslate2, Transformers, differences, quiet

import regard
from regard import api
from regard.core.lines import read_lines
from regard.core.search import Search
from regard.data.datasets import expressions
from regard.runs import quickstart

SEARCHES = [(1, 0.0), (5, 0.0), (5, 1.0)]
SMALL = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.0}
SHAPES = {
    "post, one vocabulary": ({}, True, "bpe"),
    "pre, one vocabulary": ({"order": "pre", "share": "none"}, True, "bpe"),
    "post, two vocabularies": ({}, False, "bpe"),
    "pre, two vocabularies": ({"order": "pre", "activation": "gelu"}, False, "word"),
    "pre, all shared": ({"order": "pre"}, True, "char"),
    "post, nothing shared": ({"share": "none", "scale": False}, False, "word"),
    "post, as Marian is": ({"halves": True, "output_bias": True}, True, "wordpiece"),
}
"""Options, whether there is one vocabulary, its kind; two of them in the quick tests."""


def compare(model, lines, folder, *, most):
    """Convert by the command's own function, and compare every search; returns how many ties there were."""
    api.convert(model, folder / "hf", to="hf")
    again, theirs = regard.load(folder / "hf"), [Transformers(folder / "hf"), CTranslate2(folder / "hf", folder / "ct")]
    ties = 0
    for beam, length_penalty in SEARCHES:
        search = {"beam": beam, "length_penalty": length_penalty}
        ours = model.translate(lines, **search, length_form="mean", max_length=most)
        assert len(set(ours)) > len(lines) / 4, "outputs that hardly vary prove little"
        assert again.translate(lines, **search, length_form="mean", max_length=most) == ours
        for peer in theirs:
            wrong, tied, cut = differences(again, lines, ours, peer(lines, **search, most=most), **search, most=most)
            assert not wrong, f"{type(peer).__name__}, {search}: {len(wrong)} differ, first {wrong[0]}"
            assert len(cut) <= max(1, 0.02 * len(lines))
            ties += len(tied)
    assert ties <= 0.005 * len(lines) * len(SEARCHES) * len(theirs)
    return ties


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts whose two sides have letters and words of their own."""
    folder = tmp_path_factory.mktemp("pairs")
    shout = [(source, f"{target.upper().replace('E', 'É')} !") for source, target in reversed_pairs(1500, 1)]
    return write_pairs(folder, "train", shout)


@pytest.fixture(scope="module")
def small(files, tmp_path_factory):
    """`small(shape)`: a translator trained for a few seconds."""
    made = {}

    def train(name):
        if name not in made:
            options, joint, kind = SHAPES[name]
            recipe = {
                "data": {"train": files, "tokenizer": {"kind": kind, "vocab_size": 90, "joint": joint}},
                "model": {"name": "transformer", "options": {**SMALL, **options}},
                "training": {"max_steps": 300, "tokens_per_batch": 512, "lr": 5e-3, "warmup": 30, "clip": 1.0},
            }
            made[name] = regard.train(recipe, tmp_path_factory.mktemp("model") / "run", quiet=True)
        return made[name]

    return train


LINES = [source for source, _ in reversed_pairs(40, 3)] + [
    "cat É dog ! tree",  # letters and words that only the target side has, or none
    "red </s> blue <s> <pad>",
    "ẞ ✈",
]


@pytest.mark.parametrize(
    "shape",
    [list(SHAPES)[1], *(pytest.param(s, marks=pytest.mark.slow) for s in SHAPES if s != list(SHAPES)[1])],
)
def test_small_translators_translate_the_same_elsewhere(shape, small, tmp_path):
    compare(small(shape), LINES, tmp_path, most=40)


@pytest.mark.parametrize("shape", ["pre, one vocabulary", pytest.param("post, one vocabulary", marks=pytest.mark.slow)])
def test_a_folder_says_how_to_begin_pad_end_and_search(shape, small, tmp_path):
    model = small(shape)
    model.stored.search = Search(beam=3, length_penalty=0.6, length_form="mean", max_length=50)
    assert api.convert(model, tmp_path / "hf", to="hf") == []
    peer = Transformers(tmp_path / "hf")
    config, generation = peer.model.config, peer.model.generation_config
    assert config.pad_token_id == config.decoder_start_token_id == peer.tokenizer.pad_token_id
    assert config.eos_token_id == peer.tokenizer.eos_token_id == 3
    assert config.forced_eos_token_id is None
    assert (generation.num_beams, generation.length_penalty, generation.max_new_tokens) == (3, 0.6, 50)
    assert peer.tokenizer("red cat")["input_ids"][-1] == 3
    assert peer.tokenizer("red </s> cat")["input_ids"].count(3) == 1, "text that spells the end is text"


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["post, two vocabularies", "pre, one vocabulary"])
def test_what_transformers_saves_again_translates_the_same(shape, small, tmp_path):
    """Its Marian leaves the table of positions out of its files, so that nothing may be hidden there."""
    model = small(shape)
    model.stored.search = Search(beam=1)
    api.convert(model, tmp_path / "hf", to="hf")
    peer = Transformers(tmp_path / "hf")
    with quiet():
        peer.model.save_pretrained(tmp_path / "again")
        peer.tokenizer.save_pretrained(tmp_path / "again")
    assert Transformers(tmp_path / "again")(LINES, beam=1, length_penalty=1.0, most=40)[1] == model.translate(
        LINES, beam=1, max_length=40
    )
    assert regard.load(tmp_path / "again").translate(LINES) == model.translate(LINES)


@pytest.mark.parametrize(
    "shape", ["post, one vocabulary", pytest.param("pre, two vocabularies", marks=pytest.mark.slow)]
)
def test_a_folder_that_comes_back_is_written_again_as_it_was(shape, small, tmp_path):
    model = small(shape)
    api.convert(model, tmp_path / "hf", to="hf")
    api.convert(regard.load(tmp_path / "hf"), tmp_path / "ours", to="regard")
    again = regard.load(tmp_path / "ours")
    assert again.translate(LINES, beam=4) == model.translate(LINES, beam=4)
    api.convert(again, tmp_path / "again", to="hf")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("hf", "again"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    peer = Transformers(tmp_path / "again")
    assert peer.tokenizer("red </s> cat")["input_ids"].count(3) == 1
    assert peer.model.config.forced_eos_token_id is None


def test_what_a_folder_cannot_say_is_one_line(small, tmp_path):
    model = small("pre, one vocabulary")
    model.stored.search = Search(beam=5, length_penalty=1.0, coverage_penalty=0.2)
    model.save(tmp_path / "ours")
    done = run("convert", tmp_path / "ours", tmp_path / "hf", "--to", "hf")
    assert done.returncode == 0
    notes = [line for line in done.stderr.splitlines() if line.startswith("regard: note: ")]
    assert [re.search(r"length_penalty|coverage_penalty", note)[0] for note in notes] == [
        "length_penalty",
        "coverage_penalty",
    ]


@pytest.mark.parametrize(
    ("options", "data", "said"),
    [
        ({"position": "rotary"}, {}, "position 'rotary'"),
        ({"norm": "rms", "order": "pre"}, {}, "norm 'rms'"),
        ({"activation": "swiglu"}, {}, "activation"),
        ({}, {"kind": "wordpiece", "joint": False}, "two vocabularies"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(options, data, said, files, tmp_path):
    recipe = {
        "data": {"train": files, "tokenizer": {"kind": "bpe", "vocab_size": 90, **data}},
        "model": {"name": "transformer", "options": {**SMALL, **options}},
        "training": {"max_steps": 1, "tokens_per_batch": 128},
    }
    regard.train(recipe, tmp_path / "ours", quiet=True)
    line = one_line(run("convert", tmp_path / "ours", tmp_path / "hf", "--to", "hf"), 2)
    assert said in line
    assert not (tmp_path / "hf").exists()


def test_a_recurrent_translator_is_refused_in_one_line(trained, tmp_path):
    line = one_line(run("convert", trained, tmp_path / "hf", "--to", "hf"), 2)
    assert "seq2seq does not exist in the other library" in line


def _multi30k(data, *, options, joint, steps):
    """The shape of recipes/multi30k_en_de.yaml and of README.md's recipe, with fewer updates."""
    place = data / "multi30k"
    return {
        "data": {
            "train": {"source": str(place / "train.en.gz"), "target": str(place / "train.de.gz")},
            "tokenizer": {"kind": "bpe", "vocab_size": 4000, "joint": joint},
            "max_tokens": 128,
        },
        "model": {"name": "transformer", "size": "tiny", "options": options},
        "training": {"max_steps": steps, "tokens_per_batch": 1024, "lr": 2e-3, "warmup": 300, "clip": 1.0},
    }


@pytest.mark.slow
@pytest.mark.parametrize("joint", [True, False], ids=["one vocabulary", "two vocabularies"])
@pytest.mark.parametrize(
    ("options", "steps"), [({}, 1200), ({"order": "pre", "dropout": 0.1}, 400)], ids=["post", "pre"]
)
def test_multi30k_translators_translate_the_same_elsewhere(options, steps, joint, data, tmp_path):
    model = regard.train(_multi30k(data, options=options, joint=joint, steps=steps), tmp_path / "run", quiet=True)
    compare(model, list(read_lines(data / "multi30k" / "val.en.gz"))[:200], tmp_path, most=100)


@pytest.mark.slow
def test_the_quickstart_translates_the_same_elsewhere(tmp_path):
    options = {"languages": quickstart.LANGUAGES, "kinds": quickstart.KINDS}
    expressions.write(tmp_path / "text", train=50_000, validation=100, test=0, seed=1, **options)
    recipe = quickstart.recipe(tmp_path / "text")
    recipe["training"] |= {"max_steps": 1200, "validate_every": 1200}
    model = regard.train(recipe, tmp_path / "run", quiet=True)
    compare(model, [example.source for example in quickstart.held_out(200)], tmp_path, most=100)
