"""Sums of files: an update changes one entry, and never makes a damaged file look whole."""

import json

import pytest

from regard.core.errors import WeightsError
from regard.core.manifest import NAME, check_manifest, update_manifest, write_manifest


@pytest.fixture
def folder(tmp_path):
    for name in ("a.json", "weights.safetensors"):
        (tmp_path / name).write_bytes(name.encode())
    write_manifest(tmp_path, ["weights.safetensors", "a.json"])
    return tmp_path


def test_an_update_changes_one_entry(folder):
    before = json.loads((folder / NAME).read_text())
    update_manifest(folder, "a.json", b"other")
    update_manifest(folder, "new.md", b"text")
    after = json.loads((folder / NAME).read_text())
    assert list(after) == ["a.json", "new.md", "weights.safetensors"]
    assert after["weights.safetensors"] == before["weights.safetensors"]
    assert after["a.json"]["bytes"] == 5
    check_manifest(folder)


def test_a_damaged_file_stays_damaged(folder):
    (folder / "weights.safetensors").write_bytes(b"weights_safetensors")
    update_manifest(folder, "a.json", b"other")
    with pytest.raises(WeightsError, match=r"weights\.safetensors is damaged"):
        check_manifest(folder)
    (folder / "weights.safetensors").unlink()
    update_manifest(folder, "a.json", b"again")
    with pytest.raises(WeightsError, match=r"weights\.safetensors is missing"):
        check_manifest(folder)
