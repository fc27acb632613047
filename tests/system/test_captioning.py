"""Captions as a user meets them: trained from pixels and from kept features, resumed, evaluated, explained, refused."""

import itertools
import json
import tarfile

import pytest
import torch
from PIL import Image

import regard
from regard.api import grade, validate
from regard.cli import main
from regard.core.errors import ConfigError, DataError
from regard.core.image_settings import ImageSettings
from regard.data.captions import read_captions, words_only
from regard.data.images import ImageForm
from regard.data.pictures import Pictures
from regard.models import config_of, make_model
from regard.runs.features import features_of, key_of
from regard.store import StoredModel, save_model

COLOURS = {"red": (200, 30, 30), "green": (30, 170, 60), "blue": (30, 60, 200), "black": (10, 10, 10)}
SIZES = {"d_embedding": 16, "d_hidden": 24, "dropout": 0.0, "d_memory": 16, "d_attention": 16}

FROM_PIXELS = {
    **{"encoder": "resnet", "frozen": False},
    "encoder_options": {"image_size": 16, "widths": (8, 16), "blocks": 1},
}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Pictures whose left and right halves have colours, two captions each; in a folder and in an archive."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "pictures"
    folder.mkdir()
    lines = []
    for number, (left, right) in enumerate(itertools.product(COLOURS, COLOURS)):
        image = Image.new("RGB", (16, 16), COLOURS[left])
        image.paste(COLOURS[right], (8, 0, 16, 16))
        image.save(folder / f"{number}.png")
        captions = [f"{left.capitalize()} beside {right} .", f"{left} beside {right}"]
        lines.append(json.dumps({"image": f"{number}.png", "split": "train", "captions": captions}))
    (tmp_path / "captions.jsonl").write_text("\n".join(lines) + "\n")
    with tarfile.open(tmp_path / "pictures.tar", "w") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, arcname=path.name)
    return tmp_path


@pytest.fixture
def encoder(data):
    torch.manual_seed(0)
    config = config_of("resnet", {"image_size": 16, "widths": (8, 16), "blocks": 1, "n_labels": 4})
    form = ImageSettings(size=16, mean=(0.5,) * 3, std=(0.5,) * 3)
    stored = StoredModel("image_classification", "resnet", config, make_model("resnet", config).eval())
    stored.extra = {"image": form.model_dump(mode="json")}
    save_model(data / "encoder", stored)
    return stored.model


def recipe(place, *, images="pictures", data=None, **changes):
    files = {"images": str(place / images), "captions": str(place / "captions.jsonl"), "split": "train"}
    options = {**SIZES, **changes.pop("options", {})}
    training = {"max_steps": 120, "lr": 1e-2, "warmup": 10, "tokens_per_batch": 100, "validate_every": 60}
    return {
        "task": "captioning",
        "data": {"train": files, "validation": files, "tokenizer": {"kind": "word", "min_count": 1},
                 **(data or {})},
        "model": {"name": "show_attend_tell", "options": options},
        "training": {**training, "metric": "exact_text", "label_smoothing": 0.0, **changes},
        "evaluation": ["caption_bleu", "chrf", "exact_text"],
    }  # fmt: skip


