"""Jobs on text: a tiny encoder learns an easy task through the whole run, and goes on from a model that is given."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import store
from regard.core.errors import ConfigError, DataError
from regard.runs.job import Job
from regard.runs.parsing import parse_recipe
from regard.runs.recipe import Recipe
from regard.runs.run import Run

TINY = {"d_model": 32, "n_layers": 1, "n_heads": 2, "d_ff": 64, "dropout": 0.0, "attention_dropout": 0.0}
TRAINING = {"max_epochs": 6, "lr": 3e-3, "warmup": 5, "tokens_per_batch": 512, "schedule": "constant"}
GOOD, BAD = ["good", "fine", "great", "lovely"], ["bad", "poor", "awful", "dull"]
FILL = ["the", "film", "was", "a", "very", "long", "story", "and", "its", "people", "were", "there"]


def recipe(task: str, data: dict[str, Any], **more: Any) -> Recipe:
    model = more.pop("model", {"options": TINY})
    tokenizer = {} if "start" in model else {"tokenizer": {"kind": "wordpiece", "vocab_size": 200, "lowercase": True}}
    parts = {"task": task, "data": {**tokenizer, **data}, "model": model, "training": {**TRAINING, **more}}
    return parse_recipe(parts)


def opinions(path: Path, seed: int, count: int = 200) -> str:
    dice = random.Random(seed)
    lines = ["text\tlabel"]
    for _ in range(count):
        words, (label, marks) = dice.sample(FILL, dice.randint(2, 8)), dice.choice([("up", GOOD), ("down", BAD)])
        words.insert(dice.randint(0, len(words)), dice.choice(marks))
        lines.append(f"{' '.join(words)}\t{label}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def classified(tmp_path: Path) -> dict[str, Any]:
    files = {name: opinions(tmp_path / f"{name}.tsv", n) for n, name in enumerate(("train", "validation"))}
    columns = {"text": "text", "label": "label"}
    return {name: {"file": file, **columns} for name, file in files.items()}


def test_classes_are_learnt_and_kept_with_the_model(classified: dict[str, Any], tmp_path: Path) -> None:
    made = recipe("classification", {**classified, "metrics": ["f1", "matthews"]}, metric="accuracy")
    out = Run(made, tmp_path / "out", quiet=True).train()
    stored = store.load_model(out)
    assert stored.task == "classification"
    assert stored.extra == {"labels": ["down", "up"], "pairs": False, "max_len": 128}
    job = Job(made, stored).prepare(tmp_path / "again", lambda _: None)
    found = job.validate(stored.model)
    assert found["accuracy"] > 0.95
    assert found.keys() == {"loss", "accuracy", "f1", "matthews"}
    budget = recipe("classification", classified, tokens_per_batch=64)
    small = Job(budget, stored).prepare(tmp_path / "again", lambda _: None)
    assert small.validate(stored.model)["loss"] == pytest.approx(found["loss"], rel=1e-5)


def test_a_model_is_taken_over_with_its_vocabulary(classified: dict[str, Any], tmp_path: Path) -> None:
    first = Run(recipe("classification", classified, max_epochs=1), tmp_path / "one", quiet=True).train()
    model = {"start": str(first)}
    second = Run(recipe("classification", classified, model=model, max_epochs=1), tmp_path / "two", quiet=True).train()
    one, two = store.load_model(first), store.load_model(second)
    assert one.source_tokenizer is not None
    assert two.source_tokenizer is not None
    assert one.source_tokenizer.encode_batch(["the film"]) == two.source_tokenizer.encode_batch(["the film"])
    pairs = {"stsb": str(stsb(tmp_path))}
    third = Run(recipe("sentence_similarity", pairs, model=model, max_epochs=1), tmp_path / "three", quiet=True).train()
    assert store.load_model(third).config.head == "sentence"  # type: ignore[attr-defined]


def test_a_number_is_learnt(tmp_path: Path) -> None:
    """How many good words there are."""
    dice, path = random.Random(0), tmp_path / "counts.csv"
    counts = [dice.randint(0, 4) for _ in range(300)]
    lines = [dice.sample([*dice.sample(GOOD, count), *dice.sample(FILL, 5)], 5 + count) for count in counts]
    path.write_text("".join(f'{count},"{" ".join(words)}"\n' for count, words in zip(counts, lines, strict=True)))
    file = {"file": str(path), "text": 1, "label": 0}
    data = {"train": file, "validation": file, "regression": True}
    made = recipe("classification", data, metric="pearson", max_epochs=20, tokens_per_batch=256)
    stored = store.load_model(Run(made, tmp_path / "counted", quiet=True).train())
    assert stored.extra == {"regression": True, "pairs": False, "max_len": 128}
    job = Job(made, stored).prepare(tmp_path / "again", lambda _: None)
    assert job.validate(stored.model)["pearson"] > 0.9


def test_pairs_of_a_glue_folder(tmp_path: Path) -> None:
    data = {"glue": str(stsb(tmp_path))}
    out = Run(recipe("classification", data, metric="spearman", max_epochs=1), tmp_path / "out", quiet=True).train()
    assert store.load_model(out).extra == {"regression": True, "pairs": True, "max_len": 128}
    with pytest.raises(ConfigError, match="training.metric is not a validation metric: got accuracy"):
        Run(recipe("classification", data, metric="accuracy"), tmp_path / "other", quiet=True).train()


def stsb(tmp_path: Path) -> Path:
    """Pairs that share all, some or none of their words, scored by how many."""
    folder = tmp_path / "STS-B"
    folder.mkdir(exist_ok=True)
    for seed, split in enumerate(("train", "dev")):
        dice, lines = random.Random(seed), []
        for _ in range(150):
            words = dice.sample(FILL, 4)
            shared = dice.randint(0, 4)
            rest = dice.sample([word for word in FILL if word not in words], 4 - shared)
            other = dice.sample([*words[:shared], *rest], 4)
            lines.append(f"g\tf\ty\t0\t{5 * shared / 4:.2f}\t{' '.join(words)}\t{' '.join(other)}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("mode", ["cosine", "contrastive"])
def test_sentences_that_share_words_become_alike(mode: str, tmp_path: Path) -> None:
    data = {"stsb": str(stsb(tmp_path)), "mode": mode, "minimum": 3.0, "max_rows": 32}
    made = recipe("sentence_similarity", data, metric="spearman", max_epochs=10)
    out = Run(made, tmp_path / "out", quiet=True).train()
    stored = store.load_model(out)
    job = Job(made, stored).prepare(tmp_path / "again", lambda _: None)
    assert job.validate(stored.model)["spearman"] > 0.8
    assert stored.task == "sentence_similarity"


def squad(path: Path, seed: int, count: int = 150) -> str:
    """Where it was: a place of one or two words stands among other words, or none does."""
    dice, paragraphs = random.Random(seed), []
    places = ["paris", "rome", "oslo", "new york", "san juan"]
    for n in range(count):
        words, place = dice.sample(FILL, dice.randint(4, 9)), dice.choice([*places, ""])
        at = dice.randint(0, len(words))
        context = " ".join([*words[:at], *([place] if place else []), *words[at:]])
        answers = [{"text": place, "answer_start": context.index(place)}] if place else []
        entry = {"question": "where was it", "id": str(n), "answers": answers, "is_impossible": not answers}
        paragraphs.append({"context": context, "qas": [entry]})
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    return str(path)


def test_spans_are_learnt(tmp_path: Path) -> None:
    files = {name: squad(tmp_path / f"{name}.json", n, 300) for n, name in enumerate(("train", "validation"))}
    made = recipe("question_answering", {**files, "max_len": 40, "overlap": 8}, metric="f1", max_epochs=10)
    out = Run(made, tmp_path / "out", quiet=True).train()
    stored = store.load_model(out)
    assert stored.extra == {"max_len": 40, "overlap": 8, "max_answer": 30, "threshold": 0.0, "unanswerable": True}
    job = Job(made, stored).prepare(tmp_path / "again", lambda _: None)
    found = job.validate(stored.model)
    assert found["exact"] > 0.9
    assert found["f1"] >= found["exact"]
    assert min(found["answerable_f1"], found["unanswerable_f1"]) > 0.8


@pytest.mark.parametrize(
    ("task", "data", "says"),
    [
        ("classification", {}, "train .* or glue"),
        ("classification", {"glue": "x", "regression": True}, "glue already sets"),
        ("classification", {"train": {"file": "a"}, "metrics": ["spearman"]}, "spearman is not a metric of classes"),
        ("classification", {"train": {"fil": "a"}}, "data.train.fil is unknown: did you mean 'file'"),
        ("sentence_similarity", {"train": {"file": "a"}}, "train.other is missing"),
        ("sentence_similarity", {"stsb": "a", "scale": [5, 0]}, "lower to a higher"),
        ("question_answering", {"train": "a", "max_len": 8}, "max_len"),
    ],
)
def test_wrong_recipes_are_told_before_anything_runs(task: str, data: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        recipe(task, data)


def test_wrong_data_is_told(classified: dict[str, Any], tmp_path: Path) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("text\tlabel\nfine\tup\nodd\tsideways\n")
    data = {**classified, "validation": {"file": str(bad), "text": "text", "label": "label"}}
    with pytest.raises(DataError, match="row 2 has an unknown label: got 'sideways', expected down, up"):
        Run(recipe("classification", data), tmp_path / "out", quiet=True).train()
    data = {"train": {**data["validation"], "label": "text"}, "regression": True}
    with pytest.raises(DataError, match="row 1 has a label that is not a number: got 'fine'"):
        Run(recipe("classification", data), tmp_path / "out2", quiet=True).train()
    bad.write_text("text\tlabel\nfine\tup\n")
    with pytest.raises(DataError, match="labels do not form classes: got 1"):
        Run(recipe("classification", {"train": {**data["train"], "label": 1}}), tmp_path / "out3", quiet=True).train()


def test_a_start_without_the_special_tokens_is_refused(classified: dict[str, Any], tmp_path: Path) -> None:
    from regard.data.text import make_tokenizer
    from regard.models import config_of, make_model

    tokenizer = make_tokenizer("word", ["the film"])
    config = config_of("bert", {**TINY, "vocab_size": tokenizer.vocab_size, "max_len": 16})
    stored = store.StoredModel("masked_lm", "bert", config, make_model("bert", config), tokenizer, tokenizer)
    store.save_model(tmp_path / "start", stored)
    with pytest.raises(ConfigError, match=r"reads \[CLS\] and \[SEP\], which the tokenizer does not have"):
        Run(recipe("classification", classified, model={"start": str(tmp_path / "start")}), tmp_path / "out").train()


def test_the_same_network_from_scratch_keeps_vocabulary_and_sizes(classified: dict[str, Any], tmp_path: Path) -> None:
    made = recipe("classification", classified, max_epochs=1)
    before = store.load_model(Run(made, tmp_path / "a", quiet=True).train())
    still = {"max_epochs": 1, "lr": 1e-12, "seed": 5}

    def trained(name: str, **choice: Any) -> store.StoredModel:
        model = {"start": str(tmp_path / "a"), **choice}
        return store.load_model(
            Run(recipe("classification", classified, model=model, **still), tmp_path / name, quiet=True).train()
        )

    kept, new = trained("kept"), trained("new", start_weights=False)
    assert new.config == kept.config == before.config
    assert new.source_tokenizer.pieces() == before.source_tokenizer.pieces()
    table = before.model.embedding.weight
    torch.testing.assert_close(kept.model.embedding.weight, table)
    assert (new.model.embedding.weight - table).abs().mean() > 0.01
    with pytest.raises(ConfigError, match="start_weights: false needs start"):
        recipe("classification", classified, model={"options": TINY, "start_weights": False})


def test_a_model_that_reads_from_left_to_right_learns_classes_too(classified: dict[str, Any], tmp_path: Path) -> None:
    """From scratch, as a start for the same task, and as one for going on with text."""
    tiny = {"d_model": 32, "n_layers": 1, "n_heads": 2, "dropout": 0.0, "embedding_dropout": 0.0}
    model = {"name": "gpt2", "options": {**tiny, "attention_dropout": 0.0}}
    out = Run(recipe("classification", classified, model=model, metric="accuracy"), tmp_path / "a", quiet=True).train()
    loaded = regard.load(out)
    assert loaded.config.head == "classes"
    said = loaded.classify(["the film was good", "a very awful story", ""])
    assert [one.label for one in said[:2]] == ["up", "down"]
    assert loaded.classify(["the film was good"])[0].score == pytest.approx(said[0].score, abs=1e-5)
    again = recipe("classification", classified, model={"start": str(out)}, max_epochs=1)
    stored = store.load_model(Run(again, tmp_path / "b", quiet=True).train())
    assert stored.task == "classification"
    text = tmp_path / "text.txt"
    text.write_text("the film was a very long story\n" * 40)
    going = recipe("language_model", {"train": str(text), "context": 16}, model={"start": str(out)}, max_epochs=1)
    assert regard.load(Run(going, tmp_path / "c", quiet=True).train()).generate(["the"], max_tokens=3)[0].text


@pytest.mark.parametrize("task", ["masked_lm", "language_model"])
def test_texts_of_a_table_are_running_text(task: str, classified: dict[str, Any], tmp_path: Path) -> None:
    column = {key: classified["train"][key] for key in ("file", "text")}
    data = {"train": [column, classified["validation"]["file"]], "documents": "files"}
    said: list[str] = []
    Job(recipe(task, data), None).prepare(tmp_path, said.append)
    count = "201 documents" if task == "masked_lm" else r"train: [\d,]+ characters"
    assert any(re.search(count, line) for line in said), "200 rows, and the file beside them"
    with pytest.raises(ConfigError, match=r"data\.train\.fil is unknown: did you mean 'file'") as refused:
        recipe(task, {"train": {"fil": column["file"]}})
    assert "string" not in str(refused.value), "what is wrong in the table, not that it could have been a path"


def test_the_order_of_a_run_follows_from_its_seed(classified: dict[str, Any], tmp_path: Path) -> None:
    outs = [
        Run(recipe("classification", classified, max_epochs=1), tmp_path / name, quiet=True).train() for name in "ab"
    ]
    one, two = (store.load_model(out).model.state_dict() for out in outs)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_share_of_a_parallel_text_is_held_out_by_sentence(tmp_path: Path) -> None:
    """A sentence with several translations is wholly on one side, in the vocabulary, the pairs and the references."""
    rows = [f"word{number % 40} sleeps\tmot{number % 40} dort {number}" for number in range(120)]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n")
    data = {"train": {"tsv": str(tmp_path / "pairs.tsv")}, "validation_share": 0.25}
    made = recipe("translation", {**data, "tokenizer": {"kind": "space", "vocab_size": 500}}, model={"size": "tiny"})
    said: list[str] = []
    job = Job(made, None)
    job.prepare(tmp_path, said.append)
    counts = [int(line.split()[1]) for line in said if "pairs:" in line]
    material = job.setup.material()
    assert sum(counts) == 120
    assert counts[1] == len(material["inputs"]) == 3 * len(set(material["inputs"]))
    assert job.setup.validates
    with pytest.raises(ConfigError, match="either validation or validation_share"):
        recipe("translation", {**data, "validation": data["train"]})
