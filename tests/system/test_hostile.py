"""Files that are made to harm: one line, before the memory or the time is taken."""

import gzip
import json
import os
import resource
import subprocess
import sys
import time

import pytest
import torch
from tests.system.small_models import LINES, hf, stored

import regard
from regard.core import weights
from regard.core.config import read_config
from regard.core.errors import ConfigError, DataError, LengthError, RegardError, WeightsError
from regard.core.lines import read_lines
from regard.data.text import make_tokenizer
from regard.pipelines import make_pipeline


@pytest.fixture(autouse=True)
def little_work():
    """Each test takes less than two seconds of CPU time and 300 MB."""
    time_before, used_before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.process_time() - time_before < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used_before < 300_000


def changed(folder, name="config.json", **fields):
    known = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
    (folder / name).write_text(json.dumps({**known, **fields}))
    (folder / "manifest.json").unlink(missing_ok=True)
    return folder


@pytest.mark.parametrize("field", ["num_hidden_layers", "vocab_size", "hidden_size", "intermediate_size"])
@pytest.mark.parametrize("size", [10**6, 10**9, 10**18, 10**30])
def test_sizes_beyond_the_weights(bert, tmp_path, field, size):
    folder = changed(hf(bert("classes", "classification"), tmp_path / "m"), **{field: size})
    with pytest.raises(RegardError, match="config.json: .* is too large: got .* expected at most|should be|not fit"):
        regard.load(folder)


@pytest.mark.parametrize("size", [10**9, 10**18, -1, 0, "many", [3], None, 2.5, True])
def test_numbers_of_labels(bert, tmp_path, size):
    folder = changed(hf(bert("classes", "classification"), tmp_path / "m"), num_labels=size, id2label=None)
    with pytest.raises(ConfigError, match="num_labels is not a number of classes"):
        regard.load(folder)


@pytest.mark.parametrize("named", [["a"], "a", 7, {"x": "a"}, {"0": "a", "1e9": "b"}, {"0": ["a"], "": "b"}])
def test_labels_that_are_no_mapping(bert, tmp_path, named):
    folder = changed(hf(bert("classes", "classification"), tmp_path / "m"), id2label=named)
    with pytest.raises(ConfigError, match="id2label is invalid"):
        regard.load(folder)


@pytest.mark.parametrize("value", [["gelu"], {"gelu": 1}, 3, None])
def test_fields_that_cannot_be_looked_up(bert, tmp_path, value):
    folder = changed(hf(bert("none", "sentence_similarity"), tmp_path / "m"), hidden_act=value)
    with pytest.raises(ConfigError, match="hidden_act is not supported"):
        regard.load(folder)


def test_our_own_folders_are_checked_as_well(gpt2, tmp_path):
    gpt2.save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())["config"]
    for field in ("n_layers", "vocab_size"):
        changed(tmp_path / "m", config={**config, field: 10**9})
        with pytest.raises(RegardError, match=f"{field} is too large|damaged|manifest"):
            regard.load(tmp_path / "m")


@pytest.mark.parametrize(
    "settings",
    [
        {"size": 200_000},
        {"size": {"height": 200_000, "width": 200_000}},
        {"size": {"shortest_edge": 10**9}},
        {"size": "large"},
        {"size": [1, 2, 3]},
        {"size": {"height": "a"}},
        {"size": -3},
        {"size": None},
        {"image_mean": "grey"},
        {"image_mean": [0.5]},
        {"image_std": [0, 0, 0]},
        {"image_std": {"r": 1}},
        {"image_mean": [None, None, None]},
        {"resample": 77},
        {"resample": "bicubic"},
        {"rescale_factor": "1/255"},
        {"do_resize": "yes"},
        {"do_center_crop": True, "crop_size": {"width": 8}},
        {"do_center_crop": True, "crop_size": {"width": 8, "height": 4}},
    ],
)
def test_image_settings_of_the_wrong_kind_or_size(vit, tmp_path, settings):
    folder = changed(hf(vit, tmp_path / "m"), "preprocessor_config.json", **settings)
    with pytest.raises(ConfigError, match="preprocessor_config.json"):
        regard.load(folder)