def test_from_pixels_to_captions(data, capsys):
    model = regard.train(recipe(data, options=FROM_PIXELS, data={"size": 16}), data / "out", quiet=True)
    files = [str(data / "pictures" / f"{number}.png") for number in (1, 7)]
    assert model.caption(files) == ["red beside green", "green beside black"]
    assert model.verbs() == {"caption": "a captioning model"}
    numbers = validate(data / "out")
    assert (numbers["exact_text"], numbers["bleu_1"]) == pytest.approx((1.0, 100.0))
    assert main(["caption", str(data / "out"), *files, "--nbest", "2"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == [files[0], files[0], files[1], files[1]]
    assert lines[0][2] == "red beside green"
    for name in ("x.html", "x.svg", "x.png", "x.json"):
        assert main(["explain", str(data / "out"), files[0], "--out", str(data / name)]) == 0
    assert (data / "x.html").read_text().count("data:image/png;base64,") == 5  # the picture, three words, the end
    assert main(["explain", str(data / "out"), files[0], "blue beside red"]) == 0
    assert "The given caption: blue beside red" in capsys.readouterr().out


def test_kept_features_are_reused_and_resuming_changes_no_bit(data, encoder, capsys):
    given = {"encoder": str(data / "encoder"), "flip": True}
    short = {"max_steps": 8, "validate_every": 4, "metric": "loss"}
    whole = regard.train(recipe(data, data=given, **short), data / "whole")
    said = capsys.readouterr().out
    assert said.count("features of 16 images") == 2, "mirrored for training, as they are for validation"
    regard.train(recipe(data, data=given, **{**short, "max_steps": 4}), data / "parts")
    again = regard.train(recipe(data, data=given, **short), data / "parts")
    assert "features of" not in capsys.readouterr().out
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), again.state_dict().values(), strict=True))
    inner = whole.model.encoder
    assert all(torch.equal(tensor, encoder.state_dict()[name]) for name, tensor in inner.state_dict().items())
    before = len(list((data / "cache" / "features").iterdir()))
    validate(data / "whole")  # the encoder in the model's own folder is the same, so its features are found
    assert len(list((data / "cache" / "features").iterdir())) == before
    regard.train(recipe(data, images="pictures.tar", data={**given, "keep": False}, **short), data / "pixels")


def test_learning_from_its_own_captions_resumes_to_the_bit(data, encoder, capsys):
    given = {"encoder": str(data / "encoder"), "flip": True}
    regard.train(recipe(data, data=given, max_steps=40, metric="loss"), data / "first", quiet=True)

    def further(steps, **changes):
        sampled = {"max_steps": steps, "validate_every": 4, "rows_per_batch": 4, "metric": "bleu_4", "lr": 1e-3}
        more = recipe(data, data={**given, "samples": 3}, **{**sampled, **changes})
        more["model"] = {"start": str(data / "first")}
        return more

    whole = regard.train(further(8), data / "whole", quiet=True)
    regard.train(further(4), data / "parts", quiet=True)
    again = regard.train(further(8), data / "parts", quiet=True)
    assert all(torch.equal(a, b) for a, b in zip(whole.state_dict().values(), again.state_dict().values(), strict=True))
    with pytest.raises(ConfigError, match="label_smoothing does nothing with data.samples"):
        regard.train(further(6, label_smoothing=0.1), data / "smooth", quiet=True)
    alone = further(6)
    alone["data"]["samples"] = 1
    with pytest.raises(ConfigError, match="compared with the others"):
        regard.train(alone, data / "alone", quiet=True)
    hard = recipe(data, data={**given, "samples": 3}, options={"attention": "hard"}, max_steps=2, metric="loss")
    with pytest.raises(ConfigError, match="needs soft attention"):
        regard.train(hard, data / "hard", quiet=True)


def test_captions_without_images_teach_their_words(data, encoder, capsys):
    """Captions of images that are not there are learnt from; those of held-out images are not."""
    lines = ["20.png#0\tpurple beside orange .", "21.png#0\tnot to be read", "3.png#0\tnor this"]
    (data / "others.tsv").write_text("\n".join(lines) + "\n")
    (data / "names.txt").write_text("20.png\n3.png\n")
    unseen = {"captions": str(data / "others.tsv"), "names": str(data / "names.txt")}
    given = {"encoder": str(data / "encoder"), "flip": True, "unseen": unseen}
    model = regard.train(recipe(data, data=given, max_steps=30, metric="loss"), data / "out")
    assert "captions of images that are not there: 1" in capsys.readouterr().out
    pieces = model.tokenizer.pieces()
    assert {"purple", "orange"} <= set(pieces)
    assert not {"read", "nor"} & set(pieces)
    (data / "names.txt").write_text("99.png\n")
    with pytest.raises(DataError, match="no caption of data.unseen"):
        regard.train(recipe(data, data=given, max_steps=2, metric="loss"), data / "none", quiet=True)


