"""Models that count, and bags of words, by the commands: train, evaluate, generate, classify, explain, convert."""

import json
import re

import pytest

import regard
from regard import api
from regard.cli import main
from regard.core.errors import ConfigError, RegardError

SENTENCES = ["the cat sat on the mat", "the dog sat on the rug", "a cat ran to the dog", "the dog ran to a cat"] * 12
GOOD, BAD = (
    ["good fun", "a great film", "nice and good", "great fun"],
    ["bad film", "dull and bad", "a dull mess", "a bad mess"],
)


def run(*words, code=0):
    assert main([str(word) for word in words]) == code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("words")
    (place / "text.txt").write_text("\n".join(SENTENCES) + "\n")
    rows = [f"{text}\t{label}" for texts, label in ((GOOD, "good"), (BAD, "bad")) for text in texts] * 6
    (place / "table.tsv").write_text("\n".join(rows) + "\n")
    lexicon = place / "lexicon"
    lexicon.mkdir()
    (lexicon / "positive.txt").write_text("good\ngreat\nnice\nfun\n")
    (lexicon / "negative.txt").write_text("bad\ndull\nmess\n")
    return place


def ngram_recipe(folder, **options):
    data = {"train": str(folder / "text.txt"), "validation": str(folder / "text.txt"), "documents": "lines",
            "context": 10000, "tokenizer": {"kind": "space"}}  # fmt: skip
    model = {"name": "ngram", "options": {"order": 3, **options}}
    return {"task": "language_model", "data": data, "model": model, "training": {"max_epochs": 1}}


def class_recipe(folder, name="bow", **options):
    table = {"file": str(folder / "table.tsv")}
    data = {"train": table, "validation": table, "tokenizer": {"kind": "space"}}
    training = {"max_epochs": 8, "lr": 0.05, "warmup": 0, "schedule": "constant", "metric": "accuracy"}
    return {"task": "classification", "data": data, "model": {"name": name, "options": options}, "training": training}


@pytest.fixture(scope="module")
def ngram(folder):
    regard.train(ngram_recipe(folder), folder / "ngram", quiet=True)
    return folder / "ngram"


def test_the_length_of_windows_changes_nothing(folder, ngram, tmp_path):
    """Each window would begin like a sentence."""
    short = ngram_recipe(folder)
    short["data"]["context"] = 4
    regard.train(short, tmp_path / "short", quiet=True)
    assert api.validate(tmp_path / "short") == api.validate(ngram)


def test_a_word_that_cannot_come_makes_the_loss_infinite(folder, tmp_path, capsys):
    regard.train(ngram_recipe(folder, smoothing="mle"), tmp_path / "mle", quiet=True)
    (tmp_path / "new.txt").write_text("mat the on sat\n")
    run("evaluate", tmp_path / "mle", "--source", tmp_path / "new.txt")
    said = capsys.readouterr()
    assert re.search(r"^perplexity +inf$", said.out, re.M)
    assert "some token has probability 0" in said.err
    run("evaluate", tmp_path / "mle", "--source", tmp_path / "new.txt", "--json")
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["perplexity"] is None


def test_bytes_that_are_no_text_are_told(folder, ngram, tmp_path, capsys):
    (tmp_path / "latin.txt").write_bytes(b"the cat sat\n" + "the m\u00fct\n".encode("latin-1"))
    recipe = ngram_recipe(folder)
    recipe["data"]["train"] = str(tmp_path / "latin.txt")
    recipe["model"]["options"] = {"order": 1}
    regard.train(recipe, tmp_path / "run")
    assert "latin.txt: 1 line is not UTF-8" in capsys.readouterr().out
    run("evaluate", ngram, "--source", tmp_path / "latin.txt")
    assert "latin.txt: 1 line is not UTF-8" in capsys.readouterr().err


