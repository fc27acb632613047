"""Few-shot classification as a user meets it: trained, evaluated, resumed, asked with a folder of examples, refused."""

import contextlib
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.api import validate
from regard.cli import main
from regard.core import weights
from regard.core.errors import ConfigError, DataError, RegardError, UsageError
from regard.data.chance import Dice
from regard.data.class_images import ClassImages, read_arrays
from regard.data.episodes import Episodes, Shape
from regard.data.images import ImageForm

FORM = ImageForm.parse({"size": 8, "channels": 1, "mean": [0.0], "std": [1.0]})


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """72 classes of random patterns of 4 × 4 blocks, six noisy images each; the last eight are for testing."""
    random = np.random.default_rng(0)
    pattern = np.kron(random.random((72, 1, 4, 4)) < 0.4, np.ones((2, 2)))
    images = (200 * pattern + random.integers(0, 50, (72, 6, 8, 8))).astype(np.uint8)
    path = tmp_path_factory.mktemp("data") / "patterns.npz"
    names = np.array([f"class-{number}" for number in range(72)])
    np.savez(path, images=images, class_name=names, split=np.array(["a"] * 64 + ["b"] * 8))
    return path


def recipe(arrays, *, steps=200, **data):
    return {
        "task": "few_shot",
        "data": {
            "train": {"arrays": str(arrays), "split": "a"}, "validation": {"arrays": str(arrays), "split": "b"},
            "ways": 3, "shots": 1, "queries": 3, "episodes": 64, "validation_episodes": 40, "size": 8, **data,
        },
        "model": {"options": {"n_filters": 8, "d_model": 16, "blocks": ((16, 8), (12,), (16, 8))}},
        "training": {"max_steps": steps, "lr": 3e-3, "schedule": "constant", "warmup": 0, "validate_every": steps},
    }  # fmt: skip


