"""ARPA files: what is written is read as the same model, and what is wrong with a file is said in one line."""

import gzip
import math

import pytest
import torch
from tests.system.small_models import fit_on_lines, stored

import regard
from regard import api
from regard.core.errors import DataError, UsageError
from regard.data.text import make_tokenizer
from regard.pipelines import make_pipeline

LINES = ["a b a b c", "b c a b", "c a b a", "a b c d", "b a <unk>", "d d a b c a b", "c c a", "a b"]
GOOD = """\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-99 <s> -0.3
-0.6 </s>
-0.6 <unk>
-0.5 a -0.2
-0.7 b

\\2-grams:
-0.2 <s> a
-0.4 a b

\\end\\
"""


def loaded(lines=LINES, **options):
    tokenizer = make_tokenizer("space", lines)
    made = stored("ngram", "language_model", {"vocab_size": tokenizer.vocab_size, **options}, {}, tokenizer)
    fit_on_lines(made.model, tokenizer, lines)
    made.config = made.model.config
    return make_pipeline(made)


@pytest.mark.parametrize("smoothing", ["kneser_ney", "mle"])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_what_is_written_is_read(tmp_path, order, smoothing):
    model = loaded(order=order, smoothing=smoothing)
    assert api.convert(model, tmp_path / "x.arpa", to="arpa") == []
    back = regard.load(tmp_path / "x.arpa")
    assert back.config.smoothing == "backoff"
    assert back.tokenizer.pieces() == model.tokenizer.pieces()
    text = torch.tensor([model.tokenizer.encode_batch(["a b d c a a b zzz"])[0]])
    torch.testing.assert_close(back.model(text).logits, model.model(text).logits, atol=1e-5, rtol=1e-5)
    api.convert(back, tmp_path / "y.arpa", to="arpa")
    assert (tmp_path / "x.arpa").read_text() == (tmp_path / "y.arpa").read_text()
    back.save(tmp_path / "folder")
    assert torch.equal(regard.load(tmp_path / "folder").model(text).logits, back.model(text).logits)


def test_a_file_is_read_by_hand(tmp_path):
    with gzip.open(tmp_path / "x.arpa.gz", "wt") as file:
        file.write("a comment\n" + GOOD)
    model = regard.load(tmp_path / "x.arpa.gz")
    a, b = model.tokenizer.encode_batch(["a b"])[0]
    logits = model.model(torch.tensor([[a, b]])).logits[0] / math.log(10)
    assert logits[0, b].item() == pytest.approx(-0.4), "a bigram"
    assert logits[0, a].item() == pytest.approx(-0.7), "-0.2 to back off, and the unigram"
    assert logits[1, a].item() == pytest.approx(-0.5), "b begins no bigram, so its weight may be missing"
    assert [written.text for written in model.generate(["a"], max_tokens=3, seed=1)]


@pytest.mark.parametrize("announced", ["ngram 2=0", "ngram 2=0\nngram 3=0"])
def test_orders_without_n_grams_back_off_to_words(tmp_path, announced):
    words = GOOD[GOOD.index("\\1-grams") : GOOD.index("\\2-grams")].replace("-0.3", "0").replace("-0.2", "0")
    sections = "".join(f"\\{n}-grams:\n\n" for n in range(2, 2 + announced.count("=")))
    (tmp_path / "x.arpa").write_text(f"\\data\\\nngram 1=5\n{announced}\n\n{words}{sections}\\end\\\n")
    (tmp_path / "text.txt").write_text("a b\nb a b\n")
    model = regard.load(tmp_path / "x.arpa")
    a, b = model.tokenizer.encode_batch(["a b"])[0]
    logits = model.model(torch.tensor([[a, b, a]])).logits[0] / math.log(10)
    assert logits[:, a].tolist() == pytest.approx([-0.5] * 3)
    numbers = api.validate(tmp_path / "x.arpa", text=tmp_path / "text.txt")
    # five words and two ends, of which all but the first word are predicted
    assert math.log10(numbers["perplexity"]) == pytest.approx((0.5 + 3 * 0.7 + 2 * 0.6) / 6, rel=1e-5)
    assert model.explain("a b a", method="orders").statements


BAD = {
    "-0.5 a -0.2": ("-0.5 a", "lacks back-off weights: got none for 'a', expected a weight"),
    "ngram 2=2": ("ngram 2=3", "wrong count of 2-grams: got 2 of them, expected 3"),
    "ngram 1=5\n": ("ngram 1=99999999999\n", "announces more n-grams than it can hold"),
    "ngram 1=5": ("ngram 1=4", "wrong count of 1-grams: got 5 of them, expected 4"),
    "-0.4 a b": ("-0.4 a x", "word that is no unigram: got 'x'"),
    "-0.6 </s>\n": ("-0.6 c\n", "lacks the unigram </s>"),
    "-0.2 <s> a": ("0.2 <s> a", "expected a log10 of a probability"),
    "-0.3": ("nan", "got nan, expected a number"),
    "-0.7 b\n": ("-0.7 a\n", "lists an n-gram twice: got 'a'"),
    "ngram 2=2\n": ("ngram 3=2\n", "is no count of n-grams"),
    "\\end\\": ("", "is cut short"),
    "-0.2 <s> a\n": ("-0.2 <s> a a a\n", "is no 2-gram"),
}


@pytest.mark.parametrize("old", BAD)
def test_what_is_wrong_is_said_in_one_line(tmp_path, old):
    new, message = BAD[old]
    assert GOOD.count(old) == 1
    (tmp_path / "x.arpa").write_text(GOOD.replace(old, new))
    with pytest.raises(DataError) as caught:
        regard.load(tmp_path / "x.arpa")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trigram_needs_its_beginning(tmp_path):
    text = GOOD.replace("ngram 2=2", "ngram 2=2\nngram 3=1").replace("-0.2 <s> a", "-0.2 <s> a -0.1")
    (tmp_path / "x.arpa").write_text(text.replace("\\end\\", "\\3-grams:\n-0.1 b a b\n\n\\end\\"))
    with pytest.raises(DataError, match="whose beginning it lacks: got 'b a b'"):
        regard.load(tmp_path / "x.arpa")


def test_what_has_no_such_form_is_refused(tmp_path):
    with pytest.raises(UsageError, match="add_k smoothing has no ARPA form"):
        api.convert(loaded(smoothing="add_k"), tmp_path / "x.arpa", to="arpa")
    tokenizer = make_tokenizer("char", LINES)
    letters = stored("ngram", "language_model", {"vocab_size": tokenizer.vocab_size}, {}, tokenizer)
    fit_on_lines(letters.model, tokenizer, LINES)
    with pytest.raises(UsageError, match="without spaces"):
        api.convert(make_pipeline(letters), tmp_path / "x.arpa", to="arpa")