def test_a_counted_model_by_the_commands(ngram, folder, capsys):
    run("evaluate", ngram, "--json")
    numbers = json.loads(capsys.readouterr().out)
    assert 1 < numbers["perplexity"] < 3
    assert numbers["word_perplexity"] == pytest.approx(numbers["perplexity"], rel=0.01), "</s> counts as a word"
    run("generate", ngram, "--prompt", "the cat", "--temperature", "0", "--max-tokens", "4")
    assert capsys.readouterr().out.startswith("the cat sat on the")
    run("generate", ngram, "--prompt", "the", "--temperature", "1", "--seed", "3", "--max-tokens", "5")
    first = capsys.readouterr().out
    run("generate", ngram, "--prompt", "the", "--temperature", "1", "--seed", "3", "--max-tokens", "5")
    assert capsys.readouterr().out == first
    run("convert", ngram, folder / "x.arpa", "--to", "arpa")
    run("explain", folder / "x.arpa", "the cat sat")
    assert "3 from a" not in capsys.readouterr().out
    run("convert", folder / "x.arpa", folder / "again", "--to", "regard")
    assert regard.load(folder / "again").perplexity("the cat sat on the rug") == pytest.approx(
        regard.load(ngram).perplexity("the cat sat on the rug"), rel=1e-5
    )


def test_counting_again_gives_the_same_bits(ngram, folder):
    regard.train(ngram_recipe(folder), folder / "twin", quiet=True)
    assert (folder / "twin/model.safetensors").read_bytes() == (ngram / "model.safetensors").read_bytes()


def test_the_order_of_each_word_is_shown(ngram, folder, capsys):
    run("explain", ngram, "the cat sat on zebra", "--json")
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["orders"] == [2, 3, 3, 3, 1]
    assert all(sum(shares) == pytest.approx(1, abs=1e-4) for shares in data["shares"])
    for suffix in ("svg", "html"):
        run("explain", ngram, "the cat sat", "--out", folder / f"orders.{suffix}")
        assert "cat" in (folder / f"orders.{suffix}").read_text()


def test_an_order_larger_than_the_text_is_one_line(folder, capsys):
    (folder / "short.txt").write_text("a b\n")
    recipe = ngram_recipe(folder, order=9)
    recipe["data"]["train"] = str(folder / "short.txt")
    (folder / "short.yaml").write_text(json.dumps(recipe))
    run("train", folder / "short.yaml", "--out", folder / "short", code=1)
    error = capsys.readouterr().err
    assert "order is larger than the text" in error
    assert error.strip().count("\n") == 0


@pytest.mark.parametrize("options", [{}, {"features": "tf_idf", "hidden": [8]}, {"features": "lexicon"}, {"name": "dan",
                                     "d_embedding": 8, "hidden": [8]}], ids=str)  # fmt: skip
def test_classifiers_learn_and_say_which_words_decided(folder, options, capsys):
    name = options.get("name", "bow")
    options = {**options, "lexicon": str(folder / "lexicon")} if name == "bow" else {**options}
    options.pop("name", None)
    out = folder / f"{name}-{options.get('features')}"
    model = regard.train(class_recipe(folder, name, **options), out, quiet=True)
    assert [answer.label for answer in model.classify(["good great fun", "a dull bad mess"])] == ["good", "bad"]
    run("explain", out, "a great film , not dull", "--json")
    data = json.loads(capsys.readouterr().out)["data"]
    sides = {entry["word"]: side for side in ("for", "against") for entry in data[side]}
    assert sides["great"] != sides["dull"]
    assert abs(data["rest"]) < (1e-2 if options.get("hidden") else 1e-4), "the parts add up"
    for suffix in ("svg", "html"):
        run("explain", out, "a great film", "--out", folder / f"words.{suffix}")
        assert "great" in (folder / f"words.{suffix}").read_text()
    assert regard.load(out).classify(["good"])[0].scores == model.classify(["good"])[0].scores


