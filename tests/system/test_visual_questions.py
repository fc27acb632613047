"""Questions about images as a user meets them: trained from an archive, resumed, answered, explained, refused."""

import json
import zipfile

import pytest
import torch
from PIL import Image

import regard
from regard.api import validate
from regard.cli import main
from regard.core.errors import ConfigError, DataError, UsageError
from regard.core.image_settings import ImageSettings
from regard.models import config_of, make_model
from regard.store import StoredModel, save_model

COLOURS = {"red": (200, 30, 30), "green": (30, 170, 60), "blue": (30, 60, 200)}
OPTIONS = {
    "encoder": "resnet",
    "encoder_options": {"widths": (8,), "blocks": 1},
    **{"d_embedding": 12, "d_model": 24, "d_attention": 12, "d_answer": 16, "dropout": 0.0},
}
DIFFERENTIAL = {"differential": "dcn", "exemplars": 4, "exemplar_questions": 3, "exemplar_words": 6}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A coloured square at the left or the right of each picture, in an archive laid out as easy-VQA's."""
    folder = tmp_path_factory.mktemp("asked")
    entries = []
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        for number in range(24):
            colour, left = list(COLOURS)[number % 3], number // 3 % 2
            image = Image.new("RGB", (8, 8), (230, 230, 225 - number % 5))
            image.paste(COLOURS[colour], (0 if left else 4, number // 6, 4 if left else 8, number // 6 + 4))
            image.save(folder / f"{number}.png")
            archive.write(folder / f"{number}.png", f"train/images/{number}.png")
            entries += [["What colour is it?", colour, number], ["is it red?", "no" if number % 3 else "yes", number]]
        archive.writestr("train/questions.json", json.dumps(entries))
    return folder


def recipe(place, options=None, **training):
    train = {"place": str(place / "data.zip"), "questions": "train/questions.json", "images": "train/images/{}.png"}
    usual = {"max_steps": 120, "lr": 5e-3, "warmup": 5, "schedule": "constant", "rows_per_batch": 8}
    return {
        "task": "visual_question_answering",
        "data": {"train": train, "validation_share": 0.1},
        "model": {"name": "vqa", "options": {**OPTIONS, **(options or {})}},
        "training": {**usual, "validate_every": 30, "metric": "loss", **training},
    }


@pytest.fixture(scope="module")
def trained(place):
    return regard.train(recipe(place, DIFFERENTIAL), place / "out", quiet=True)


def test_from_an_archive_to_answers(place, trained, capsys):
    image = str(place / "1.png")
    assert [each.text for each in trained.answer(["what colour is it?", "is it red?"], [image] * 2)] == ["green", "no"]
    assert trained.verbs() == {"answer": "a question answering model"}
    assert validate(place / "out")["accuracy"] == 1.0
    again = f'{{place: {place / "data.zip"}, questions: train/questions.json, images: "train/images/{{}}.png"}}'
    assert validate(place / "out", changes={"data.validation_share": "0", "data.validation": again})["accuracy"] > 0.9
    capsys.readouterr()
    assert main(["answer", str(place / "out"), image, "What colour is it?", "is it red?"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["green", "no"]
    asked = ["answer", str(place / "out"), "--question", "is it red?", "--context", str(place / "0.png"), "--json"]
    assert main(asked) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["answer"], set(said["scores"])) == ("yes", {"red", "green", "blue", "yes", "no"})
    (place / "lines.txt").write_text(f"is it red?\t{image}\n")
    assert main(["answer", str(place / "out"), "--file", str(place / "lines.txt")]) == 0
    assert capsys.readouterr().out.startswith("no\t")


def test_explained_with_its_exemplars_beside_it(place, trained, capsys):
    image = str(place / "1.png")
    for name in ("x.html", "x.svg", "x.json"):
        assert main(["explain", str(place / "out"), image, "is it red?", "--out", str(place / name)]) == 0
    page = (place / "x.html").read_text()
    assert page.count("data:image/png;base64,") == 9, "three pictures, each with two looks at it"
    assert "supporting: " in page
    assert "opposing: " in page
    capsys.readouterr()
    assert main(["explain", str(place / "out"), image, "is it red?"]) == 0
    assert "The answer is 'no'" in capsys.readouterr().out
    result = trained.explain(image, "is it red?", method="photo")
    assert len(result.data["maps"]) == 2
    assert len(result.data["beside"]) == 2
    assert "The sharpest look is 'look " in result.statements[1]
    assert result.panels[-1].columns[0] == "look"
    assert result.panels[-1].name == "The cell with the largest weight, by look"
    assert "first picture" not in result.panels[0].note, "the terminal shows only the copies"


def test_resuming_and_the_same_seed_change_no_bit(place, trained):
    short = {"max_steps": 6, "validate_every": 3, "ema": 0.9}
    whole = regard.train(recipe(place, DIFFERENTIAL, **short), place / "whole", quiet=True)
    regard.train(recipe(place, DIFFERENTIAL, **{**short, "max_steps": 4}), place / "parts", quiet=True)
    again = regard.train(recipe(place, DIFFERENTIAL, **short), place / "parts", quiet=True)
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), again.state_dict().values(), strict=True))
    bank, other = whole.model.bank, trained.model.bank
    assert torch.equal(bank.pixel_values, other.pixel_values), "exemplars depend on the seed alone"
    assert bank.usable.sum() == 8


