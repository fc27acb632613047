"""Coordinate networks as a user meets them: trained on a picture and on numbers, drawn, refused; spectral bias."""

import json
import wave

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.cli import main
from regard.core.errors import ConfigError, DataError
from regard.data import signals
from regard.evaluation.evaluators.frequencies import band_errors
from regard.models import config_of, make_model


def recipe(features="gaussian", *, data, steps=150, **options):
    return {
        "task": "coordinates",
        "data": data,
        "model": {"options": {"features": features, "n_frequencies": 32, "d_hidden": 48, "n_layers": 2, **options}},
        "training": {"max_steps": steps, "lr": 5e-3, "validate_every": steps // 3, "checkpoint_every": 1000},
    }


def test_sines_are_learnt_from_the_slow_to_the_fast(tmp_path):
    data = {"sines": (2, 16), "size": 96}
    last = {}
    for features in ("plain", "gaussian"):
        regard.train(recipe(features, data=data, scale=8.0), tmp_path / features, quiet=True)
        lines = [json.loads(line) for line in (tmp_path / features / "log.jsonl").read_text().splitlines()]
        last[features] = [line for line in lines if "validation_psnr" in line][-1]
    assert last["gaussian"]["validation_psnr"] > last["plain"]["validation_psnr"] + 5
    assert last["plain"]["validation_error_16"] > 0.5, "plain coordinates do not reach the fast sine"
    assert last["gaussian"]["validation_error_16"] < 0.1
    drawn = regard.load(tmp_path / "gaussian").draw(200)
    assert len(drawn) == 200
    assert min(drawn) < -1 < 1 < max(drawn), "in the signal's own units"


def test_a_picture_is_trained_evaluated_and_drawn(tmp_path, capsys):
    rows, columns = np.mgrid[:24, :40] / 24
    pixels = np.stack([rows, columns % 1, (rows > 0.5) * 1.0], -1)
    Image.fromarray((255 * pixels).astype(np.uint8)).save(tmp_path / "photo.png")
    made = recipe(data={"picture": str(tmp_path / "photo.png"), "size": 24}, scale=2.0)
    model = regard.train(made, tmp_path / "out", quiet=True)
    assert model.verbs() == {"draw": "a coordinate network"}
    assert regard.api.validate(tmp_path / "out")["psnr"] > 17
    assert main(["draw", str(tmp_path / "out"), "--out", str(tmp_path / "x.png"), "--size", "50"]) == 0
    with Image.open(tmp_path / "x.png") as drawn:
        assert drawn.size == (50, 50)
    assert np.array_equal(np.asarray(regard.load(tmp_path / "out").draw()), np.asarray(model.draw()))
    assert main(["draw", str(tmp_path / "out")]) == 2
    assert "a picture needs a file" in capsys.readouterr().err


def test_numbers_come_from_text_and_recordings(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"{x}\n" for x in (1.0, 3.0, 2.0, -1.0)))
    signal = signals.numbers(tmp_path / "a.txt")
    assert signal.values[:, 0].tolist() == [0.5, 1.0, 0.75, 0.0]
    assert (signal.low, signal.high) == (-1.0, 3.0)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((2, 2, 8000, 0, "NONE", ""))
        file.writeframes(np.array([[0, 0], [100, 300], [-100, -300], [50, 50]], "<i2").tobytes())
    assert signals.numbers(tmp_path / "a.wav").values[:, 0].tolist() == pytest.approx([0.5, 1.0, 0.0, 0.625])


def test_what_cannot_be_used_is_said_in_one_line(tmp_path):
    (tmp_path / "bad.txt").write_text("1\ntwo\n")
    (tmp_path / "bad.wav").write_text("no recording")
    (tmp_path / "bad.png").write_text("no image")
    with pytest.raises(DataError, match=r"line 2 of .*bad\.txt is no number: got 'two'"):
        signals.numbers(tmp_path / "bad.txt")
    with pytest.raises(DataError, match="is no WAV file"):
        signals.numbers(tmp_path / "bad.wav")
    with pytest.raises(DataError, match="is not an image"):
        signals.picture(tmp_path / "bad.png", 8)
    with pytest.raises(ConfigError, match="give one of picture, numbers and sines"):
        regard.train(recipe(data={"size": 8}), tmp_path / "out", quiet=True)
    with pytest.raises(ConfigError, match="fewer frequencies than coordinates"):
        make_model("fourier", config_of("fourier", {"features": "positional", "n_frequencies": 1}))
    Image.new("RGB", (1, 1), (9, 9, 9)).save(tmp_path / "dot.png")
    assert signals.picture(tmp_path / "dot.png", 4).values.shape == (4, 4, 3)