def test_the_new_setting_decides_whether_the_encoder_is_trained(data, encoder):
    """A model to start from may have been trained with the other setting."""
    short = {"max_steps": 2, "metric": "loss", "lr": 1e-2, "warmup": 1}
    regard.train(recipe(data, data={"encoder": str(data / "encoder")}, **short), data / "frozen", quiet=True)
    before = encoder.state_dict()
    for name, start, frozen in (("thawed", "frozen", False), ("again", "thawed", True)):
        further = recipe(data, **short)
        further["model"] = {"start": str(data / start), "options": {"frozen": frozen}}
        kept = len(list((data / "cache" / "features").iterdir()))
        after = regard.train(further, data / name, quiet=True).model.encoder.state_dict()
        assert torch.equal(after["stem.convolution.weight"], before["stem.convolution.weight"]) == frozen
        assert len(list((data / "cache" / "features").iterdir())) == kept + frozen, "features of a frozen encoder only"
        validate(data / name)
        before = after


def test_features_are_kept_under_all_that_they_depend_on(data, encoder):
    form = ImageForm(size=16, mean=(0.5,) * 3, std=(0.5,) * 3)
    pictures, names = Pictures(data / "pictures"), ["0.png", "5.png"]
    keys = {key_of(pictures, names, encoder, form, mirrored=mirrored) for mirrored in (False, True)}
    keys.add(key_of(pictures, names[:1], encoder, form, mirrored=False))
    keys.add(key_of(pictures, names, encoder, form.model_copy(update={"size": 20}), mirrored=False))
    kept = features_of(pictures, names, encoder, form, mirrored=True, whole=False, say=lambda _: None)
    pixels = form.pixel_values([pictures.open(name) for name in names])
    with torch.no_grad():
        expected = encoder.grid(pixels.flip(3))
    torch.testing.assert_close(kept([0, 1], [1, 1])["features"], expected, atol=2e-3, rtol=1e-3)
    with torch.no_grad():
        encoder.stem.convolution.weight += 1e-3
    keys.add(key_of(pictures, names, encoder, form, mirrored=False))
    Image.new("RGB", (16, 16)).save(data / "pictures" / "0.png")
    keys.add(key_of(pictures, names, encoder, form, mirrored=False))
    assert len(keys) == 6


def test_what_is_wrong_is_said_in_one_line(data, encoder, capsys):
    with pytest.raises(ConfigError, match=r"frozen encoder must have been trained.*data\.encoder"):
        regard.train(recipe(data), data / "out", quiet=True)
    (data / "pictures" / "3.png").write_text("no image")
    with pytest.raises(DataError, match=r"3\.png is not an image"):
        regard.train(recipe(data, data={"encoder": str(data / "encoder")}), data / "out", quiet=True)
    (data / "pictures" / "3.png").unlink()
    with pytest.raises(DataError, match=r"has no picture 3\.png"):
        regard.train(recipe(data, data={"encoder": str(data / "encoder")}), data / "out2", quiet=True)
    with pytest.raises(DataError, match="outside its folder"):
        Pictures(data / "pictures").open("../captions.jsonl")
    with pytest.raises(DataError, match="holds no pictures.*tar archive without compression"):
        Pictures(data / "captions.jsonl").open("1.png")
    with pytest.raises(DataError, match=r"pictures\.tar has no picture x\.png"):
        Pictures(data / "pictures.tar").open("x.png")
    with pytest.raises(DataError, match="no captions of split 'dev': got splits train"):
        read_captions(data / "captions.jsonl", "dev")