MERGES = "a0: &a0 {k: 1}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [" + ", ".join([f"*a{n - 1}"] * 9) + "]\n  x: 1\n" for n in range(1, 30)
)
ALIASES = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    "text", [MERGES, ALIASES, "a: &a [*a]\n", "a: &a {b: *a}\n", "a: &a\n  <<: *a\n", "x: " + "a" * 300_000]
)
def test_recipes_that_stand_for_more_than_they_say(text, tmp_path):
    (tmp_path / "bomb.yaml").write_text(text)
    with pytest.raises(ConfigError, match="aliases expand to more than|too large|unconstructable|recursive"):
        read_config(tmp_path / "bomb.yaml")


def test_a_recipe_may_use_aliases(tmp_path):
    (tmp_path / "sound.yaml").write_text("a: &a {x: 1, y: [2]}\nb: {<<: *a, y: 3}\nc: [*a, *a]\n")
    a = {"x": 1, "y": [2]}
    assert read_config(tmp_path / "sound.yaml") == {"a": a, "b": {"x": 1, "y": 3}, "c": [a, a]}


def test_a_packed_line_without_end(tmp_path):
    path = tmp_path / "line.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"first\n")
        for _ in range(130):
            file.write(bytes(2**20))
    lines = read_lines(path)
    assert next(lines) == "first"
    with pytest.raises(DataError, match="line.gz has a line that is too long: got more than 134,217,728 bytes"):
        next(lines)


@pytest.fixture(scope="module")
def translator():
    tokenizer = make_tokenizer("bpe", LINES * 3, vocab_size=60)
    options = {
        "source_vocab": tokenizer.vocab_size, "target_vocab": tokenizer.vocab_size, "d_model": 8, "n_heads": 2,
        "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1,
    }  # fmt: skip
    return make_pipeline(stored("transformer", "translation", options, {}, tokenizer))


def test_a_source_of_a_megabyte_without_spaces(translator, tmp_path):
    with pytest.raises(LengthError, match="line 2 is too long to translate: got .* tokens, expected at most 1,024"):
        translator.translate(["the cat", "dog" * 350_000])
    with pytest.raises(LengthError, match="line 1 is too long"):
        translator.align("dog" * 9000, "cat")
    line = "the cat " * 40
    count = len(translator.source_tokenizer.encode_batch([line])[0])
    with pytest.raises(LengthError, match=f"got {count} tokens, expected at most {count - 1}"):
        translator.translate([line], max_source=count - 1)
    assert len(translator.translate([line], max_source=count, beam=1, max_length=3)) == 1


def test_the_command_says_which_line_is_too_long(translator, tmp_path):
    translator.save(tmp_path / "m")
    words = [sys.executable, "-m", "regard", "translate", str(tmp_path / "m")]
    done = subprocess.run([*words, "--beam", "1"], input="cat" * 9000, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("regard: line 1 is too long to translate")
    assert "--max-source" in done.stderr
    assert done.stderr.count("\n") == 1


def test_invalid_utf8_on_standard_input_is_told(translator, tmp_path):
    translator.save(tmp_path / "m")
    words = [sys.executable, "-m", "regard", "translate", str(tmp_path / "m"), "--beam", "1", "--max-length", "3"]
    text = b"the cat\n\xff\xfe dog\nthe \xc3 mat\n"
    done = subprocess.run(words, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 3
    assert "regard: note: 2 lines of standard input were not UTF-8; invalid bytes became" in (done.stderr.decode())
    words = [sys.executable, "-m", "regard", "explain", str(tmp_path / "m"), "-", "the", "--json"]
    done = subprocess.run(words, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"2 lines of standard input were not UTF-8" in done.stderr


def test_a_tied_name_of_nothing(tmp_path):
    weights.write(tmp_path / "a.safetensors", {"a": torch.zeros(2)}, metadata={"regard.tied": '{"b": "c"}'})
    with pytest.raises(WeightsError, match="ties names to tensors that it lacks"):
        weights.read_tensors(tmp_path / "a.safetensors")
    weights.write(tmp_path / "a.safetensors", {"a": torch.zeros(2)}, metadata={"regard.tied": "[]"})
    with pytest.raises(WeightsError, match="damaged"):
        weights.read_tensors(tmp_path / "a.safetensors")


def test_a_llama2c_checkpoint_with_heads_of_one_number(tmp_path):
    import struct

    path = tmp_path / "model.bin"
    path.write_bytes(struct.pack("<7i", 4, 8, 1, 4, 4, 5, 6) + os.urandom(4096))
    with pytest.raises(DataError, match="is not a model"):
        regard.load(path)
