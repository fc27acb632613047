"""What a folder of arrays is said to hold, by its `meta.json`."""

import json
from pathlib import Path

import pytest

from regard.core.errors import DataError
from regard.data import arrays, documents, image_rows, running_text, token_pairs
from regard.data.token_pairs import TokenPairs

META = {
    "format": "regard.images",
    "version": 1,
    "facts": {"size": 4},
    "files": {"labels": {"dtype": "<u2", "items": 2, "crc32": 0}},
}


def folder_with(path: Path, **changes: object) -> Path:
    (path / "meta.json").write_text(json.dumps({**META, **changes}))
    return path


@pytest.mark.parametrize("module", [documents, image_rows, running_text, token_pairs])
def test_what_was_written_is_held(module, tmp_path):
    with arrays.writing(tmp_path, module.KIND, {"numbers": "<i4"}, {"count": 2}) as files:
        files["numbers"].write([1, 2])
    assert arrays.holds(tmp_path, module.KIND)
    assert not arrays.holds(tmp_path, "regard.others")
    numbers, facts = arrays.opened(tmp_path, module.KIND)
    assert (numbers["numbers"].tolist(), facts) == ([1, 2], {"count": 2})


def test_folders_of_earlier_versions_are_still_held(tmp_path):
    """The other kinds were written so before pairs were."""
    assert [module.KIND for module in (documents, image_rows, running_text)] == [
        "regard.documents",
        "regard.images",
        "regard.running_text",
    ]
    assert arrays.holds(folder_with(tmp_path), "regard.images")


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "regard.documents"},
        {"version": 2},
        {"facts": None},
        {"files": []},
        {"files": {"labels": []}},
        {"files": {"labels": {"dtype": "O", "items": 2, "crc32": 0}}},
        {"files": {"labels": {"dtype": "<u2", "items": -1, "crc32": 0}}},
        {"files": {"labels": {"dtype": "<u2", "items": 2}}},
    ],
)
def test_another_kind_version_or_damage_is_not_held(changes, tmp_path):
    assert not arrays.holds(folder_with(tmp_path, **changes), "regard.images")
    with pytest.raises(DataError, match=r"meta\.json is damaged"):
        arrays.opened(tmp_path, "regard.images")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000])
def test_a_damaged_meta_file_is_not_held(content, tmp_path):
    (tmp_path / "meta.json").write_bytes(content)
    assert not arrays.holds(tmp_path, "regard.images")


def test_a_missing_or_unfinished_folder_is_not_held(tmp_path):
    assert not arrays.holds(tmp_path / "absent", "regard.images")
    assert not arrays.holds(tmp_path, "regard.images")


@pytest.mark.parametrize("kind", ["regard.pairs", "regard.token_pairs"])
def test_the_former_layout_of_pairs_is_not_held(kind, tmp_path):
    types = {"source.bin": "<u2", "source.offsets": "<i8", "target.bin": "<u2", "target.offsets": "<i8"}
    files = {name: {"dtype": dtype, "items": 2, "crc32": 0} for name, dtype in types.items()}
    meta = {"format": "regard.token_pairs", "version": 1, "pairs": 1, "files": files}
    (tmp_path / "meta.json").write_text(json.dumps(meta, indent=2))
    assert not arrays.holds(tmp_path, kind)
    with pytest.raises(DataError, match=r"damaged or of another version.*Prepare the data again"):
        TokenPairs.open(tmp_path)