def test_captions_with_punctuation_are_compared_as_words(data):
    given = {"size": 16, "words_only": False}
    lines = [json.loads(line) for line in (data / "captions.jsonl").read_text().splitlines()]
    lines = [{**line, "captions": line["captions"][:1]} for line in lines]  # with capital and full stop
    (data / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = regard.train(recipe(data, options=FROM_PIXELS, data=given, max_steps=60), data / "out", quiet=True)
    written = model.caption([str(data / "pictures" / line["image"]) for line in lines])
    assert all(caption.endswith(" .") and caption != caption.lower() for caption in written)
    # What the model writes becomes the reference: then every score is the best one.
    lines = [{**line, "captions": [caption]} for line, caption in zip(lines, written, strict=True)]
    (data / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    names = ("exact_text", "bleu_1", "bleu_3", "chrf")
    for changes in ({}, {"data.words_only": "true"}):
        numbers = validate(data / "out", changes=changes)
        assert [numbers[name] for name in names] == pytest.approx([1.0, 100.0, 100.0, 100.0])
    assert [row.chrf for row in grade(data / "out", 2)] == pytest.approx([100.0, 100.0])
    file = str(data / "pictures" / "1.png")
    assert model.stored.extra["words_only"] is False
    assert model.subject(file, "Green beside red .").texts == ["Green beside red ."]
    del model.stored.extra["words_only"]  # as in folders of earlier versions
    assert model.subject(file, "green beside red .").texts == ["green beside red"]


def test_images_of_any_size_and_one_pixel_are_captioned(data, encoder):
    given = {"encoder": str(data / "encoder")}
    model = regard.train(recipe(data, data=given, max_steps=1, metric="loss"), data / "out", quiet=True)
    pictures = [Image.new("RGB", (1, 1)), Image.new("L", (40, 3)), Image.new("RGBA", (9, 200))]
    assert len(model.caption(pictures, max_length=4)) == 3
    drawn = {"sample": True, "seed": 3, "max_length": 9}
    parts = [*model.caption_nbest(pictures[:1], **drawn), *model.caption_nbest(pictures[1:], first=1, **drawn)]
    whole = model.caption_nbest(pictures, **drawn)
    assert [best[0].tokens for best in parts] == [best[0].tokens for best in whole], "its number decides its sample"
    assert model.explain(pictures[0], "red", method="photo").panels
    assert model.subject(pictures[0], "A red собака .").texts == ["a red собака"], "with the words that are unknown"
    told = "The model does not know 'собака': it reads <unk> there."
    assert told in model.explain(pictures[0], "Red собака .", method="photo").statements
    assert "know" not in " ".join(model.explain(pictures[0], "red", method="photo").statements)


def test_forms_of_captions(tmp_path):
    (tmp_path / "a.txt").write_text("1.jpg#0\tA dog , running .\n1.jpg#1\tTwo dogs' tri-colored toys\n\n2.jpg\tx\n")
    first, second = read_captions(tmp_path / "a.txt")
    assert (first.image, len(first.captions), second.captions) == ("1.jpg", 2, ("x",))
    assert [words_only(text) for text in first.captions] == ["a dog running", "two dogs tri-colored toys"]
    bad_lines = ("no tab", '{"image": 3, "captions": []}', "{broken", '{"image": "1.jpg", "captions": "A dog"}',
                 '{"image": "1.jpg", "captions": {"a": 1}}', '{"image": "1.jpg", "captions": ["a"], "split": ["x"]}',
                 '{"image": "1.jpg", "captions": ["a"], "split": 1}')  # fmt: skip
    for bad in bad_lines:
        (tmp_path / "b.txt").write_text(bad)
        with pytest.raises(DataError, match="line 1 of .*b.txt is no caption") as caught:
            read_captions(tmp_path / "b.txt")
        assert "\n" not in str(caught.value)
        assert ("into a list" in str(caught.value)) == bad.startswith("{")


def test_captions_are_graded_from_right_to_wrong(data, encoder, capsys):
    out = data / "graded"
    short = {"max_steps": 20, "validate_every": 20, "metric": "loss"}
    regard.train(recipe(data, data={"encoder": str(data / "encoder")}, **short), out, quiet=True)
    capsys.readouterr()
    assert main(["evaluate", str(out), "--graded", "4", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 4
    assert all(row["input"].endswith(".png") and row["reference"].count("beside") == 1 for row in rows)
    assert [row["chrf"] for row in rows] == sorted((row["chrf"] for row in rows), reverse=True)
    assert main(["evaluate", str(out), "--graded", "2", "--beam", "2"]) == 0
    assert capsys.readouterr().out.count("written") == 2
    assert main(["evaluate", str(out), "--graded", "0"]) == 2
