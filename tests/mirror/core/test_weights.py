"""Weights come back as they went, a bad file is named, and a failed write changes nothing."""

from __future__ import annotations

import errno
import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.core.errors import WeightsError
from regard.core.weights import metadata, read_tensors, replacing, write

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def some() -> dict[str, Tensor]:
    tensors = {str(kind): (torch.arange(6) % 5).to(kind).reshape(2, 3) for kind in TYPES}
    return {
        **tensors,
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "turned": torch.arange(15.0).reshape(3, 5).T,
    }


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and torch.equal(left[name], right[name]) for name in left
    )


def sharded(folder: Path, places: dict[str, str] | None = None) -> Path:
    save_file({"a": torch.ones(2), "b": torch.zeros(3)}, folder / "model-1.safetensors", {"format": "pt"})
    save_file({"c": torch.full((2, 2), 7.0)}, folder / "model-2.safetensors")
    places = places or {"a": "model-1.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 36}, "weight_map": places}))
    return index


def test_tensors_come_back_bit_by_bit(tmp_path: Path) -> None:
    tensors, path = some(), tmp_path / "model.safetensors"
    write(path, tensors, metadata={"format": "pt", "note": "Zoë"})
    assert same(read_tensors(path), tensors)
    assert metadata(path) == {"format": "pt", "note": "Zoë"}


def test_the_files_are_those_of_the_library(tmp_path: Path) -> None:
    write(tmp_path / "ours.safetensors", some(), metadata={"format": "pt"})
    assert same(load_file(tmp_path / "ours.safetensors"), some())
    contiguous = {name: tensor.contiguous() for name, tensor in some().items()}
    save_file(contiguous, tmp_path / "library.safetensors")
    assert same(read_tensors(tmp_path / "library.safetensors"), contiguous)


def test_equal_weights_give_equal_files_with_usual_permissions(tmp_path: Path) -> None:
    tensors, notes = {name: torch.ones(2) for name in "cab"}, dict.fromkeys("qwertyuiop", "x")
    write(tmp_path / "1.safetensors", tensors, metadata=notes)
    write(tmp_path / "2.safetensors", dict(sorted(tensors.items())), metadata=dict(sorted(notes.items())))
    (tmp_path / "usual").touch()
    assert (tmp_path / "1.safetensors").read_bytes() == (tmp_path / "2.safetensors").read_bytes()
    assert (tmp_path / "1.safetensors").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_only_the_asked_names_are_read(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", some())
    assert read_tensors(tmp_path, names=["scalar", "empty"]).keys() == {"scalar", "empty"}
    with pytest.raises(WeightsError, match=r"lacks nome, none"):
        read_tensors(tmp_path, names=iter(["scalar", "none", "nome"]))


def test_reading_maps_the_file_and_never_changes_it(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write(path, {"a": torch.zeros(1000), "b": torch.zeros(2)})
    before, tensors = path.read_bytes(), read_tensors(path)
    assert str(path) in Path("/proc/self/maps").read_text()
    tensors["a"].fill_(1)
    assert path.read_bytes() == before
    write(path, {"a": torch.full((1000,), 2.0), "b": torch.ones(2)})
    assert tensors["b"].tolist() == [0, 0]


def test_tied_tensors_are_stored_once_and_come_back_as_one(tmp_path: Path) -> None:
    path, shared, turned = tmp_path / "model.safetensors", torch.randn(50, 4), torch.randn(4, 3).T
    write(
        path,
        {"z": shared, "a": shared.view(50, 4), "t1": turned, "t2": turned, "c": shared.clone()},
        metadata={"k": "v"},
    )
    assert load_file(path).keys() == {"z", "t1", "c"}
    tensors = read_tensors(path)
    assert tensors["a"] is tensors["z"]
    assert tensors["t2"] is tensors["t1"]
    assert tensors["c"] is not tensors["z"]
    assert torch.equal(tensors["a"], shared)
    assert metadata(path) == {"k": "v"}
    assert torch.equal(read_tensors(path, names=["a"])["a"], shared)


def test_views_that_are_not_tied_are_stored_apart(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    tensors = {"whole": whole, "top": whole[:2], "row": whole[1], "turned": whole.T, "bits": whole.view(torch.int32)}
    write(tmp_path / "model.safetensors", {**tensors, "none": whole[:0], "zero": whole[:0]})
    loaded = read_tensors(tmp_path)
    assert same({name: loaded[name] for name in tensors}, tensors)
    loaded["top"].zero_()
    assert torch.equal(loaded["whole"], whole)


def test_the_writer_refuses_what_it_cannot_store(tmp_path: Path) -> None:
    bad = {
        "meta": torch.empty(2, device="meta"),
        "complex": torch.zeros(2, dtype=torch.complex128),
        "sparse": torch.eye(2).to_sparse(),
    }
    with pytest.raises(WeightsError, match=r"cannot store meta, complex, sparse: expected dense.*F32"):
        write(tmp_path / "a.safetensors", {**bad, "good": torch.ones(1)})
    with pytest.raises(WeightsError, match="cannot store __metadata__"):
        write(tmp_path / "a.safetensors", {"__metadata__": torch.ones(1)})
    with pytest.raises(WeightsError, match=r"a.bin is not a name for weights.*\.safetensors"):
        write(tmp_path / "a.bin", {})
    assert not list(tmp_path.iterdir())


def test_parameters_can_be_written(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", dict(nn.Embedding(5, 3).named_parameters()))
    assert read_tensors(tmp_path)["weight"].requires_grad is False


# Failures of the disk


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    path = tmp_path / "model.safetensors"
    write(path, {"a": torch.zeros(3)})

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(WeightsError, match=r"model.safetensors was not written.*No space left"):
        write(path, {"a": torch.ones(3)})
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
    assert read_tensors(path)["a"].tolist() == [0, 0, 0]


def test_the_file_is_on_disk_before_it_takes_its_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, fsync, replace = [], os.fsync, os.replace

    def synced(number: int) -> None:
        steps.append("folder" if Path(f"/proc/self/fd/{number}").is_dir() else "file")
        fsync(number)

    def replaced(source: str | Path, target: str | Path) -> None:
        assert Path(source).parent == Path(target).parent
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write(tmp_path / "model.safetensors", {"a": torch.zeros(3)})
    assert steps == ["file", "rename", "folder"]


def test_an_interrupted_block_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("old")

    def interrupted() -> None:
        with replacing(tmp_path / "state.json") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("state.json", "old")]


def test_a_missing_folder_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"was not written.*No such file"):
        write(tmp_path / "none" / "a.safetensors", {})


# Files that cannot be read


@pytest.mark.parametrize("keep", [0, 4, 20, -1])
def test_a_truncated_file_is_named(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "model.safetensors"
    write(path, some())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsError, match=r"model.safetensors is damaged.*download it again"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("tied", ["{", "[" * 100_000, "[1]", '{"b": "none"}', '{"b": 5}', '{"b": []}'])
def test_damaged_ties_are_reported(tmp_path: Path, tied: str) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors", {"regard.tied": tied})
    with pytest.raises(WeightsError, match=r"model.safetensors is damaged"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("suffix", [".bin", ".pt", ".ckpt", ".pth", ".pkl"])
def test_pickles_are_refused_with_a_way_to_convert_them(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pytorch_model{suffix}"
    path.write_bytes(pickle.dumps({"a": 1}))
    for place in (path, tmp_path):
        with pytest.raises(WeightsError, match=r"pytorch_model.*can run code.*weights\.write.*weights_only=True"):
            read_tensors(place)


def test_the_advice_for_pickles_works(tmp_path: Path) -> None:
    model = nn.Embedding(5, 3)
    torch.save(model.state_dict(), tmp_path / "old.pt")
    write(tmp_path / "model.safetensors", torch.load(tmp_path / "old.pt", weights_only=True))
    assert same(read_tensors(tmp_path), model.state_dict())


def test_missing_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"none.safetensors is missing"):
        read_tensors(tmp_path / "none.safetensors")
    with pytest.raises(WeightsError, match=r"holds no weights.*model.safetensors or model.safetensors.index.json"):
        read_tensors(tmp_path)
    with pytest.raises(WeightsError, match=r"none.index.json is no shard index"):
        read_tensors(tmp_path / "none.index.json")


# Shards


@pytest.mark.parametrize("place", ["folder", "index"])
def test_shards_are_joined(tmp_path: Path, place: str) -> None:
    index = sharded(tmp_path)
    path = tmp_path if place == "folder" else index
    expected = {"a": torch.ones(2), "b": torch.zeros(3), "c": torch.full((2, 2), 7.0)}
    assert same(read_tensors(path), expected)
    assert read_tensors(path, names=["c"]).keys() == {"c"}
    assert metadata(path) == {"format": "pt"}


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    sharded(tmp_path)
    (tmp_path / "model-2.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"model-2.safetensors is missing.*download it again"):
        read_tensors(tmp_path)


def test_a_tensor_that_the_index_promises_must_be_there(tmp_path: Path) -> None:
    sharded(tmp_path, {"a": "model-1.safetensors", "d": "model-2.safetensors"})
    with pytest.raises(WeightsError, match="lacks d"):
        read_tensors(tmp_path)


@pytest.mark.parametrize(
    "shard", ["../x.safetensors", "/etc/x.safetensors", "sub/../../x.safetensors", "..\\x", "C:\\x"]
)
def test_an_index_reaches_no_file_outside_its_folder(tmp_path: Path, shard: str) -> None:
    (tmp_path / "in").mkdir()
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors")
    sharded(tmp_path / "in", {"a": shard})
    with pytest.raises(WeightsError, match="outside its folder"):
        read_tensors(tmp_path / "in")


def test_an_index_of_pickles_is_refused(tmp_path: Path) -> None:
    sharded(tmp_path, {"a": "model-1.bin"})
    with pytest.raises(WeightsError, match=r"model-1.bin.*can run code"):
        read_tensors(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "[]", "{}", '{"weight_map": [1]}', '{"weight_map": 3}', "\xff"]
)
def test_a_bad_index_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text, encoding="latin-1")
    with pytest.raises(WeightsError, match=r"index.json is no shard index"):
        read_tensors(tmp_path)


# Into a module