@pytest.mark.parametrize("differential", ["dan", "dcn"])
def test_a_model_without_exemplars_gets_some(place, differential, capsys):
    plain = place / "plain"
    regard.train(recipe(place, max_steps=2), plain, quiet=True)
    further = {**recipe(place, max_steps=2, lr=1e-3)}
    further["model"] = {"start": str(plain), "options": {**DIFFERENTIAL, "differential": differential}}
    model = regard.train(further, place / f"{differential}_after")
    assert "train: 18 images" in capsys.readouterr().out, "24, without 2 that are held out and 4 exemplars"
    assert model.model.bank.usable.sum() == 8
    assert len(set(model.stored.extra["exemplars"])) == 4
    assert validate(place / f"{differential}_after").keys() == {"loss", "accuracy"}


def test_training_goes_on_without_the_exemplars(place, trained, capsys):
    further = {**recipe(place, max_steps=2), "model": {"start": str(place / "out")}}
    model = regard.train(further, place / "further")
    assert "train: 18 images" in capsys.readouterr().out
    assert torch.equal(model.model.bank.pixel_values, trained.model.bank.pixel_values)
    assert model.stored.extra["exemplars"] == trained.stored.extra["exemplars"]
    names = trained.stored.extra["exemplars"]
    pictures = [Image.open(place / name.rpartition("/")[2]) for name in names]
    torch.testing.assert_close(model.form.pixel_values(pictures), model.model.bank.pixel_values)
    other = {**further, "model": {"start": str(place / "out"), "options": {"differential": "none"}}}
    assert "exemplars" not in regard.train(other, place / "without").stored.extra
    assert "train: 22 images" in capsys.readouterr().out, "a model without exemplars trains on all"
    with zipfile.ZipFile(place / "other.zip", "w") as archive:  # other pictures with the same names
        for number in range(24):
            Image.new("RGB", (8, 8), (number, 9 * number, 0)).save(place / "odd.png")
            archive.write(place / "odd.png", f"train/images/{number}.png")
        archive.writestr("train/questions.json", json.dumps([["is it red?", "no", number] for number in range(24)]))
    further["data"]["train"]["place"] = str(place / "other.zip")
    regard.train(further, place / "elsewhere")
    assert "train: 22 images" in capsys.readouterr().out


