"""Tokenizers give back what they took, never take text for a special token, and learn the same from the same text."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models

from regard.core.errors import DataError, UnknownName, UsageError
from regard.data.text import Tokenizer, make_tokenizer
from regard.data.text.tokenizer import kinds

SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]
# Plain, combining (composed and not), right to left, emoji with joiners and modifiers, spaces of several kinds.
LETTERS = "abc ABC éßñ e\u0301n\u0303 אבג שלום مرحبا ١ 漢字 😀👩\u200d👩\u200d👧👍🏽 İıſ \u00a0\u2028\t\n.,!?'\"<>/_-()"
PARTS = st.sampled_from([*LETTERS, *SPECIALS, " <pad> ", "x</s>", "##", "  "])
TEXT = st.lists(PARTS, max_size=20).map("".join)
CORPUS = [LETTERS, "the cat and the dog", "the cats </s></s></s> <pad>", "x</s> <unk> <s> ##"] * 5
CORPUS += [letter + mark for letter in LETTERS for mark in "\u0301\u0303"]
OPTIONS: dict[str, dict[str, int]] = {"bpe": {"vocab_size": 250}, "wordpiece": {"vocab_size": 400}}
MADE = {kind: make_tokenizer(kind, CORPUS, **OPTIONS.get(kind, {})) for kind in kinds()}
EACH = pytest.mark.parametrize("kind", kinds())


def ids(kind: str, text: str) -> list[int]:
    return MADE[kind].encode_batch([text])[0]


def test_the_kinds_are_the_folder_listing_without_the_wrapper() -> None:
    assert kinds() == ("bpe", "byte", "char", "space", "word", "wordform", "wordpiece")


@EACH
def test_the_specials_have_the_same_ids_everywhere(kind: str) -> None:
    made = MADE[kind]
    assert (made.pad, made.unk, made.bos, made.eos) == (0, 1, 2, 3)
    assert made.tokens([0, 1, 2, 3]) == SPECIALS
    assert made.decode([2, *ids(kind, "the cat"), 3, 0, 0]) == "the cat"


@pytest.mark.parametrize("kind", ["bpe", "byte", "char"])
@given(text=TEXT)
def test_bpe_bytes_and_characters_give_back_the_normalised_text(kind: str, text: str) -> None:
    assert MADE[kind].decode(ids(kind, text)) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("kind", ["word", "wordpiece"])
@given(text=TEXT)
def test_words_come_back_with_single_spaces(kind: str, text: str) -> None:
    encoded = ids(kind, text)
    if MADE[kind].unk not in encoded:
        wanted = unicodedata.normalize("NFC", text)
        assert "".join(MADE[kind].decode(encoded).split()) == "".join(wanted.split())


@EACH
@given(text=TEXT)
def test_text_never_becomes_a_special_token(kind: str, text: str) -> None:
    assert not {0, 2, 3} & set(ids(kind, text))


@EACH
@given(text=st.text(max_size=30))
def test_any_text_is_encoded_and_decoded(kind: str, text: str) -> None:
    encoded = ids(kind, text)
    assert all(0 <= i < MADE[kind].vocab_size for i in encoded)
    assert len(MADE[kind].tokens(encoded)) == len(encoded)
    MADE[kind].decode(encoded)


def test_a_bpe_word_is_the_same_token_at_the_start_and_inside() -> None:
    first, *_, last = ids("bpe", "the cat and the")
    assert first == last
    assert MADE["bpe"].tokens([first]) == ["▁the"]


def test_the_sign_of_a_words_start_in_text_becomes_what_it_resembles() -> None:
    assert MADE["bpe"].decode(ids("bpe", "a▁b")) == "a_b"


@pytest.mark.parametrize(("kind", "count"), [("bpe", 4), ("char", 3), ("word", 1), ("wordpiece", 1)])
def test_what_was_never_seen_is_unknown(kind: str, count: int) -> None:
    assert ids(kind, "ღღღ").count(1) == count - (kind == "bpe")


def test_labels_show_what_does_not_show() -> None:
    assert MADE["char"].tokens(ids("char", "a \n\u00a0")) == ["a", "␣", "\\n", "\\xa0"]
    assert MADE["wordpiece"].tokens(ids("wordpiece", "cat!")) == ["cat", "!"]


def test_wordpiece_splits_an_unseen_word_into_known_pieces() -> None:
    pieces = MADE["wordpiece"].tokens(ids("wordpiece", "catdogs"))
    assert pieces[0][:2] != "##"
    assert all(piece[:2] == "##" for piece in pieces[1:])
    assert MADE["wordpiece"].decode(ids("wordpiece", "catdogs")) == "catdogs"


def test_word_keeps_the_frequent_ones() -> None:
    lines = ["a a a b b c"]
    assert make_tokenizer("word", lines, vocab_size=6).tokens([4, 5]) == ["a", "b"]
    assert make_tokenizer("word", lines, min_count=2).vocab_size == 6


@EACH
def test_lowercase(kind: str) -> None:
    made = make_tokenizer(kind, CORPUS, lowercase=True, **OPTIONS.get(kind, {}))
    assert made.decode(made.encode_batch(["THE Cat"])[0]) == "the cat"


@EACH
def test_a_saved_tokenizer_encodes_as_before(kind: str, tmp_path: Path) -> None:
    MADE[kind].save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    lines = [*CORPUS, "</s> <pad>", ""]
    assert loaded.encode_batch(lines) == MADE[kind].encode_batch(lines)
    assert loaded.vocab_size == MADE[kind].vocab_size
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


def test_training_is_the_same_in_every_process(data: Path) -> None:
    """Hash tables are seeded anew in each process, so one process would not show a dependence on their order."""
    program = """