@pytest.mark.parametrize("name", ["bow", "dan"])
def test_a_run_that_goes_on_gives_the_same_bits(folder, name):
    """Also of what was taken from the training data before the first update."""
    options = {"features": "tf_idf", "word_dropout": 0.2} if name == "bow" else {"d_embedding": 6, "word_dropout": 0.5}
    recipe = class_recipe(folder, name, **options)
    regard.train(recipe, folder / f"{name}-whole", quiet=True)
    regard.train(recipe, folder / f"{name}-parts", changes={"training.max_epochs": "3"}, quiet=True)
    regard.train(recipe, folder / f"{name}-parts", quiet=True)
    whole, parts = (folder / f"{name}-{kind}" for kind in ("whole", "parts"))
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()
    last, other = (sorted(place.glob("checkpoints/*/model.safetensors"))[-1] for place in (whole, parts))
    assert last.parent.name == other.parent.name
    assert last.read_bytes() == other.read_bytes()


def test_a_missing_lexicon_and_an_empty_document_are_one_line(folder, capsys):
    (folder / "lexicon.yaml").write_text(json.dumps(class_recipe(folder, features="lexicon", lexicon="nowhere")))
    run("train", folder / "lexicon.yaml", "--out", folder / "none", code=1)
    assert "is not a lexicon" in capsys.readouterr().err
    model = regard.train(class_recipe(folder), folder / "plain", quiet=True)
    with pytest.raises(RegardError, match="text 2 is empty"):
        model.classify(["good", "  "])
    rows = (folder / "table.tsv").read_text() + "\tgood\n"
    (folder / "holes.tsv").write_text(rows)
    recipe = class_recipe(folder)
    recipe["data"]["train"] = {"file": str(folder / "holes.tsv")}
    with pytest.raises(RegardError, match=r"text 49 .*is empty"):
        regard.train(recipe, folder / "holes", quiet=True)