def test_sines_that_the_points_cannot_hold_are_refused_or_told(tmp_path, capsys):
    limit = "256 points cannot hold a sine of 128 turns: give sines below 128 turns, half of data.size"
    with pytest.raises(ConfigError, match=limit) as error:
        regard.train(recipe(data={"sines": (2, 128), "size": 256}), tmp_path / "out", quiet=True)
    assert "\n" not in str(error.value)
    regard.train(recipe(data={"sines": (2, 100), "size": 256}, steps=3), tmp_path / "fast")
    assert "same for sines of 100 turns and for slower ones: they tell sines apart below 64" in capsys.readouterr().out
    regard.train(recipe(data={"sines": (2, 63), "size": 256}, steps=3), tmp_path / "slow")
    assert "slower ones" not in capsys.readouterr().out


def test_points_and_their_parts():
    signal = signals.Signal(np.arange(16, dtype=np.float32).reshape(4, 4, 1))
    train, held_out = signal.rows(2, held_out=False), signal.rows(2, held_out=True)
    assert train.values[:, 0].tolist() == [0, 2, 8, 10]
    assert train.points.tolist() == [[0, 0], [0, 0.5], [0.5, 0], [0.5, 0.5]]
    assert len(held_out) == 12
    assert not {*train.values[:, 0].tolist()} & {*held_out.values[:, 0].tolist()}


def test_the_features_are_those_of_the_paper():
    gaussian = make_model("fourier", config_of("fourier", {"n_frequencies": 5000, "scale": 3.0}))
    assert gaussian.turns.std().item() == pytest.approx(3.0, rel=0.05)
    positional = make_model(
        "fourier", config_of("fourier", {"features": "positional", "n_frequencies": 8, "scale": 16.0})
    )
    assert positional.turns[:, 0].tolist() == pytest.approx([1, 2, 4, 8, 0, 0, 0, 0])
    point = torch.tensor([[0.25, 0.0]])
    basic = make_model("fourier", config_of("fourier", {"features": "basic"}))
    torch.testing.assert_close(basic.features(point), torch.tensor([[0.0, 1.0, 1.0, 0.0]]), atol=1e-6, rtol=0)


def test_bands_see_what_is_missing():
    time = np.arange(64) / 64
    slow, fast = (np.sin(2 * np.pi * f * time).astype(np.float32)[:, None] for f in (3, 20))
    errors = band_errors(slow, slow + fast)
    assert errors["error_2"] == pytest.approx(0, abs=1e-6)
    assert errors["error_16"] == pytest.approx(1, abs=1e-6)
    assert set(errors) == {"error_2", "error_16"}, "bands without energy are left out"
    first = np.sin(2 * np.pi * time).astype(np.float32)[:, None]
    assert band_errors(0 * first, first + 5) == {"error_1": pytest.approx(1, abs=1e-6)}, "the mean is in no band"
    assert band_errors(first, 0 * first + 5) == {}
    assert band_errors(first, first + 5) == {"error_1": pytest.approx(0, abs=1e-6)}


def test_a_signal_is_drawn_as_numbers_and_not_as_a_picture(tmp_path, capsys):
    out = tmp_path / "out"
    regard.train(recipe(data={"sines": (2,), "size": 16}, steps=3), out, quiet=True)
    assert regard.api.usage(out) == f"regard draw {out} --out numbers.txt"
    assert regard.api.usage(out).replace(str(out), "FOLDER") in (out / "README.md").read_text()
    assert main(["draw", str(out), "--out", str(tmp_path / "x.txt")]) == 0
    assert len((tmp_path / "x.txt").read_text().split()) == 16
    assert main(["draw", str(out), "--out", str(tmp_path / "x.png")]) == 2
    assert "this model draws numbers" in capsys.readouterr().err
    assert not (tmp_path / "x.png").exists()
    assert main(["draw", str(out), "--size", "0"]) == 2
    assert "got 0, expected 1 to 50,000,000 points" in capsys.readouterr().err


def test_other_verbs_say_what_the_model_can_do(tmp_path, capsys):
    out, picture = tmp_path / "out", tmp_path / "x.png"
    regard.train(recipe(data={"sines": (2,), "size": 16}, steps=3), out, quiet=True)
    Image.new("RGB", (4, 4)).save(picture)
    capsys.readouterr()
    for words in (
        ["classify", out, picture],
        ["explain", out],
        ["explain", out, picture],
        ["embed", out, "x", "--json"],
    ):
        assert main([str(word) for word in words]) == 2
        said = capsys.readouterr().err
        assert "got a fourier for coordinates. Its command is draw." in said, words


def test_a_picture_is_read_as_the_models_of_images_read_it(tmp_path):
    """What is transparent is white; of 16 bits the upper ones count."""
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert (signals.picture(tmp_path / "clear.png", 4).values == 1).all()
    Image.fromarray(np.full((4, 4), 32768, dtype=np.uint16)).save(tmp_path / "deep.png")
    assert signals.picture(tmp_path / "deep.png", 4).values == pytest.approx(127 / 255)
