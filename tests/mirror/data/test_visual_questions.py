"""Questions about images: their files in folders and archives, and batches of them."""

import json
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from regard.core.errors import DataError
from regard.data.archives import Archive
from regard.data.asked_images import AskedBatches, group, keep_pixels
from regard.data.chance import Dice
from regard.data.images import ImageForm
from regard.data.pictures import Pictures
from regard.data.text import make_tokenizer
from regard.data.visual_questions import Asked, answers_of, read_questions

FORM = ImageForm(size=4, mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "data"
    (place / "train" / "images").mkdir(parents=True)
    for number in range(5):
        Image.new("RGB", (4, 4), (50 * number, 0, 0)).save(place / "train" / "images" / f"{number}.png")
    entries = [["what is it?", "red", 0], ["is it?", "yes", 0], *([f"is it {n}?", "no", n] for n in range(1, 5))]
    (place / "train" / "questions.json").write_text(json.dumps(entries))
    return place


def archived(folder, kind):
    names = sorted(path for path in folder.rglob("*") if path.is_file())
    place = folder.parent / f"data.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as file:
            for path in names:
                file.write(path, path.relative_to(folder))
    else:
        with tarfile.open(place, "w") as file:
            for path in names:
                file.add(path, str(path.relative_to(folder)))
    return place


@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
def test_folders_and_archives_hold_the_same(folder, kind):
    place = folder if kind == "folder" else archived(folder, kind)
    asked = read_questions(Archive(place), "train/questions.json", "train/images/{}.png")
    assert asked[2] == Asked("train/images/1.png", "is it 1?", "no")
    assert answers_of(asked) == ["no", "red", "yes"]
    picture = Pictures(place).open("train/images/4.png")
    assert picture.convert("RGB").getpixel((0, 0)) == (200, 0, 0)
    files = Pictures(place).files(["train/images/4.png"])
    assert files == [place / "train/images/4.png" if kind == "folder" else place]
    with pytest.raises(DataError, match=r"has no picture x\.png"):
        Pictures(place).open("x.png")


def test_forms_of_questions(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"image": "1.png", "question": "q", "answer": "a"}\n\n')
    assert read_questions(Archive(tmp_path), "a.jsonl") == [Asked("1.png", "q", "a")]
    (tmp_path / "b.json").write_text('[{"image": 7, "question": "q", "answer": "a"}, ["r", "b", "x"]]')
    assert [entry.image for entry in read_questions(Archive(tmp_path), "b.json", "i/{}.jpg")] == ["i/7.jpg", "i/x.jpg"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{broken", "is no JSON"),
        ("", "holds no questions"),
        ("[]", "holds no questions"),
        ('[["q", "a"]]', "entry 1 of .* is no question with an answer"),
        ('[["q", "a", 1], ["", "a", 1]]', "entry 2 of .* is no question with an answer"),
        ('{"question": "q", "answer": 3, "image": "x"}', "entry 1 of .* is no question"),
        ("7", "entry 1 of .* is no question"),
        ('[["q", "a", true]]', "entry 1 of .* is no question"),
    ],
)
def test_bad_files_of_questions(tmp_path, text, said):
    (tmp_path / "q.json").write_text(text)
    with pytest.raises(DataError, match=said) as caught:
        read_questions(Archive(tmp_path), "q.json")
    assert "\n" not in str(caught.value)


def test_bad_archives(tmp_path, folder):
    with pytest.raises(DataError, match="is outside its folder"):
        Archive(folder).read("../data/train/questions.json")
    place = archived(folder, "zip")
    whole = place.read_bytes()
    place.write_bytes(whole[:-40])  # without its list of files
    with pytest.raises(DataError, match="holds no files.*zip archive"):
        Archive(place).read("train/questions.json")
    name = b"train/questions.json"
    at = whole.index(name) + len(name)
    place.write_bytes(whole[: at + 2] + bytes(20) + whole[at + 22 :])
    with pytest.raises(DataError, match=r"data\.zip:train/questions\.json cannot be read"):
        Archive(place).read("train/questions.json")
    (tmp_path / "q.json").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DataError, match="is not UTF-8"):
        read_questions(Archive(tmp_path), "q.json")
    with pytest.raises(DataError, match="2 or more"):
        answers_of([Asked("x", "q", "a")])


def test_unlike_images_are_resized_only_if_asked(folder, tmp_path):
    names = [f"train/images/{number}.png" for number in range(5)]
    assert keep_pixels(tmp_path / "a", Pictures(folder), names, None).shape == (5, 3, 4, 4)
    Image.new("RGB", (1, 1), (9, 9, 9)).save(folder / "train" / "images" / "3.png")
    said = r"images differ in size: got 1 × 1 pixels of train/images/3\.png, expected 4 × 4.*data\.size"
    with pytest.raises(DataError, match=said):
        keep_pixels(tmp_path / "b", Pictures(folder), names, None)
    assert keep_pixels(tmp_path / "b", Pictures(folder), names, FORM)[3, 0, 3, 3] == 9
    Image.new("RGB", (6, 4)).save(folder / "train" / "images" / "0.png")
    with pytest.raises(DataError, match=r"got 6 × 4 pixels of train/images/0\.png, expected squares"):
        keep_pixels(tmp_path / "c", Pictures(folder), names, None)
    (folder / "train" / "images" / "2.png").write_text("no image")
    with pytest.raises(DataError, match=r"2\.png is not an image"):
        keep_pixels(tmp_path / "d", Pictures(folder), names, FORM)


def test_batches_of_images_with_their_questions(folder, tmp_path):
    asked = read_questions(Archive(folder), "train/questions.json", "train/images/{}.png")
    names = list(dict.fromkeys(entry.image for entry in asked))
    pixels = keep_pixels(tmp_path / "a", Pictures(folder), names, None)
    tokenizer = make_tokenizer("word", [entry.question for entry in asked], vocab_size=50)
    images = group(asked, names, pixels, tokenizer, ["no", "red", "yes"], longest=3)
    assert (len(images), images.n_questions) == (5, 6)
    batches = AskedBatches(images, FORM, padding=tokenizer.pad, rows=3, seed=1, flip=True)
    seen = [number for batch in batches.epoch(0) for number in batch["numbers"].flatten().tolist() if number >= 0]
    assert sorted(seen) == list(range(6))
    first, again = next(iter(batches.epoch(2))), next(iter(batches.epoch(2)))
    assert all(torch.equal(first[name], again[name]) for name in first.tensors)
    plain = AskedBatches(images, FORM, padding=tokenizer.pad, rows=5, seed=1, shuffle=False)
    (batch,) = plain.epoch(0)
    assert batch["labels"].tolist() == [[1, 2], [0, -100], [0, -100], [0, -100], [0, -100]]
    assert batch["attention_mask"].sum(2).tolist() == [[3, 3], [3, 0], [3, 0], [3, 0], [3, 0]]
    assert batch["input_ids"][0, 0].tolist() == tokenizer.encode_batch(["what is it?"])[0][:3]
    torch.testing.assert_close(batch["pixel_values"][4, 0, 0, 0].item(), 200 / 255 * 2 - 1)
    rest, some = images.split(2, Dice(1, 7))
    assert sorted([*rest.rows.tolist(), *some.rows.tolist()]) == list(range(5))
    assert np.array_equal(images.split(2, Dice(1, 7))[1].rows, some.rows)
    with pytest.raises(DataError, match="too few images"):
        some.split(2, Dice(1, 7))
    with pytest.raises(DataError, match="question 1 does not occur in training: got 'red', expected no, yes"):
        group(asked, names, pixels, tokenizer, ["no", "yes"], longest=3)