def test_bad_input_is_refused_in_one_line(place, trained, capsys):
    (place / "no.png").write_text("no image")
    Image.new("RGB", (1, 1), COLOURS["red"]).save(place / "dot.png")
    image, folder = str(place / "1.png"), str(place / "out")
    cases = [
        ([str(place / "no.png"), "is it red?"], r"no.png is not an image"),
        ([str(place / "none.png"), "is it red?"], "none.png does not exist"),
        ([image, "какого это цвета?"], "the question has no word that this model knows: got 'какого это цвета?'"),
        ([image, "  "], "the question is empty"),
        ([image, "is it red?", ""], "question 2 is empty"),
        ([image], "there is no question about the image"),
        ([image, "is it?", "--question", "x", "--context", image], "questions are given in two ways"),
    ]
    for words, said in cases:
        assert main(["answer", folder, *words]) != 0, words
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1, lines
        assert said in lines[0]
    assert main(["answer", folder, str(place / "dot.png"), "what colour is it?"]) == 0, "one pixel is an image too"
    assert main(["explain", folder, image]) == 2
    assert "there is none about the image" in capsys.readouterr().err
    with pytest.raises(DataError, match="each question needs an image"):
        trained.answer(["is it?"], [])
    with pytest.raises(UsageError, match="each image needs a question"):
        trained.explain([image, image], ["is it red?"], method="photo")


def test_a_bad_line_is_named_and_those_before_it_are_answered(place, trained, capsys):
    image, file = str(place / "1.png"), place / "asked.txt"
    good = f"is it red?\t{image}\n"
    cases = [
        (f"is it red?\t{place / 'none.png'}\n", "regard: line 3: "),
        (f"какого это цвета?\t{image}\n", "line 3: the question has no word that this model knows: got 'какого"),
        (f"\t{image}\n", "line 3: the question is empty: expected at least one word. Write one, or leave it out."),
    ]
    for bad, said in cases:
        file.write_text(good * 2 + bad + good)
        assert main(["answer", str(place / "out"), "--file", str(file)]) == 1
        printed = capsys.readouterr()
        assert [line.split("\t")[0] for line in printed.out.splitlines()] == ["no", "no"]
        assert said in printed.err
        assert printed.err.count("\n") == 1
    assert main(["answer", str(place / "out"), image, "какого это цвета?"]) == 1
    assert capsys.readouterr().err.endswith("Ask in words of the questions that it was trained on.\n")


def test_an_encoder_to_start_from_stays_as_it_is_if_frozen(place):
    torch.manual_seed(0)
    config = config_of("resnet", {"image_size": 16, "widths": (8,), "blocks": 1, "n_labels": 4})
    stored = StoredModel("image_classification", "resnet", config, make_model("resnet", config).eval())
    stored.extra = {"image": ImageSettings(size=16, mean=(0.5,) * 3, std=(0.5,) * 3).model_dump(mode="json")}
    save_model(place / "encoder", stored)
    wanted = recipe(place, {"frozen": True}, max_steps=2)
    with pytest.raises(ConfigError, match=r"frozen encoder must have been trained.*data\.encoder"):
        regard.train(wanted, place / "frozen", quiet=True)
    wanted["data"]["encoder"] = str(place / "encoder")
    model = regard.train(wanted, place / "frozen", quiet=True)
    assert model.form.size == 16, "images are stretched to the encoder's size"
    own = model.model.encoder.state_dict()
    assert all(torch.equal(tensor, stored.model.state_dict()[name]) for name, tensor in own.items())


def test_bad_recipes_are_refused_in_one_line(place):
    for changed, said in (
        ({"questions": "train/none.json"}, "has no file train/none.json"),
        ({"images": "{}.jpg"}, "has no picture 0.jpg"),
    ):
        wrong = recipe(place)
        wrong["data"]["train"] |= changed
        with pytest.raises(DataError, match=said):
            regard.train(wrong, place / "bad", quiet=True)
    with pytest.raises(DataError, match="too few images to hold some out: got 22, expected more than 30"):
        regard.train(recipe(place, {**DIFFERENTIAL, "exemplars": 30}), place / "bad", quiet=True)