import hashlib, sys
from regard.core.lines import read_lines
from regard.data.text import make_tokenizer
lines = list(read_lines(sys.argv[1]))
for kind in ("bpe", "byte", "char", "word", "wordpiece"):
    made = make_tokenizer(kind, lines, vocab_size=1000)
    print(kind, made.vocab_size, hashlib.sha256(made._inner.to_str().encode()).hexdigest())
"""
    call = [sys.executable, "-c", program, str(data / "multi30k" / "val.de.gz")]
    running = [subprocess.Popen(call, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = [process.communicate()[0] for process in running]
    assert first.count("\n") == 5
    assert first == second


def test_a_fork_is_silent_and_its_child_can_encode() -> None:
    program = """
import os
from regard.data.text import make_tokenizer
made = make_tokenizer("bpe", ["hello world"] * 3000)
made.encode_batch(["hello"] * 3000)
child = os.fork()
if child == 0:
    made.encode_batch(["hello"] * 3000)
    os._exit(0 if os.environ["TOKENIZERS_PARALLELISM"] == "false" else 1)
print(os.waitpid(child, 0)[1], os.environ.get("TOKENIZERS_PARALLELISM"))
"""
    quiet = {key: value for key, value in os.environ.items() if key != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run([sys.executable, "-c", program], env=quiet, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("0 None\n", "")


def damage(**changes: Any) -> str:
    return json.dumps({**json.loads(MADE["word"]._inner.to_str()), **changes})


FOREIGN = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]")).to_str()
GAPS = {"type": "WordLevel", "vocab": {**{s: i for i, s in enumerate(SPECIALS)}, "a": 9}, "unk_token": "<unk>"}
PANIC = {"type": "Precompiled", "precompiled_charsmap": "AAAA"}


@pytest.mark.parametrize(
    "text",
    [
        *["", "{", "[]", "{}", "\x00\xff", damage()[:-40], FOREIGN],
        *[damage(model=GAPS), damage(normalizer=PANIC), damage(added_tokens=[])],
    ],
)
def test_a_damaged_or_foreign_file_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text, encoding="latin-1" if "\xff" in text else "utf-8")
    with pytest.raises(DataError, match=r"tokenizer\.json.*make_tokenizer"):
        Tokenizer.load(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json cannot be read"):
        Tokenizer.load(tmp_path / "none.json")
    with pytest.raises(DataError, match="was not written"):
        MADE["word"].save(tmp_path / "no" / "such" / "folder.json")


def test_a_panic_while_encoding_is_an_error_that_can_be_caught() -> None:
    made = Tokenizer(tokenizers.Tokenizer.from_str(damage(pre_tokenizer={"type": "FixedLength", "length": 0})))
    with pytest.raises(DataError, match="cannot be encoded"):
        made.encode_batch(["abc"])


def test_wrong_input_is_refused() -> None:
    with pytest.raises(DataError, match="valid Unicode"):
        MADE["bpe"].encode_batch(["\ud800"])
    with pytest.raises(UsageError, match="into a list"):
        MADE["bpe"].encode_batch("abc")
    for bad in (-1, MADE["bpe"].vocab_size):
        with pytest.raises(DataError, match="no token has this id"):
            MADE["bpe"].decode([bad])


def test_wrong_training_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown tokenizer: got 'bpee'.*Did you mean 'bpe'"):
        make_tokenizer("bpee", CORPUS)
    with pytest.raises(UnknownName, match="unknown tokenizer"):
        make_tokenizer("tokenizer", CORPUS)
    with pytest.raises(UnknownName, match="vocabsize.*Did you mean 'vocab_size'"):
        make_tokenizer("bpe", CORPUS, vocabsize=8000)
    with pytest.raises(UsageError, match="vocab_size"):
        make_tokenizer("word", CORPUS, vocab_size=4)
    with pytest.raises(UsageError, match="min_count"):
        make_tokenizer("word", CORPUS, min_count=0)
    for kind in ("bpe", "wordpiece"):
        with pytest.raises(DataError, match="every character.*expected at least"):
            make_tokenizer(kind, CORPUS, vocab_size=20)


@EACH
def test_no_text_is_refused_and_the_readers_own_errors_pass(kind: str) -> None:
    def broken() -> Iterator[str]:
        yield "a"
        raise LookupError("the disk is gone")

    with pytest.raises(DataError, match="no text"):
        make_tokenizer(kind, [])
    with pytest.raises(LookupError, match="the disk is gone"):
        make_tokenizer(kind, broken())
    with pytest.raises(DataError, match="valid Unicode"):
        make_tokenizer(kind, ["\ud800"])


def test_bpe_reaches_its_size_on_real_text(data: Path) -> None:
    from regard.core.lines import read_lines

    lines = list(read_lines(data / "multi30k" / "val.de.gz"))
    made = make_tokenizer("bpe", lines, vocab_size=1500)
    assert made.vocab_size == 1500
    assert [made.decode(line) for line in made.encode_batch(lines)] == [unicodedata.normalize("NFC", x) for x in lines]
    digest = hashlib.sha256(made._inner.to_str().encode()).hexdigest()
    again = make_tokenizer("bpe", iter(lines), vocab_size=1500)
    assert digest == hashlib.sha256(again._inner.to_str().encode()).hexdigest()


def test_words_as_the_text_separates_them() -> None:
    """The word <unk> of a text is the unknown token; other special tokens that it spells are unknown too."""
    tokenizer = make_tokenizer("space", ["mr. <unk> is n't N </s>", "<unk> <unk> N"])
    assert tokenizer.pieces() == ["<pad>", "<unk>", "<s>", "</s>", "N", "is", "mr.", "n't"]
    assert tokenizer.encode_batch(["mr. <unk> is n't </s> <s> zebra"]) == [[6, 1, 5, 7, 1, 1, 1]]


def test_words_with_apostrophes_and_hyphens_inside() -> None:
    tokenizer = make_tokenizer("wordform", ["It'll do: second-rate, isn't it?"], lowercase=True)
    (ids,) = tokenizer.encode_batch(["It'll do: second-rate, isn't it?"])
    assert tokenizer.tokens(ids) == ["it'll", "do", ":", "second-rate", ",", "isn't", "it", "?"]


@given(text=TEXT)
def test_bytes_are_those_of_the_text_and_none_is_unknown(text: str) -> None:
    made = MADE["byte"]
    assert made.vocab_size == 260
    assert len(ids("byte", text)) == len(unicodedata.normalize("NFC", text).encode())
    assert all(number >= 4 for number in ids("byte", text + "\x00Ω"))
    assert made.decode(ids("byte", "é")[:1]) == "\ufffd"
