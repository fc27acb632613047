"""Sentencepiece models give the ids of their own library; damaged files are one error, whatever the damage."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import DataError
from regard.data.text import Specials, Tokenizer, read_tokenizer
from regard.data.text.formats import spm

WORDS = "the cat sat on a mat and dog ran over hill café naïve straße москва שלום 漢字 العربية 北京 hello world running"
WORDS += " runner jumped jumping 12 345 6 , . ! ? </s> ain't aaaa aa"
# Letters with a mapping of their own before a combining mark are where the two libraries part: see the module.
LETTERS = "abcdefghij éèñüß  \t\n.,!?0123漢字北שלוםﬁ①½ａＡ가각\u00a0\u3000▁<>/s😀👍🏽"
FORMS = [("nmt_nfkc", True), ("identity", False)]


def sentences(seed: int, count: int = 400) -> list[str]:
    dice = random.Random(seed)
    return [" ".join(dice.choice(WORDS.split()) for _ in range(dice.randint(3, 14))) for _ in range(count)]


def odd_texts(count: int = 400) -> list[str]:
    dice = random.Random(1)
    made = ["".join(dice.choice(LETTERS) for _ in range(dice.randint(0, 25))) for _ in range(count)]
    edges = ["", " ", "   ", "▁", "a▁", "▁a", "a▁b", "x\u0007y", "word " * 50, "a" * 500, "aaa aaaaa aa"]
    return [*made, *edges, *sentences(2, 50)]


def train(path: Path, seed: int = 0, **options: Any) -> Any:
    library = pytest.importorskip("sentencepiece")
    fixed = dict(minloglevel=2, hard_vocab_limit=False, num_threads=1, model_prefix=str(path.with_suffix("")))
    library.SentencePieceTrainer.train(sentence_iterator=iter(sentences(seed)), **{**fixed, **options})
    path.with_suffix(".model").rename(path)
    path.with_suffix(".vocab").unlink()
    return library.SentencePieceProcessor(model_file=str(path))


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize(("form", "trim"), FORMS)
def test_the_same_ids_as_sentencepiece(kind: str, fallback: bool, form: str, trim: bool, tmp_path: Path) -> None:
    theirs = train(
        tmp_path / "tokenizer.model",
        model_type=kind,
        byte_fallback=fallback,
        vocab_size=430 if fallback else 180,
        normalization_rule_name=form,
        remove_extra_whitespaces=trim,
    )
    ours = read_tokenizer(tmp_path)
    assert isinstance(ours, Tokenizer)
    assert ours.specials == Specials(unk=0, bos=1, eos=2)
    assert ours.vocab_size == theirs.get_piece_size()
    # Where text spells a special token, its first letter is set apart, and may be an unknown of its own.
    texts = [text for text in odd_texts() if "</s>" not in text]
    assert ours.encode_batch(texts) == theirs.encode(texts)
    for text in [*sentences(3, 30), "a</s>b <s> <unk>", "<0x41>"]:
        encoded = ours.encode_batch([text])[0]
        assert not {1, 2} & set(encoded)
        if ours.unk not in encoded:
            assert ours.decode(encoded) == theirs.decode(encoded) == text


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_user_symbols_are_never_split(kind: str, tmp_path: Path) -> None:
    texts = ["the cats<sep>ran", "<sep>a", "cat s", "cats", "a<sep>cats<sep>", "the dog <sep> ran", "the"]
    theirs = train(tmp_path / "spiece.model", vocab_size=180, model_type=kind, user_defined_symbols=["<sep>", "cats"])
    ours = read_tokenizer(tmp_path)
    assert isinstance(ours, Tokenizer)
    assert ours.encode_batch(texts) == theirs.encode(texts)


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models and a vocabulary that lacks pieces of both, as real ones do."""
    folder = tmp_path_factory.mktemp("marian")
    sides = [train(folder / name, seed, vocab_size=180) for seed, name in enumerate(("source.spm", "target.spm"), 5)]
    texts = [side.id_to_piece(id) for side in sides for id in range(3, side.get_piece_size())]
    texts = sorted(set(texts) - {"▁cat", "h"}, key=lambda text: (len(text), text))
    vocab = ["</s>", "<unk>", *texts, "▁only", ">>fr<<", ">>de<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({text: id for id, text in enumerate(vocab)}))
    config = {"source_lang": "en", "target_lang": "fr", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": len(vocab) - 1, "eos_token_id": 0}))
    return folder


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_marian(marian: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.MarianTokenizer.from_pretrained(marian)
    pair = read_tokenizer(marian)
    assert isinstance(pair, tuple)
    source, target = pair
    pad = source.vocab_size - 1
    assert source.specials == target.specials == Specials(pad=pad, unk=1, eos=0)
    texts = [*odd_texts(), ">>fr<< the cat", "the only hill"]
    texts = [text for text in texts if "</s>" not in text]  # which the reference takes for the special token
    check = [theirs(text)["input_ids"][:-1] for text in texts]
    assert source.encode_batch(texts) == check
    assert [theirs(text_target=text)["input_ids"][:-1] for text in texts] == target.encode_batch(texts)
    assert 0 not in source.encode_batch(["a </s> b"])[0]
    for line in sentences(4, 20):
        ids = target.encode_batch([line])[0]
        assert target.decode([pad, *ids, 0]) == theirs.decode(ids, skip_special_tokens=True)
    source.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (again.vocab_size, again.specials) == (source.vocab_size, source.specials)
    assert again.encode_batch(texts) == source.encode_batch(texts)


def message(*fields: tuple[int, int, bytes]) -> bytes:
    out = b""
    for number, kind, data in fields:
        size = bytes([len(data)]) if kind == 2 else b""
        out += bytes([number << 3 | kind]) + size + data
    return out


def piece(text: bytes, type: int = 1, score: bytes = b"\0\0\0\0") -> tuple[int, int, bytes]:
    return 1, 2, message((1, 2, text), (2, 5, score), (3, 0, bytes([type])))


UNK = piece(b"<unk>", 2)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no unknown piece"),
        (message(piece(b"a")), "1 pieces and no unknown piece"),
        (message(UNK, piece(b"a"), piece(b"a")), "duplicate piece"),
        (message(UNK, piece(b"\xff")), "not UTF-8"),
        (message(UNK, piece(b"a", score=b"\0\0\xc0\x7f")), "not finite"),
        (message(UNK, piece(b"")), "without text"),
        (message(UNK, piece(b"a" * 40))[:-8], "bytes expected where"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "bytes expected where"),
        (b"\x0a" + b"\xff" * 12, "more than 10 bytes"),
        (b"\x0a\xff", "an end inside a number"),
        (b"\x0b", "a field of kind 3"),
        (message(UNK, (2, 0, b"\x05")), "a number where bytes"),
        (message(UNK, (2, 2, message((3, 0, b"\x03")))), "words or characters"),
        (message(UNK, (3, 2, b"\x28\x00")), "spaces"),
    ],
)
def test_damage_is_named(data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(data)
    with pytest.raises(DataError, match=says) as caught:
        spm.read_spm(tmp_path / "tokenizer.model")
    assert str(tmp_path / "tokenizer.model") in str(caught.value)


SEED = message(UNK, piece(b"a"), piece(b"\xe2\x96\x81", score=b"\0\0\x80\xbf"), (3, 2, message((2, 2, b"abcd"))))


@given(at=st.integers(0, len(SEED) - 1), byte=st.integers(0, 255), cut=st.integers(0, len(SEED)))
def test_any_damage_is_an_error_or_a_tokenizer(
    at: int, byte: int, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "tokenizer.model").write_bytes((SEED[:at] + bytes([byte]) + SEED[at + 1 :])[:cut])
    with contextlib.suppress(DataError):
        assert isinstance(read_tokenizer(folder), Tokenizer)
