"""The page: untrusted text stays text, weights keep to their bound, and a large page stays small and quick."""

import base64
import hashlib
import json
import re
import time
from html.parser import HTMLParser

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.views import Curves, Document, Heads, HeadSite, Matrix, Result, Table, Words
from regard.views.labels import visible
from regard.views.packed import Packed, pack, thumbnails, unpack
from regard.views.page import as_json, page, write_page

EVIL = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "<!--",
    "&lt;",
]


class Reader(HTMLParser):
    """The elements and texts of a page as a browser sees them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.blocks, self.texts = [], {}, []
        self.inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style"):
            self.inside = (tag, dict(attributes).get("type"), dict(attributes).get("id"))
            self.blocks[self.inside] = ""

    def handle_endtag(self, tag):
        if self.inside and tag == self.inside[0]:
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.blocks[self.inside] += data
        elif data.strip():
            self.texts.append(data)

    @property
    def model(self):
        return json.loads(self.blocks["script", "application/json", "model"])


def evil_result():
    weights = torch.rand(2, len(EVIL), len(EVIL))
    panels = [
        Matrix(EVIL[0], EVIL, EVIL, torch.rand(5, 5).tolist(), note=EVIL[1]),
        Curves(EVIL[0], EVIL[1], EVIL[2], {EVIL[0]: [(1, 2)]}),
        Table(EVIL[0], EVIL, [EVIL], note=EVIL[2]),
        Words(EVIL[0], EVIL, [0.0] * 5),
        Document(EVIL[0], [0.5], [EVIL], [[0.0] * 5], note=EVIL[1]),
    ]
    heads = Heads({EVIL[1]: HeadSite(EVIL, EVIL, {EVIL[0]: weights})}, [EVIL[0]])
    return Result(EVIL[0], EVIL[1], panels, EVIL, heads=heads)


def test_untrusted_text_is_never_markup():
    reader = Reader(page(evil_result()))
    assert not [tag for tag, _ in reader.elements if tag == "img"]
    running = [attributes for tag, attributes in reader.elements if tag == "script" and "type" not in attributes]
    assert len(running) == 1
    for _, attributes in reader.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert reader.model["panels"][0]["rows"] == EVIL
    assert reader.model["heads"]["texts"] == [EVIL]
    assert set(EVIL) <= set(reader.texts)  # readable without scripts


def test_the_policy_allows_this_script_and_style_and_no_connection():
    reader = Reader(page(evil_result()))
    policy = next(x["content"] for tag, x in reader.elements if tag == "meta" and "http-equiv" in x)
    assert policy.startswith("default-src 'none'; ")
    for kind in ("script", "style"):
        text = reader.blocks[kind, None, None]
        sum_ = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{sum_}'" in policy
    for tag, attributes in reader.elements:
        assert "src" not in attributes, tag
        assert attributes.get("href", "data:,") == "data:,"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", page(evil_result()))


@given(st.text())
def test_json_in_a_page_cannot_end_its_block(text):
    encoded = as_json({"x": text})
    assert not set(encoded) & set("<>&\u2028\u2029")
    assert json.loads(encoded) == {"x": text}


@given(st.text(max_size=8))
def test_a_visible_label_can_be_seen_and_stored(text):
    shown = visible(text)
    assert shown.strip()
    assert shown.isprintable() or "\u200d" in shown or any(ord(sign) > 0x7F for sign in shown)
    shown.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", shown)


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        (" ", "␣"),
        ("\n", "⏎"),
        (" the", "␣the"),
        ("", "∅"),
        ("a b", "a b"),
        ("\u200b", "U+200B"),
        ("שלום", "שלום"),
        ("👩‍👧", "👩‍👧"),
    ],
)
def test_spaces_are_shown_and_scripts_kept(label, shown):
    assert visible(label) == shown


def test_tables_statements_and_words_are_there_without_scripts():
    result = Result(
        "m", "Title", [Table("T", ["a", "b"], [["x", 0.123456], [None, -2]]), Words("W", ["one"], [1.0])], ["S."]
    )
    texts = Reader(page(result)).texts
    for text in ("Title", "S.", "T", "x", "0.12346", "–", "−2", "one"):
        assert text in texts


@given(st.integers(0, 10**6), st.sampled_from(["plain", "signed", "missing", "zero", "tiny", "large"]))
def test_weights_keep_to_their_bound(seed, kind):
    weights = torch.rand(7, 9, generator=torch.Generator().manual_seed(seed)) ** 4
    if kind == "signed":
        weights = weights - 0.3
    elif kind == "zero":
        weights = weights * 0
    elif kind in ("tiny", "large"):
        weights = weights * {"tiny": 1e-30, "large": 1e30}[kind]
    elif kind == "missing":
        weights[2, 3], weights[0, 0] = torch.nan, torch.inf
    unpacked = unpack(pack(weights, exact=False), (7, 9))
    known = weights.isfinite()
    assert torch.equal(unpacked.isnan(), ~known)
    bound = float(weights[known].abs().max()) / 255 * (1 + 1e-5)
    assert float((unpacked - weights.double())[known].abs().max()) <= bound
    assert bool((unpacked[weights == 0] == 0).all())


def test_few_weights_are_kept_exactly_and_decode_from_the_page():
    weights = torch.rand(3, 4, 5) - 0.5
    site = HeadSite(list("abcd"), list("vwxyz"), {"raw": weights.abs(), "effective": weights})
    reader = Reader(page(Result("m", "t", [], heads=Heads({"s": site}, ["raw", "effective"]))))
    assert reader.model["heads"]["exact"]
    kind = reader.model["heads"]["sites"][0]["kinds"]["effective"]
    assert len(kind["heads"]) == 4  # three and their mean
    for head, facts in enumerate(kind["heads"]):
        text = reader.blocks["script", "application/octet-stream;base64", f"w-0-1-{head}"]
        expected = weights[head] if head < 3 else weights.mean(0)
        assert torch.equal(unpack(Packed(**facts, text=text), (4, 5)).float(), expected)


def test_thumbnails_keep_the_largest_with_its_sign():
    weights = torch.zeros(2, 100, 50)
    weights[0, 99, 49] = 2.0
    weights[1, 0, 0] = -3.0
    small = thumbnails(weights)
    numbers = torch.frombuffer(bytearray(base64.b64decode(small["text"])), dtype=torch.int8).view(2, 24, 24)
    assert numbers[0, 23, 23] == 127
    assert numbers[1, 0, 0] == -127
    assert int((numbers != 0).sum()) == 2


def test_a_page_of_144_heads_and_512_tokens_is_quick_and_modest(tmp_path):
    labels = [f"word{i}" for i in range(512)]
    weights = (torch.randn(12, 512, 512) * 3).softmax(-1)
    site = HeadSite(labels, labels, {"raw": weights, "effective": weights - weights.mean(-1, keepdim=True)})
    result = Result("m", "t", [], heads=Heads({f"layers.{i}": site for i in range(12)}, ["raw", "effective"]))
    start = time.perf_counter()
    write_page(result, tmp_path / "page.html")
    assert time.perf_counter() - start < 30  # two seconds on a free core
    assert (tmp_path / "page.html").stat().st_size < 25e6
    text = (tmp_path / "page.html").read_text()
    assert text.index('id="w-0-0-0"') < 400_000  # what is read before the first weights
    model = json.loads(re.search(r'id="model">(.*?)</script>', text).group(1))
    facts = model["heads"]["sites"][3]["kinds"]["effective"]["heads"][5]
    packed = re.search(r'id="w-3-1-5">(.*?)</script>', text).group(1)
    expected = site.kinds["effective"][5]
    error = (unpack(Packed(**facts, text=packed), (512, 512)) - expected).abs().max()
    assert float(error) <= float(expected.abs().max()) / 255 * (1 + 1e-5)


def test_empty_results_make_pages():
    empty = [
        Matrix("m", [], [], []),
        Curves("c", "x", "y", {}),
        Table("t", [], []),
        Words("w", [], []),
        Document("d", [], [], []),
    ]
    assert "<h1" in page(Result("m", "", empty))
    site = HeadSite([], [], {"raw": torch.zeros(2, 0, 0)})
    assert "<h1" in page(Result("m", "t", [], heads=Heads({"s": site}, ["raw"])))


def test_the_same_result_gives_the_same_page():
    assert page(Result("m", "t", [Words("w", ["a"], [1.0])])) == page(Result("m", "t", [Words("w", ["a"], [1.0])]))