def test_a_counted_model_is_not_overwritten_by_another_recipe(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat\nthe dog sat on the log\n" * 20)
    data = {"train": str(tmp_path / "text.txt"), "tokenizer": {"kind": "space"}, "documents": "lines", "context": 8}
    recipe = {"task": "language_model", "data": data, "model": {"name": "ngram", "options": {"order": 3}}}
    regard.train(recipe, tmp_path / "out", quiet=True)
    with pytest.raises(ConfigError, match="holds a run of another recipe: got model.options.order 3 → 2"):
        regard.train({**recipe, "model": {"name": "ngram", "options": {"order": 2}}}, tmp_path / "out", quiet=True)
    assert regard.load(tmp_path / "out").config.order == 3


@pytest.fixture(scope="module")
def classifiers(folder):
    """A folder for each kind: one that sums words, and one that reads them in order."""
    options = {"bow": {}, "rnn": {"d_embedding": 6, "d_hidden": 6}}
    for name, given in options.items():
        regard.train(class_recipe(folder, name, **given), folder / f"{name}-kinds", quiet=True)
    return {name: folder / f"{name}-kinds" for name in options}


@pytest.mark.parametrize("name", ["bow", "rnn"])
def test_an_empty_line_has_no_class_and_keeps_the_others(name, classifiers, folder, capsys):
    (folder / "lines.txt").write_text("good fun\n\na dull mess\n  \n")
    run("classify", classifiers[name], "--file", folder / "lines.txt")
    said = capsys.readouterr()
    assert [line.split("\t")[-1] for line in said.out.splitlines()] == ["good fun", "-", "a dull mess", "-"]
    assert said.err.strip() == "regard: note: texts 2, 4 are empty and have no class"
    run("classify", classifiers[name], "--file", folder / "lines.txt", "--json")
    assert [json.loads(line)["label"] is None for line in capsys.readouterr().out.splitlines()] == [0, 1, 0, 1]
    with pytest.raises(RegardError, match="text 2 is empty"):
        regard.load(classifiers[name]).classify(["good", "  "])


def test_an_image_is_no_text(classifiers, folder, capsys):
    (folder / "picture.png").write_bytes(b"any")
    run("classify", classifiers["bow"], folder / "picture.png", code=2)
    assert "picture.png is an image, and this model reads text. Give a text" in capsys.readouterr().err
    run("classify", classifiers["bow"], "no-such-picture.png")


def test_an_unknown_word_is_shown_and_is_no_part_of_the_next(ngram, capsys):
    run("generate", ngram, "--prompt", "zebra yak", "--beam", "1", "--max-tokens", "2", "--min-length", "2")
    assert capsys.readouterr().out.startswith("zebra yak ")
    tokenizer = regard.load(ngram).tokenizer
    ids = [tokenizer.bos, *tokenizer.encode_batch(["the yak sat"])[0], tokenizer.eos]
    assert tokenizer.decode(ids, unknown=True) == "the <unk> sat"
    assert tokenizer.decode(ids) == "the sat", "translators leave unknown words out, as they always have"


def test_a_text_to_evaluate_on_needs_no_training_text(tmp_path, folder, capsys):
    made = ngram_recipe(folder)
    text, test = tmp_path / "train.txt", tmp_path / "test.txt"
    text.write_text((folder / "text.txt").read_text())
    test.write_text("the cat sat on the rug\na dog ran to the mat\n")
    for data in ({"validation": str(text)}, {"validation": None, "validation_share": 0.2}):
        out = tmp_path / f"out{len(data)}"
        regard.train({**made, "data": {**made["data"], "train": str(text), **data}}, out, quiet=True)
        run("evaluate", out, "--source", test, "--json")
        before = capsys.readouterr().out
        text.rename(tmp_path / "gone.txt")
        run("evaluate", out, "--source", test, "--json")
        assert capsys.readouterr().out == before
        (tmp_path / "gone.txt").rename(text)


def test_a_file_of_counts_is_evaluated_on_a_text(ngram, folder, capsys):
    run("convert", ngram, folder / "y.arpa", "--to", "arpa")
    run("evaluate", folder / "y.arpa", "--source", folder / "text.txt", "--json")
    alone = json.loads(capsys.readouterr().out.splitlines()[-1])
    run("evaluate", ngram, "--json")
    assert alone["perplexity"] == pytest.approx(json.loads(capsys.readouterr().out)["perplexity"], rel=1e-4)
    run("evaluate", folder / "y.arpa", code=2)
    assert "Give --source TEXT for a language model" in capsys.readouterr().err
    text = (folder / "y.arpa").read_text()
    (folder / "wrong.arpa").write_text(re.sub("ngram 2=.*", "ngram 2=3", text))
    run("evaluate", folder / "wrong.arpa", "--source", folder / "text.txt", code=1)
    said = capsys.readouterr().err
    assert re.search(r"wrong count of 2-grams: got \d+ of them, expected 3, .*correct its line 'ngram 2=3'", said)


@pytest.mark.parametrize(
    ("kind", "method", "line"),
    [
        ("bow", "gradients", "needs a layer with a state for each token: got a bow without one. Use --method words"),
        ("bow", "lens", "no output layer to apply to the states of its layers. Use --method words or attribute."),
        ("bow", "document", "got a bow. Use --method words or attribute. A model such as han has documents."),
        ("ngram", "maps", "got an ngram without attention. Use --method orders."),
    ],
)
def test_a_method_that_does_not_fit_names_one_that_does(kind, method, line, ngram, classifiers, capsys):
    run("explain", ngram if kind == "ngram" else classifiers[kind], "good fun and great", "--method", method, code=2)
    assert line in capsys.readouterr().err


def test_an_empty_training_file_is_named(folder, capsys):
    (folder / "empty.txt").write_text("")
    recipe = ngram_recipe(folder)
    recipe["data"]["train"] = str(folder / "empty.txt")
    (folder / "empty.yaml").write_text(json.dumps(recipe))
    run("train", folder / "empty.yaml", "--out", folder / "empty", code=1)
    assert "empty.txt" in capsys.readouterr().err