@pytest.fixture(scope="module")
def trained(arrays, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "out"
    regard.train(recipe(arrays), out, quiet=True)
    return out


@pytest.fixture
def support(arrays, tmp_path):
    """Two images of two classes, of unlike sizes, in colour and dark on white."""
    classes = read_arrays(arrays, "b", channels=1, invert=False)
    for name, size in (("x", 8), ("y", 30)):
        (tmp_path / "support" / name).mkdir(parents=True)
        image = Image.fromarray(classes.examples["xy".index(name)][0, 0])
        image.resize((size, size)).convert("RGB").save(tmp_path / "support" / name / "1.png")
    Image.fromarray(classes.examples[1][1, 0]).save(tmp_path / "query.png")
    return tmp_path / "support"


def test_unseen_classes_are_told_apart(trained, arrays):
    numbers = validate(trained)
    assert numbers["accuracy"] > 0.6, "chance is 1/3"
    assert numbers["nearest_pixels"] > 0.8
    assert set(numbers) == {"loss", "accuracy", "nearest", "nearest_pixels"}
    again = validate(trained, changes={"training.rows_per_batch": "3"})
    assert again == pytest.approx(numbers, rel=1e-5), "whatever the batches"


def test_a_run_in_two_parts_gives_the_same_bits(arrays, tmp_path):
    made = recipe(arrays, steps=5, rotations=True)
    made["training"] |= {"checkpoint_every": 1}
    for out, parts in (("whole", [5]), ("parts", [2, 5])):
        for last in parts:
            regard.train(made, tmp_path / out, changes={"training.max_steps": str(last)}, quiet=True)
    one, other = (weights.read_tensors(tmp_path / out / "checkpoints" / "step-00000005") for out in ("whole", "parts"))
    assert not [name for name in one if not torch.equal(one[name], other[name])]


def test_classify_and_explain_from_the_command_line(trained, support, capsys):
    query = str(support.parent / "query.png")
    assert main(["classify", str(trained), "--support", str(support), query]) == 0
    said = capsys.readouterr().out
    assert said.split("\t")[0] == "y"
    assert main(["explain", str(trained), query, "--support", str(support)]) == 0
    shown = capsys.readouterr().out
    assert "The last decision looked at" in shown
    assert "'y'" in shown
    assert main(["explain", str(trained), query, "--support", str(support), "--method", "maps", "--json"]) == 0
    assert "decoder.0.self" in capsys.readouterr().out


def test_bad_support_sets_and_images_get_one_line(trained, support, capsys):
    query, folder = str(support.parent / "query.png"), support.parent

    def said(*words):
        assert main(["classify", str(trained), *words]) in (1, 2)
        text = capsys.readouterr().err
        assert text.count("\n") == 1
        return text

    assert "learns its classes from a few labelled images" in said(query)
    (folder / "empty" / "x").mkdir(parents=True)
    assert "the support set is empty" in said("--support", str(folder / "empty"), query)
    assert "is not a folder" in said("--support", str(folder / "absent"), query)
    (folder / "single" / "x").mkdir(parents=True)
    Image.new("L", (8, 8)).save(folder / "single" / "x" / "1.png")
    assert "one class only" in said("--support", str(folder / "single"), query)
    (folder / "notes.txt").write_text("no image")
    assert "is not an image" in said("--support", str(support), str(folder / "notes.txt"))
    Image.new("L", (1, 1)).save(folder / "dot.png")
    assert "dot.png is too small" in said("--support", str(support), str(folder / "dot.png"))
    for name in "abcd":
        (support / name).mkdir()
        Image.new("L", (8, 8)).save(support / name / "1.png")
    assert "at most 3 classes of 1 each" in said("--support", str(support), query)


def test_files_that_are_no_images_are_no_examples(trained, support, capsys):
    """Also where they would make a class larger than the model was trained for."""
    query = str(support.parent / "query.png")
    words = ["classify", str(trained), "--support", str(support), query]
    assert main(words) == 0
    alone = capsys.readouterr().out
    (support / "x" / "Thumbs.db").write_bytes(b"thumbs")
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out == alone
    note = f"1 file of the support set is no image and was passed over: {support / 'x' / 'Thumbs.db'}"
    assert said.err == f"regard: note: {note}\n"
    (support / "y" / "notes.txt").write_text("read me")
    assert main(["explain", str(trained), query, "--support", str(support)]) == 0
    assert "2 files of the support set are no images and were passed over: " in capsys.readouterr().err
    (support / "y" / "1.png").unlink()
    assert main(words) == 1
    assert "class 'y' of the support set has no images" in capsys.readouterr().err


def test_support_is_for_few_shot_models(trained, support, monkeypatch):
    loaded = regard.load(trained)
    monkeypatch.setattr(type(loaded), "accepts", ("image",))
    with pytest.raises(UsageError, match="--support is for few-shot models"):
        main(["--debug", "classify", str(trained), "--support", str(support), str(support.parent / "query.png")])


def test_an_episode_depends_on_its_number_alone(arrays):
    source = read_arrays(arrays, "a", channels=1, invert=False)
    shape, same = Shape(3, 2, 4), dict(count=10, seed=3, rotations=True)
    one, other = Episodes(source, FORM, shape, rows=4, **same), Episodes(source, FORM, shape, rows=7, **same)
    together = [row for batch in other.epoch(1) for row in batch["images"]]
    for number, images in enumerate(row for batch in one.epoch(1) for row in batch["images"]):
        assert torch.equal(images, together[number])
    images, labels = one.episode(17)
    assert np.array_equal(images, other.episode(17)[0])
    assert not np.array_equal(images, one.episode(18)[0])
    assert sorted(labels[:6].tolist()) == [0, 0, 1, 1, 2, 2]
    assert len({image.tobytes() for image in images}) == 10, "no image is there twice"


def test_turned_classes_are_classes_of_their_own(arrays):
    source = read_arrays(arrays, "a", channels=1, invert=False)
    episodes = Episodes(source, FORM, Shape(3, 1, 3), count=50, rows=5, seed=1, rotations=True)
    upright = {image.tobytes() for images in source.examples for image in images}
    shares = [float(np.mean([image.tobytes() in upright for image in episodes.episode(n)[0]])) for n in range(50)]
    assert 0.15 < np.mean(shares) < 0.35
    plain = Episodes(source, FORM, Shape(3, 1, 3), count=50, rows=5, seed=1)
    assert all(image.tobytes() in upright for n in range(20) for image in plain.episode(n)[0])


def test_held_out_classes_are_chosen_by_seed(arrays):
    source = read_arrays(arrays, None, channels=1, invert=False)
    train, held_out = source.split(5, Dice(1, 2**63))
    assert len(held_out) == 5
    assert not set(train.names) & set(held_out.names)
    assert source.split(5, Dice(1, 2**63))[1].names == held_out.names
    with pytest.raises(DataError, match="too many classes are held out"):
        source.split(72, Dice(1, 0))


def test_bright_pages_become_dark(arrays, tmp_path):
    images = 255 - np.zeros((2, 3, 8, 8), np.uint8)
    images[:, :, 2:4] = 10
    np.savez(tmp_path / "x.npz", images=images, class_name=np.array(["a", "b"]))
    made = read_arrays(tmp_path / "x.npz", None, channels=1, invert=True)
    assert made.examples[0].max() == 245
    assert made.examples[0].mean() < 127


def test_files_that_are_none(arrays, tmp_path):
    (tmp_path / "a.npz").write_text("no archive")
    with pytest.raises(DataError, match="is no array file"):
        read_arrays(tmp_path / "a.npz", None, channels=1, invert=False)
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "b.npz", images=objects, class_name=np.array(["x"]))
    with pytest.raises(DataError, match="images cannot be read"):
        read_arrays(tmp_path / "b.npz", None, channels=1, invert=False)
    pixels = np.arange(2 * 3 * 64, dtype=np.uint8).reshape(2, 3, 8, 8)
    np.savez_compressed(tmp_path / "d.npz", images=pixels, class_name=np.array(["a", "b"]))
    whole = (tmp_path / "d.npz").read_bytes()
    for place in range(0, len(whole), 3):
        (tmp_path / "e.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(RegardError):  # it may be read in spite of the damage, or be refused
            read_arrays(tmp_path / "e.npz", None, channels=1, invert=False)
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as archive:
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000000, 9, 9), }".ljust(117) + b"\n"
        archive.writestr("images.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(DataError, match="at most 1 GB"):
        read_arrays(tmp_path / "c.npz", None, channels=1, invert=False)
    with pytest.raises(UsageError, match="unknown split"):
        read_arrays(arrays, "c", channels=1, invert=False)
    with pytest.raises(ConfigError, match="fewer classes than ways"):
        Episodes(ClassImages((), []), FORM, Shape(3, 1, 1), count=1, rows=1, seed=0)
    with pytest.raises(ConfigError, match="has too few images"):
        Episodes(read_arrays(arrays, "a", channels=1, invert=False), FORM, Shape(3, 6, 3), count=1, rows=1, seed=0)


def test_omniglot_has_its_official_split():
    path = Path(os.environ.get("REGARD_DATA", "absent")) / "omniglot" / "omniglot_28x28.npz"
    if not path.is_file():
        pytest.skip("REGARD_DATA has no omniglot")
    train, test = (read_arrays(path, split, channels=1, invert=True) for split in ("meta_train", "meta_test"))
    assert (len(train), len(test)) == (964, 659)
    alphabets = [{name.rsplit("-", 1)[0] for name in part.names} for part in (train, test)]
    assert (len(alphabets[0]), len(alphabets[1])) == (30, 20)
    assert not alphabets[0] & alphabets[1]
    assert max(image.mean() for image in train.examples) < 127, "ink is bright"
