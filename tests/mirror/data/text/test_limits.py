"""Tokenizer files that are made to harm are refused before the library takes the memory."""

import json
import resource
import subprocess
import sys

import pytest

from regard.core.errors import DataError
from regard.data.text import Tokenizer, make_tokenizer, read_tokenizer

LINES = ["the cat sat on the mat", "a dog ran"]


def written(folder, **parts):
    """A sound tokenizer.json with some of its parts replaced."""
    path = folder / "tokenizer.json"
    make_tokenizer("bpe", LINES, vocab_size=60).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **parts}))
    return path


def sequence(*steps, key="normalizers"):
    return {"type": "Sequence", key: list(steps)}


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


BOMBS = {
    "doubling": sequence(*[replace("a", "aa")] * 40),
    "nested": sequence(*[sequence(*[replace("a", "aa")] * 5)] * 8),
    "expressions": sequence(*[replace("", "x", "Regex")] * 40),
    "prepending": sequence(*[{"type": "Prepend", "prepend": "a" * 50_000}] * 3),
    "alternating": sequence(*[replace("a", "\ufdfa"), {"type": "NFKD"}, replace("\u0635", "a")] * 20),
    "many": sequence(*[replace("a", "b")] * 1000),
}


@pytest.mark.parametrize("kind", sorted(BOMBS))
def test_a_normalizer_that_makes_text_far_too_long(kind, tmp_path):
    """In a process of its own: the library ends the process where it runs out of memory."""
    path = written(tmp_path, normalizer=BOMBS[kind])
    code = f"from regard.data.text import Tokenizer; Tokenizer.load({str(path)!r}).encode_batch(['a' * 1000])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, preexec_fn=_with_4_gigabytes
    )
    assert "can make a text far too long" in done.stderr.splitlines()[-1]
    with pytest.raises(DataError, match="can make a text far too long"):
        read_tokenizer(tmp_path, {})


def _with_4_gigabytes():
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def test_a_decoder_that_makes_text_far_too_long(tmp_path):
    path = written(tmp_path, decoder=sequence(*[replace("a", "aa")] * 40, key="decoders"))
    with pytest.raises(DataError, match="the decoder of .* can make a text far too long"):
        Tokenizer.load(path)


def test_a_key_that_is_given_twice(tmp_path):
    path = written(tmp_path)
    bomb = json.dumps(BOMBS["doubling"])
    path.write_text(path.read_text()[:-1] + f', "normalizer": {bomb}, "normalizer": null' + "}")
    with pytest.raises(DataError, match="has a duplicate key"):
        Tokenizer.load(path)


def test_a_text_that_is_too_long_for_its_normalizer(tmp_path):
    tokenizer = Tokenizer.load(written(tmp_path, normalizer=sequence(*[replace("a", "aa")] * 11)))
    assert len(tokenizer.encode_batch(["a"])[0]) > 0
    with pytest.raises(DataError, match="a text is too long for this tokenizer: got 100000 characters"):
        tokenizer.encode_batch(["a" * 100_000])
    added = [{"id": 60, "content": "a" * 100_000, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": True, "special": False}]  # fmt: skip
    with pytest.raises(DataError, match="an added token of .* is too long"):
        Tokenizer.load(written(tmp_path, normalizer=sequence(*[replace("a", "aa")] * 11), added_tokens=added))


@pytest.mark.parametrize(
    "steps",
    [
        [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, replace(" {2,}", " ", "Regex")],
        [replace("``", '"'), replace("''", '"'), {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "NFC"}],
        [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")],
        [{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
          "lowercase": True}],
    ],
)  # fmt: skip
def test_normalizers_in_use_read_texts_of_any_length(steps, tmp_path):
    tokenizer = Tokenizer.load(written(tmp_path, normalizer=sequence(*steps)))
    assert tokenizer.encode_batch(["the cat " * 100_000])[0]


def test_a_unigram_vocabulary_that_takes_gigabytes(tmp_path):
    pieces = [[f"{number:07d}" * 60, -1.0] for number in range(10_000)]
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], *pieces], "byte_fallback": False}
    path = written(tmp_path, model=model, added_tokens=[])
    with pytest.raises(DataError, match="a vocabulary that takes too much memory: got 4,"):
        Tokenizer.load(path)


def varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def spm_file(folder, pieces, *, bpe: bool, table: bytes = b""):
    """A sentencepiece model of these pieces."""
    unknown = field(1, field(1, b"<unk>") + b"\x15\0\0\0\0\x18\x02")
    listed = b"".join(field(1, field(1, text.encode()) + b"\x15\0\0\0\0") for text in pieces)
    trainer = field(2, b"\x18" + bytes([2 if bpe else 1]))
    normalizer = field(3, field(2, table)) if table else b""
    (folder / "tokenizer.model").write_bytes(unknown + listed + trainer + normalizer)
    return folder


def test_a_sentencepiece_model_of_13_megabytes_does_not_take_gigabytes(tmp_path):
    folder = spm_file(tmp_path, [f"{number:08d}" * 50 for number in range(32_000)], bpe=False)
    assert (folder / "tokenizer.model").stat().st_size > 12_000_000
    with pytest.raises(DataError, match="takes too much memory"):
        read_tokenizer(folder, {})


def test_pieces_that_can_be_put_together_in_too_many_ways(tmp_path):
    pieces = [letter * length for letter in "abcdefgh" for length in range(1, 513)]
    with pytest.raises(DataError, match="has too many merges"):
        read_tokenizer(spm_file(tmp_path, pieces, bpe=True), {})


def test_a_table_of_characters_that_makes_text_too_long(tmp_path):
    with pytest.raises(DataError, match="a character that becomes 1000 bytes of text"):
        read_tokenizer(spm_file(tmp_path, ["a"], bpe=False, table=b"\0\0\0\0" + b"x" * 1000 + b"\0"), {})
