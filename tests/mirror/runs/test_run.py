"""A run folder goes on only with what it was begun with: the recipe, and the files of the model to start from."""

import json

import pytest
import torch

import regard
from regard import api
from regard.core.errors import ConfigError, DataError
from regard.data.text import make_tokenizer
from regard.models import config_of, make_model
from regard.pipelines import make_pipeline
from regard.runs.parsing import parse_recipe
from regard.runs.run import Run
from regard.runs.setup import TokenizerConfig
from regard.store import StoredModel

LINES = ["the cat sat on the mat", "a dog ran to the old house", "who saw the cat ?", "the house is old"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("\n".join(LINES * 5) + "\n")
    return path


def language_model(text, **training) -> dict:
    return {
        "task": "language_model",
        "data": {"train": str(text), "tokenizer": {"kind": "char"}, "context": 8},
        "model": {"name": "gpt2", "options": {"d_model": 8, "n_layers": 1, "n_heads": 1, "dropout": 0.0}},
        "training": {"rows_per_batch": 2, "warmup": 2, "lr": 1e-2, **training},
    }


@pytest.mark.parametrize(
    ("task", "given", "made"),
    [
        ("captioning", {"min_count": 1}, TokenizerConfig(kind="space", vocab_size=10_000, lowercase=True, min_count=1)),
        ("captioning", {"kind": "bpe"}, TokenizerConfig(kind="bpe")),
        ("masked_lm", {"vocab_size": 500}, TokenizerConfig(kind="wordpiece", lowercase=True, vocab_size=500)),
        ("language_model", {"vocab_size": 500}, TokenizerConfig(vocab_size=500)),
    ],
)
def test_a_recipe_that_changes_the_size_of_a_vocabulary_keeps_its_kind(text, task, given, made):
    train = {"images": "pictures", "captions": "captions"} if task == "captioning" else str(text)
    recipe = parse_recipe({"task": task, "data": {"train": train, "tokenizer": given}, "training": {"max_steps": 1}})
    assert recipe.data.tokenizer == made


@pytest.mark.parametrize(("words_only", "kind"), [(True, "space"), (False, "word")])
def test_captions_with_punctuation_are_split_at_it(words_only, kind):
    data = {"train": {"images": "pictures", "captions": "captions"}, "words_only": words_only}
    recipe = parse_recipe({"task": "captioning", "data": data, "training": {"max_steps": 1}})
    assert recipe.data.tokenizer.kind == kind
    again = parse_recipe({"task": "captioning", "data": recipe.data.model_dump(), "training": {"max_steps": 1}})
    assert again.data.tokenizer == recipe.data.tokenizer


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("limit", ["max_steps", "max_epochs"])
def test_a_schedule_that_ends_keeps_its_end(text, tmp_path, schedule, limit):
    """The rates of the updates that were made belong to the number that there were to be."""
    regard.train(language_model(text, schedule=schedule, **{limit: 1}), tmp_path / "a", quiet=True)
    before = (tmp_path / "a" / "recipe.json").read_text()
    with pytest.raises(ConfigError, match=rf"another recipe.*training.{limit} 1 → 4.*another --out"):
        regard.train(language_model(text, schedule=schedule, **{limit: 4}), tmp_path / "a", quiet=True)
    assert (tmp_path / "a" / "recipe.json").read_text() == before


@pytest.mark.parametrize("schedule", ["inverse_sqrt", "constant"])
def test_other_schedules_may_go_on_for_longer(text, tmp_path, schedule):
    for name, steps in (("a", (2, 5)), ("b", (5,))):
        for number in steps:
            regard.train(language_model(text, schedule=schedule, max_steps=number), tmp_path / name, quiet=True)
    one, other = (regard.load(tmp_path / name).model.state_dict() for name in ("a", "b"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_run_of_one_update_trains(text, tmp_path, schedule):
    recipe = language_model(text, schedule=schedule, max_steps=1)
    recipe["training"]["warmup"] = 0
    run = Run(parse_recipe(recipe, "test"), tmp_path / "a", quiet=True)
    trained = regard.load(run.train()).model.state_dict()
    torch.manual_seed(1)
    config = regard.load(tmp_path / "a").config
    fresh = make_model("gpt2", config).state_dict()
    assert any(not torch.equal(trained[name], fresh[name]) for name in fresh)


def test_checkpoints_to_average_keep_their_distance(text, tmp_path):
    recipe = language_model(text, max_steps=4, average=2, checkpoint_every=2)
    regard.train(recipe, tmp_path / "a", quiet=True)
    with pytest.raises(ConfigError, match="training.checkpoint_every 2 → 1"):
        regard.train(recipe, tmp_path / "a", changes={"training.checkpoint_every": "1"}, quiet=True)


def test_a_changed_vocab_txt_is_noticed(tmp_path):
    """A folder of BERT's with its first kind of vocabulary."""
    tokenizer = make_tokenizer("wordpiece", LINES * 3, vocab_size=60, marks="bert")
    sizes = {"d_model": 8, "n_layers": 1, "n_heads": 1, "d_ff": 8, "max_len": 32}
    config = config_of("bert", {**sizes, "vocab_size": tokenizer.vocab_size, "head": "masked_lm"})
    stored = StoredModel("masked_lm", "bert", config, make_model("bert", config), tokenizer, tokenizer)
    start = tmp_path / "start"
    api.convert(make_pipeline(stored), start, to="hf")
    vocabulary = json.loads((start / "tokenizer.json").read_text())["model"]["vocab"]
    (start / "tokenizer.json").unlink()
    (start / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(vocabulary, key=vocabulary.get)))
    table = tmp_path / "table.tsv"
    table.write_text("text\tlabel\n" + "".join(f"{line}\t{n % 2}\n" for n, line in enumerate(LINES * 3)))
    recipe = {
        "task": "classification",
        "data": {"train": {"file": str(table), "text": "text", "label": "label"}, "max_len": 16},
        "model": {"start": str(start)},
        "training": {"max_steps": 1, "warmup": 1},
    }
    regard.train(recipe, tmp_path / "out", quiet=True)
    regard.train(recipe, tmp_path / "out", quiet=True)
    (start / "vocab.txt").write_text((start / "vocab.txt").read_text().replace("\ncat\n", "\ndog\n"))
    with pytest.raises(DataError, match="the training files have changed"):
        regard.train(recipe, tmp_path / "out", quiet=True)


@pytest.mark.parametrize(
    "name",
    ["vocab.txt", "source.spm", "target.spm", "vocab.json", "merges.txt", "tokenizer.model", "spiece.model",
     "target_tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
     "generation_config.json", "1_Pooling/config.json", "model-00001-of-00002.safetensors"],
)  # fmt: skip
def test_every_file_of_a_folder_to_start_from_counts(text, tmp_path, name):
    changed = tmp_path / "start" / name
    changed.parent.mkdir(parents=True)
    changed.write_text("as it was")
    refused(text, tmp_path, tmp_path / "start", changed)


@pytest.mark.parametrize("name", ["stories.bin", "tokenizer.bin"])
def test_a_llama2c_checkpoint_to_start_from_counts(text, tmp_path, name):
    for each in ("stories.bin", "tokenizer.bin"):
        (tmp_path / each).write_text("as it was")
    refused(text, tmp_path, tmp_path / "stories.bin", tmp_path / name)


def refused(text, tmp_path, start, changed):
    recipe = parse_recipe({**language_model(text, max_steps=1), "model": {"start": str(start)}}, "test")
    run = Run(recipe, tmp_path / "out", quiet=True)
    run._check_files([text])
    (tmp_path / "out" / "checkpoints" / "step-00000001").mkdir(parents=True)
    run._check_files([text])
    changed.write_text("changed")
    with pytest.raises(DataError, match="the training files have changed"):
        run._check_files([text])
