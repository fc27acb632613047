"""What a recipe or a command asks for is done, or refused before the work: never dropped without a word."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from tests.system.small_models import LINES, stored

import regard
from regard.api import validate
from regard.cli import main
from regard.core.errors import ConfigError, DataError, LengthError, UsageError
from regard.data.text import make_tokenizer
from regard.pipelines import make_pipeline
from regard.store import save_model

TINY = {"d_model": 8, "n_heads": 1, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
SHORT = {"max_steps": 2, "warmup": 1, "tokens_per_batch": 64, "validate_every": 2}


@pytest.fixture
def pairs(tmp_path: Path) -> dict:
    for name in ("train", "validation"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{line}\t{line}\n" for line in LINES))
    return {name: {"tsv": str(tmp_path / f"{name}.tsv")} for name in ("train", "validation")}


def translation(pairs: dict, options: dict | None = None, **training: object) -> dict:
    return {
        "task": "translation",
        "data": {**pairs, "tokenizer": {"kind": "word", "vocab_size": 80}, "max_tokens": 16},
        "model": {"name": "transformer", "options": {**TINY, **(options or {})}},
        "training": {**SHORT, **training},
    }


def masked(text: Path, validation: Path, **training: object) -> dict:
    return {
        "task": "masked_lm",
        "data": {"train": str(text), "validation": str(validation), "max_len": 16,
                 "tokenizer": {"kind": "wordpiece", "vocab_size": 80}},
        "model": {"name": "bert", "options": {"d_model": 8, "n_layers": 1, "n_heads": 1, "d_ff": 8}},
        "training": {**SHORT, **training},
    }  # fmt: skip


def test_a_held_out_line_that_cannot_be_translated_is_told_before_the_first_update(pairs, tmp_path):
    with open(pairs["validation"]["tsv"], "a") as file:
        file.write("the cat sat " * 20 + "\tthe cat\n")
    bounded = translation(pairs, {"position": "learned", "max_len": 20}, metric="bleu")
    with pytest.raises(LengthError, match="61 tokens, expected at most 20"):
        regard.train(bounded, tmp_path / "out", quiet=True)
    assert not (tmp_path / "out" / "log.jsonl").exists()
    limited = {**translation(pairs, metric="bleu"), "search": {"max_source": 30}}
    with pytest.raises(LengthError, match="line 5 is too long to translate.*raise max_source"):
        regard.train(limited, tmp_path / "limited", quiet=True)
    regard.train({**limited, "search": {"max_source": 99}}, tmp_path / "limited", quiet=True)
    regard.train(translation(pairs, {"position": "learned", "max_len": 20}), tmp_path / "loss", quiet=True)


def test_held_out_text_without_pairs_is_told_before_the_first_update(tmp_path):
    (tmp_path / "train").write_text("\n\n".join(f"{line}. {line}." for line in LINES * 3))
    (tmp_path / "held").write_text("the cat sat on the mat. a dog ran.\n")
    with pytest.raises(DataError, match="two documents or more"):
        regard.train(masked(tmp_path / "train", tmp_path / "held"), tmp_path / "out", quiet=True)
    assert not (tmp_path / "out" / "log.jsonl").exists()


def test_options_without_effect_are_refused(pairs, tmp_path):
    with pytest.raises(ConfigError, match="rows_per_batch does nothing in the task 'translation'"):
        regard.train(translation(pairs, rows_per_batch=2), tmp_path / "a", quiet=True)
    (tmp_path / "text").write_text("\n\n".join(LINES * 3))
    with pytest.raises(ConfigError, match="label_smoothing does nothing in the task 'masked_lm'"):
        regard.train(masked(tmp_path / "text", tmp_path / "text", label_smoothing=0.2), tmp_path / "b", quiet=True)


def test_rows_per_batch_limits_the_batches_of_a_classifier(tmp_path):
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "".join(f"{line}\tup\n{line} no\tdown\n" for line in LINES))
    recipe = {
        "task": "classification",
        "data": {"train": {"file": str(tmp_path / "rows.tsv"), "text": "text", "label": "label"},
                 "tokenizer": {"kind": "wordpiece", "vocab_size": 80}},
        "model": {"options": {"d_model": 8, "n_layers": 1, "n_heads": 1, "d_ff": 8}},
        "training": {"max_epochs": 1, "warmup": 1, "log_every": 1, "tokens_per_batch": 4096, "rows_per_batch": 2},
    }  # fmt: skip
    regard.train(recipe, tmp_path / "out", quiet=True)
    logged = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert sum("loss" in line for line in logged) == len(LINES)


def test_a_null_of_a_recipe_stays_null_when_it_is_validated(tmp_path):
    recipe = {
        "task": "bits",
        "data": {"kind": "copy", "length": [1, 3], "validation": None},
        "model": {"name": "ntm", "options": {"d_controller": 8, "n_reads": 0, "n_writes": 0}},
        "training": {"max_steps": 1, "warmup": 0},
    }
    regard.train(recipe, tmp_path / "out", quiet=True)
    with pytest.raises(UsageError, match="the recipe has no validation data"):
        validate(tmp_path / "out")
    assert "loss" in validate(tmp_path / "out", changes={"data.validation": "8"})


def test_a_change_may_go_below_a_null(pairs, tmp_path):
    recipe = translation({"train": pairs["train"]})
    regard.train(recipe, tmp_path / "out", quiet=True)
    assert "loss" in validate(tmp_path / "out", changes={"data.validation.tsv": pairs["validation"]["tsv"]})


def test_a_recipe_without_data_is_one_line(pairs, tmp_path, capsys):
    regard.train(translation(pairs), tmp_path / "out", quiet=True)
    for number, text in enumerate(
        ("task: translation\n", "task: translation\ndata:\n", "task: translation\ndata: x\n")
    ):
        (tmp_path / f"{number}.yaml").write_text(text)
        assert main(["evaluate", str(tmp_path / "out"), "--recipe", str(tmp_path / f"{number}.yaml")]) == 2
        said = capsys.readouterr().err
        assert "data" in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--beam", "5"], "--beam"),
        (["--engine", "int8"], "--engine"),
        (["--out", "x.txt"], "--out"),
        (["--graded", "2", "--shortlist", "x"], "--shortlist"),
        (["--suite", "glue", "--beam", "2"], "--beam"),
        (["--suite", "glue", "--training.lr", "1"], "--training.lr"),
        (["--suite", "words", "--source", "x"], "--source"),
    ],
)
def test_evaluate_refuses_options_that_it_would_ignore(words, named, tmp_path, capsys):
    assert main(["evaluate", str(tmp_path), *words]) == 2
    said = capsys.readouterr().err
    assert f"got {named}" in said
    assert said.count("\n") == 1


def test_a_model_without_the_head_of_a_task_is_named(tmp_path):
    (tmp_path / "pairs.tsv").write_text("a\tb\t1\nb\ta\t0\n" * 4)
    made = {"task": "sentence_similarity", "model": {"name": "encoder"}, "training": {"max_steps": 1},
            "data": {"train": {"file": str(tmp_path / "pairs.tsv"), "text": 0, "other": 1, "label": 2}}}  # fmt: skip
    line = "the model encoder cannot be trained for sentence similarity: expected model.name to be bert"
    with pytest.raises(ConfigError, match=line):
        regard.train(made, tmp_path / "run", quiet=True)


def test_a_tokenizer_without_cls_is_named_with_the_key_to_change(tmp_path):
    (tmp_path / "rows.tsv").write_text("a b\tx\nb c\ty\n" * 4)
    data = {"train": {"file": str(tmp_path / "rows.tsv")}, "tokenizer": {"kind": "space"}}
    made = {"task": "classification", "model": {"name": "encoder"}, "training": {"max_steps": 1}, "data": data}
    with pytest.raises(ConfigError, match=r"got data\.tokenizer\.kind space\. Set data\.tokenizer\.kind to wordpiece"):
        regard.train(made, tmp_path / "run", quiet=True)


def test_only_the_training_text_is_blamed_for_an_empty_vocabulary(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "held.txt").write_text("a b c\n")
    data = {"train": str(tmp_path / "empty.txt"), "validation": str(tmp_path / "held.txt"),
            "tokenizer": {"kind": "space", "min_count": 3}}  # fmt: skip
    made = {"task": "language_model", "model": {"name": "ngram"}, "training": {"max_epochs": 1}, "data": data}
    with pytest.raises(DataError, match=r"empty\.txt: no text to learn.*a word comes 3 times") as caught:
        regard.train(made, tmp_path / "run", quiet=True)
    assert "held.txt" not in str(caught.value)


def test_a_captioner_is_not_trained_from_scratch_under_an_encoder_that_is_not():
    data = {"images": "x", "captions": "y", "split": "train"}
    recipe = {"task": "captioning", "data": {"train": data}, "model": {"start": "z", "start_weights": False},
              "training": {"max_steps": 1}}  # fmt: skip
    from regard.runs.job import Job
    from regard.runs.parsing import parse_recipe

    with pytest.raises(ConfigError, match="'captioning' has no start_weights: false"):
        Job(parse_recipe(recipe, "test"), stored("show_tell", "captioning", _captioner(), {}))


def _captioner() -> dict:
    return {"vocab_size": 9, "d_embedding": 4, "d_hidden": 4, "encoder": "resnet",
            "encoder_options": {"image_size": 8, "widths": (4,), "blocks": 1}}  # fmt: skip


def test_any_of_several_end_tokens_ends_a_translation(tmp_path):
    tokenizer = make_tokenizer("word", LINES * 3, vocab_size=80)
    sizes = {**TINY, "source_vocab": tokenizer.vocab_size, "target_vocab": tokenizer.vocab_size}
    ends = [tokenizer.eos, *tokenizer.encode_batch(["the"])[0]]
    made = stored("transformer", "translation", sizes, {"tokens": {"eos": ends}}, tokenizer)
    save_model(tmp_path / "model", made)
    torch.manual_seed(0)
    model = regard.load(tmp_path / "model")
    written = model.translate_nbest([LINES[0]] * 20, sample=True, seed=1, max_length=30)
    assert all(ends[1] not in best[0].tokens for best in written)
    plain = make_pipeline(stored("transformer", "translation", sizes, {}, tokenizer))
    assert any(ends[1] in best[0].tokens for best in plain.translate_nbest([LINES[0]] * 20, sample=True, seed=1))


def test_word_vectors_keep_their_end(tmp_path):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran " * 60)
    recipe = {
        "task": "word_vectors",
        "data": {"train": str(tmp_path / "text"), "tokenizer": {"kind": "word", "min_count": 1}},
        "model": {"name": "word2vec", "options": {"d_model": 4}},
        "training": {"max_epochs": 1, "schedule": "constant"},
    }
    regard.train(recipe, tmp_path / "out", quiet=True)
    recipe["training"]["max_epochs"] = 2
    with pytest.raises(ConfigError, match="another recipe.*max_epochs 1 → 2"):
        regard.train(yaml.safe_load(yaml.safe_dump(recipe)), tmp_path / "out", quiet=True)
