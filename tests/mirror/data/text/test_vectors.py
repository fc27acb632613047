"""Files of word vectors: what is read, and one clear line for what is not."""

import gzip

import numpy as np
import pytest

from regard.core.errors import DataError
from regard.data.text.vectors import read_vectors, vector_format, write_vectors

WORDS = ["the", "of", "naïve", "</s>", "7"]
VECTORS = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
FORMS = ["word2vec", "word2vec_binary", "glove"]


def written(folder, form, words=WORDS, vectors=VECTORS):
    write_vectors(folder / "file", words, vectors, form)
    return folder / "file"


@pytest.mark.parametrize("form", FORMS)
def test_read_back_to_the_bit(form, tmp_path):
    path = written(tmp_path, form)
    assert vector_format(path) == form
    read = read_vectors(path)
    assert read.words == WORDS
    assert np.array_equal(read.vectors, VECTORS)


@pytest.mark.parametrize("form", FORMS)
def test_compressed_files_are_read(form, tmp_path):
    packed = tmp_path / "file.gz"
    packed.write_bytes(gzip.compress(written(tmp_path, form).read_bytes()))
    assert np.array_equal(read_vectors(packed).vectors, VECTORS)


def test_many_words_and_bytes_that_look_like_line_ends(tmp_path):
    """10 and 32 are a line end and a space where a number's bytes stand."""
    vectors = np.frombuffer(bytes([10, 32] * 2 * 9000 * 5), dtype="<f4").reshape(9000, 5)
    words = [f"word{n}" for n in range(9000)]
    for form in FORMS:
        read = read_vectors(written(tmp_path, form, words, vectors))
        assert read.words == words
        assert np.array_equal(read.vectors, vectors)


def test_binary_without_line_ends_between_words(tmp_path):
    body = b"".join(word.encode() + b" " + row.tobytes() for word, row in zip(WORDS, VECTORS, strict=True))
    (tmp_path / "file").write_bytes(b"5 3\n" + body)
    assert np.array_equal(read_vectors(tmp_path / "file").vectors, VECTORS)


def test_words_with_spaces_in_text(tmp_path):
    (tmp_path / "file").write_text("a 1 2 3\n. . . 4 5 6\n")
    assert read_vectors(tmp_path / "file").words == ["a", ". . ."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"2 3\na 1 2 3\n", "cut short: got 1 words, expected 2"),
        (b"2 3\na 1 2 3\nb 1 2\n", "line 3 of .* has another width: got 2 numbers, expected 3"),
        (b"a 1 2 3\nb 1 two 3\n", "line 2 of .* is damaged: got 'two', expected a word and 3 numbers"),
        (b"2 3\na 1 two 3\nb 1 2 3\n", "line 2 of .* is damaged: got 'two', expected a word and 3 numbers"),
        (b"a 1 2 3\nb 1 nan 3\n", "not finite: got NaN or infinity for 'b'"),
        (b"a 1 2 3\nb 1 2e99 3\n", "not finite: got NaN or infinity for 'b'"),
        (b"999999999 300\na 1 2 3\n", "cut short: got .* bytes, expected .* as its first line says"),
        (
            b"999999999999 3\nab \x00\x00\x00",
            "cut short: got .* bytes, expected .* as its first line says",
        ),
        (b"2 3\na " + VECTORS[0].tobytes() + b"\nb " + VECTORS[1].tobytes()[:7], "cut short: got 1 words, expected 2"),
        (b"1 3\na " + np.array([1, np.nan, 2], "<f4").tobytes(), "not finite"),
        (b"0 3\n", "holds no words"),
        (b"3 0\n\n\n\n", "cut short: got .* bytes, expected .* as its first line says"),
        (b"", "holds no word vectors"),
        (b"just a text\n", "holds no word vectors"),
        (b"\xff\xfe\x00\x01" * 9, "holds no word vectors"),
    ],
)
def test_damaged_files_give_one_line(content, message, tmp_path):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_vectors(tmp_path / "file")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_cut_anywhere_is_refused_or_whole(form, tmp_path):
    content = written(tmp_path, form).read_bytes()
    for end in range(len(content)):
        (tmp_path / "file").write_bytes(content[:end])
        try:
            read = read_vectors(tmp_path / "file")
        except DataError:
            continue
        # The last line end may be missing, and GloVe's text does not say how many words or digits there are.
        assert form == "glove" or (len(read.words) == 5 and end >= len(content) - 12)


def test_no_file_is_said(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_vectors(tmp_path / "nothing")


def test_words_that_a_format_cannot_hold_are_refused(tmp_path):
    with pytest.raises(DataError, match="words with spaces"):
        written(tmp_path, "word2vec", ["a b"], VECTORS[:1])
