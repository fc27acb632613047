"""Vocabularies of others give the ids that `transformers` gives, and broken ones one line that names the file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.core.errors import DataError, UsageError
from regard.data.text import Specials, Tokenizer, make_tokenizer, read_tokenizer


def opened(folder: Path, config: dict[str, Any] | None = None) -> Tokenizer:
    tokenizer = read_tokenizer(folder, config)
    assert isinstance(tokenizer, Tokenizer)
    return tokenizer


def check(ours: Tokenizer, theirs: Any, texts: list[str]) -> None:
    wanted = [theirs(text, add_special_tokens=False)["input_ids"] for text in texts]
    encoded = ours.encode_batch(texts)
    assert encoded == wanted
    for ids in encoded:
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": False, "strip_accents": True},
        {"strip_accents": False},
        {"tokenize_chinese_chars": False},
    ],
)
def test_bert_vocabulary(bert_folder: Path, tmp_path: Path, texts: list[str], settings: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    shutil.copy(bert_folder / "vocab.txt", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **settings}))
    ours = opened(tmp_path)
    # Given as arguments: some versions of the reference leave the file's settings aside.
    check(ours, transformers.BertTokenizer.from_pretrained(tmp_path, **settings), texts)
    assert ours.specials == Specials(pad=0, unk=100, cls=101, sep=102, mask=103)
    assert ours.vocab_size == 30_522


def test_minilm(minilm_folder: Path, texts: list[str], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    ours = opened(minilm_folder)
    check(ours, transformers.AutoTokenizer.from_pretrained(minilm_folder), texts)
    assert ours.specials == Specials(pad=0, unk=100, cls=101, sep=102, mask=103)
    for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(minilm_folder / name, tmp_path)
    assert opened(tmp_path).encode_batch(texts) == ours.encode_batch(texts)


@pytest.mark.parametrize("spaced", [False, True])
def test_gpt2_vocabulary(gpt2_folder: Path, tmp_path: Path, texts: list[str], spaced: bool) -> None:
    transformers = pytest.importorskip("transformers")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(gpt2_folder / name, tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"add_prefix_space": spaced}))
    ours = opened(tmp_path)
    check(ours, transformers.GPT2Tokenizer.from_pretrained(gpt2_folder, add_prefix_space=spaced), texts)
    assert ours.specials == Specials(bos=50_256, eos=50_256)
    assert [ours.decode(ids) for ids in ours.encode_batch(texts)] == [
        (" " if spaced and text[:1].strip() else "") + text for text in texts
    ]


def test_byte_level_labels_can_be_read(gpt2_folder: Path) -> None:
    ours = opened(gpt2_folder)
    assert ours.tokens(ours.encode_batch(["the café\n"])[0]) == ["the", "␣café", "\\n"]
    assert ours.tokens(ours.encode_batch(["漢"])[0]) == ["\\xe6", "\\xbc", "\\xa2"]
    assert ours.tokens([ours.eos]) == ["<|endoftext|>"]


def test_text_never_becomes_a_special_token(bert_folder: Path, gpt2_folder: Path) -> None:
    bert, gpt2 = opened(bert_folder), opened(gpt2_folder)
    encoded = bert.encode_batch(["[CLS] a [SEP] [MASK][PAD]"])[0]
    assert not {0, 101, 102, 103} & set(encoded)
    assert bert.decode(encoded) == "[ cls ] a [ sep ] [ mask ] [ pad ]"
    encoded = gpt2.encode_batch(["a<|endoftext|>b"])[0]
    assert 50_256 not in encoded
    assert gpt2.decode(encoded) == "a<|endoftext|>b"


def test_a_special_token_that_the_model_itself_would_make_is_unknown(tmp_path: Path) -> None:
    """A word vocabulary with its special tokens as words, which are no added tokens: the library reads them in text."""
    from tokenizers import Tokenizer as Library
    from tokenizers import models, pre_tokenizers

    inner = Library(models.WordLevel({"<pad>": 0, "</s>": 1, "<unk>": 2, "a": 3}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.save(str(tmp_path / "tokenizer.json"))
    ours = opened(tmp_path)
    assert ours.specials == Specials(pad=0, eos=1, unk=2)
    assert ours.encode_batch(["a </s> <pad> b"]) == [[3, 2, 2, 2]]


def test_offsets_are_places_in_the_original_text(bert_folder: Path) -> None:
    ours, text = opened(bert_folder), "Ça va, Ångström?  漢字!"
    ids, offsets = ours.encode_batch([text])[0], ours.offsets_batch([text])[0]
    assert len(ids) == len(offsets)
    assert [text[start:end] for start, end in offsets][:4] == ["Ça", "va", ",", "Ång"]
    assert [text[start:end] for start, end in offsets][-3:] == ["漢", "字", "!"]


def test_special_tokens_come_from_names_then_ids_then_custom(bert_folder: Path, tmp_path: Path) -> None:
    shutil.copy(bert_folder / "vocab.txt", tmp_path)
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"bos_token": {"content": "[CLS]"}}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "[SEP]", "bos_token": None}))
    ours = opened(tmp_path, {"pad_token_id": 7, "bos_token_id": 9, "eos_token_id": [102, 5]})
    assert (ours.pad, ours.bos, ours.eos, ours.mask) == (7, 101, 102, 103)
    assert opened(tmp_path, {"pad_token_id": -1}).pad == 0
    assert opened(tmp_path, {"pad_token_id": 10**9}).pad == 0


def test_added_tokens(gpt2_folder: Path, tmp_path: Path) -> None:
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(gpt2_folder / name, tmp_path)
    added = {"50257": {"content": "[PAD]", "special": True}, "50258": {"content": "<user>", "special": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added, "pad_token": "[PAD]"}))
    ours = opened(tmp_path)
    assert (ours.pad, ours.vocab_size) == (50_257, 50_259)
    assert ours.encode_batch(["<user>[PAD]"])[0][0] == 50_258
    assert 50_257 not in ours.encode_batch(["<user>[PAD]"])[0]
    more = {**added, "9" * 5000: {"content": "<far>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": more, "pad_token": "[PAD]"}))
    assert opened(tmp_path).vocab_size == 50_259, "an id of 5,000 digits is none"
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<odd>": 60_000}))
    with pytest.raises(DataError, match="<odd>.*got id 60000, expected 50259"):
        read_tokenizer(tmp_path)


def test_a_missing_special_token_is_named_where_it_is_needed(gpt2_folder: Path) -> None:
    ours = opened(gpt2_folder)
    assert ours.specials.pad is None
    assert ours.filler == ours.eos
    with pytest.raises(UsageError, match="no mask token: got special tokens: bos, eos"):
        _ = ours.mask


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_saved_and_loaded(kind: str, request: pytest.FixtureRequest, tmp_path: Path, texts: list[str]) -> None:
    transformers = pytest.importorskip("transformers")
    ours = opened(request.getfixturevalue(f"{kind}_folder"))
    written = ours.save(tmp_path / "tokenizer.json")
    assert sorted(path.name for path in written) == ["tokenizer.json", "tokenizer_config.json"]
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.specials == ours.specials
    assert again.encode_batch([*texts, "[SEP]"]) == ours.encode_batch([*texts, "[SEP]"])
    check(again, transformers.AutoTokenizer.from_pretrained(tmp_path), texts)
    ours.save(tmp_path / "target_tokenizer.json")
    assert (tmp_path / "target_tokenizer_config.json").is_file()


def test_ours_over_foreign_leaves_no_foreign_special_tokens(gpt2_folder: Path, tmp_path: Path) -> None:
    opened(gpt2_folder).save(tmp_path / "tokenizer.json")
    make_tokenizer("char", ["abc"]).save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").eos == 3


def test_a_vocabulary_made_here_with_berts_special_tokens(tmp_path: Path, texts: list[str]) -> None:
    transformers = pytest.importorskip("transformers")
    made = make_tokenizer("wordpiece", texts * 3, vocab_size=600, lowercase=True, marks="bert")
    assert made.specials == Specials(pad=0, unk=1, cls=2, sep=3, mask=4)
    assert made.tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").specials == made.specials
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    check(made, theirs, texts)
    assert theirs("the fox")["input_ids"] == [2, *made.encode_batch(["the fox"])[0], 3]
    other = tmp_path / "plain"
    other.mkdir()
    (other / "vocab.txt").write_text("".join(f"{piece}\n" for piece in made.tokens(range(made.vocab_size))))
    assert opened(other).encode_batch(texts) == made.encode_batch(texts)
    with pytest.raises(UsageError, match="Did you mean 'bert'"):
        make_tokenizer("wordpiece", texts, marks="brt")


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    assert read_tokenizer(tmp_path) is None
    (tmp_path / "vocab.json").write_text("{}")
    assert read_tokenizer(tmp_path) is None


GOOD = {"vocab.json": '{"a": 0, "b": 1, "ab": 2}', "merges.txt": "#version: 0.2\na b\n"}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"tokenizer.json": "{"}, r"tokenizer\.json is not a usable tokenizer"),
        ({"tokenizer.json": '{"model": {"type": "Python", "code": "import os"}}'}, r"tokenizer\.json is not a usable"),
        ({"vocab.txt": "a\nb\n"}, r"vocab\.txt lacks the piece \[UNK\]"),
        ({"vocab.txt": ""}, r"vocab\.txt lacks"),
        ({**GOOD, "vocab.json": "[1]"}, r"vocab\.json is not a mapping"),
        ({**GOOD, "vocab.json": '{"a": "0"}'}, r"vocab\.json is not a vocabulary"),
        ({**GOOD, "vocab.json": '{"a": 0, "b": 0}'}, r"vocab\.json is not a vocabulary"),
        ({**GOOD, "vocab.json": "[" * 100_000}, r"vocab\.json is not valid JSON"),
        ({**GOOD, "merges.txt": "a b c\n"}, r"line 1 of .*merges\.txt"),
        ({**GOOD, "merges.txt": "a c\n"}, r"line 1 of .*merges\.txt"),
        ({**GOOD, "tokenizer_config.json": "nope"}, r"tokenizer_config\.json is not valid JSON"),
        ({"tokenizer.model": "hello"}, r"tokenizer\.model is not a usable sentencepiece model"),
        ({"tokenizer.model": ""}, r"tokenizer\.model is not a usable sentencepiece model"),
    ],
)
def test_a_broken_file_is_named_in_one_line(files: dict[str, str], says: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=says) as caught:
        read_tokenizer(tmp_path)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"vocab\.txt is not UTF-8"):
        read_tokenizer(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "vocab.txt").mkdir()
    assert read_tokenizer(tmp_path) is None
