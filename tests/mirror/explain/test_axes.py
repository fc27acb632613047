"""Sites name their axes: models whose attention is no plain matrix of one text are traced, stored and explained.

A tape that grows (unlike numbers of keys), a memory that is written (values of their own at each call), sentences of
words (several rows an input), and an image with a text (unlike axes, one of them a picture).
"""

import pytest
import torch
from torch import nn

import regard
from regard.attention import Mask, attend
from regard.attention.heads import MultiHead
from regard.attention.learned_query import LearnedQuery
from regard.attention.memory import Address, locate, read_memory, write
from regard.core import taps
from regard.core.errors import RegardError
from regard.core.output import Output
from regard.explain import Subject, Trace, find_method, method_names, record
from regard.explain.methods.effective import effective_weights

D = 6


class Tape(nn.Module):
    """Each word looks at those before it, one call a word, as an LSTMN does."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, D), nn.Linear(D, 3)

    def forward(self, input_ids):
        x = taps.point("encoder.input", self.embedding(input_ids))
        tape, states = [x[:, 0]], [x[:, 0]]
        for t in range(1, x.shape[1]):
            kept = torch.stack(tape, 1)[:, None]
            axes = taps.Axes("later", "earlier")
            seen = attend(x[:, t, None, None].transpose(1, 2), kept, kept, site="tape", axes=axes).context[:, 0, 0]
            tape.append(torch.tanh(x[:, t] + seen))
            states.append(tape[-1])
        hidden = taps.point("encoder.0", torch.stack(states, 1))
        return Output(hidden, self.head(hidden.mean(1)))

    def subject(self, words=("a", "b", "c", "d")):
        labels = list(words)
        sides = {"input": [labels], "later": [labels[1:]], "earlier": [labels[:-1]]}
        return classes(self, {"input_ids": torch.arange(len(labels))[None]}, sides)


class Machine(nn.Module):
    """Reads a memory and writes to it at every step, as an NTM does."""

    def __init__(self):
        super().__init__()
        self.embedding, self.start = nn.Embedding(9, D), nn.Parameter(torch.randn(1, 4, D))
        self.gate, self.head = nn.Linear(D, 1), nn.Linear(D, 3)

    def forward(self, input_ids):
        x = taps.point("encoder.input", self.embedding(input_ids))
        memory, weights, reads = self.start.expand(len(x), -1, -1), None, []
        for x_t in x.unbind(1):
            key = x_t[:, None]
            address = Address(
                key, key.new_ones(len(x), 1), torch.sigmoid(self.gate(x_t)), None, key.new_ones(len(x), 1) * 2
            )
            weights = locate(memory, address, weights)
            reads.append(read_memory(memory, weights)[:, 0])
            memory = write(memory, weights, torch.sigmoid(key), torch.tanh(key))
        hidden = taps.point("encoder.0", torch.stack(reads, 1))
        return Output(hidden, self.head(hidden.mean(1)))

    def subject(self):
        sides = {"input": [["a", "b", "c"]], "memory": [["m0", "m1", "m2", "m3"]]}
        return classes(self, {"input_ids": torch.tensor([[1, 2, 3]])}, sides)


class Documents(nn.Module):
    """Words make sentences, sentences make a document, as in a HAN."""

    def __init__(self):
        super().__init__()
        self.embedding, self.words, self.sentences = nn.Embedding(9, D), LearnedQuery(D), LearnedQuery(D)
        self.words.site, self.words.axes = "word", taps.Axes("query", "word")
        self.sentences.site, self.sentences.axes = "sentence", taps.Axes("query", "sentence")
        self.head = nn.Linear(D, 3)

    def forward(self, input_ids):  # [B, sentences, words]; 0 is padding
        n_rows, n_sentences = input_ids.shape[:2]
        rows = torch.arange(n_rows).repeat_interleave(n_sentences)
        x = self.embedding(input_ids).flatten(0, 1)
        real = Mask(keys=(input_ids > 0).flatten(0, 1))
        vectors = self.words(x, mask=real, rows=rows).context[:, 0, 0].unflatten(0, (n_rows, n_sentences))
        vectors = taps.point("encoder.input", vectors, "sentence")
        vectors = taps.point("encoder.0", torch.tanh(vectors), "sentence")
        document = self.sentences(vectors).context[:, 0, 0]
        return Output(vectors, self.head(document))

    def subject(self):
        ids = torch.tensor([[[1, 2, 3], [4, 5, 0]], [[6, 0, 0], [7, 8, 2]]])
        sides = {
            "sentence": [["s0", "s1"], ["s0", "s1"]],
            "word": [["the", "old", "cat"], ["it", "slept"], ["Yes"], ["it", "was", "late"]],
        }
        return classes(self, {"input_ids": ids}, sides)


class Asked(nn.Module):
    """Words of a question look at the regions of an image."""

    def __init__(self):
        super().__init__()
        self.embedding, self.patches, self.head = nn.Embedding(9, D), nn.Linear(4, D), nn.Linear(D, 3)
        self.cross = MultiHead(D, 2)
        self.cross.site, self.cross.axes = "look", taps.Axes("question", "image")

    def forward(self, pixel_values, input_ids):
        image = taps.point("image.input", self.patches(pixel_values), "image")
        words = taps.point("question.input", self.embedding(input_ids), "question")
        hidden = taps.point("question.0", words + self.cross(words, self.cross.prepare(image)), "question")
        return Output(hidden, self.head(hidden.mean(1)))

    def subject(self):
        inputs = {"pixel_values": torch.randn(1, 6, 4), "input_ids": torch.tensor([[1, 2, 3]])}
        labels = [f"{row},{column}" for row in range(2) for column in range(3)]
        sides = {"question": [["what", "is", "it"]], "image": [labels]}
        return classes(self, inputs, sides, grids={"image": (2, 3)})


def classes(model, inputs, sides, **more):
    def score(output, _):
        return output.logits.log_softmax(-1)[:, 0]

    return Subject(type(model).__name__.lower(), "classification", model, inputs, sides, score, **more)


KINDS = [Tape, Machine, Documents, Asked]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__.lower())
def subject(request):
    torch.manual_seed(0)
    return request.param().eval().subject()


def test_traced_saved_and_loaded_alike(subject, tmp_path):
    trace = record(subject, value_path=True, gradients=True)
    trace.save(tmp_path / "x.trace")
    back = Trace.load(tmp_path / "x.trace")
    assert (back.sides, back.grids, back.axes) == (trace.sides, trace.grids, trace.axes)
    for name, site in trace.sites.items():
        other = back[name]
        assert (other.queries, other.keys) == (site.queries, site.keys)
        for part in ("weights", "allowed", "path", "frame", "gradients", "rows", "calls"):
            before, after = getattr(site, part), getattr(other, part)
            assert (before is None) == (after is None)
            assert before is None or torch.equal(before, after)


@pytest.mark.parametrize("stored", [False, True])
def test_every_method_applies_or_says_in_a_line_why_not(subject, stored, tmp_path):
    applied = set()
    for name in method_names():
        method = find_method(name)
        if method.looks_at != "trace":
            continue
        trace = record(subject, **method.needs)
        if stored:
            trace.save(tmp_path / "x.trace")
            trace = Trace.load(tmp_path / "x.trace")
        try:
            result = method.function(trace)
        except RegardError as error:
            refused = str(error)
            if "\n" in refused:
                raise
            continue
        assert result.panels
        applied.add(name)
        result.save(tmp_path / f"{name}.html")
    assert {"maps", "effective"} <= applied
    if not stored:
        assert {"overview", "attribute"} <= applied


def test_watching_changes_no_bit(subject):
    with torch.no_grad():
        alone = subject.run(**subject.inputs).logits
        with regard.watch(parts=True):
            watched = subject.run(**subject.inputs).logits
    assert torch.equal(alone, watched)


def test_a_growing_tape_is_a_triangle():
    torch.manual_seed(0)
    trace = record(Tape().eval().subject(), value_path=True)
    weights = trace.heads("tape")
    assert weights.shape == (1, 3, 3)
    for query in range(3):
        assert float(weights[0, query, : query + 1].sum()) == pytest.approx(1, abs=1e-6)
        assert not weights[0, query, query + 1 :].any()
    assert trace["tape"].allowed[0, 0].tolist() == torch.ones(3, 3).tril().bool().tolist()


def test_each_call_has_its_own_values():
    """Effective attention of a memory that changes: A⊥·T = A·T with the T of each step."""
    torch.manual_seed(0)
    trace = record(Machine().double().eval().subject(), value_path=True)
    site = trace["memory"]
    assert site.calls.tolist() == [0, 1, 2]
    assert site.path.shape == (1, 1, 3, 4, D)
    assert not torch.allclose(site.path[:, :, 0], site.path[:, :, 1])
    raw, (part, null) = trace.heads("memory"), effective_weights(trace, "memory")
    for step in range(3):
        path = site.path[0, :, step]
        torch.testing.assert_close(part[:, step : step + 1] @ path, raw[:, step : step + 1] @ path)
    assert null.tolist() == [[0, 0, 0]], "four rows of six features hide nothing"


def test_memory_reports_the_weights_that_were_read_with():
    """After the gate and the sharpening, not those by content alone."""
    memory, key = torch.randn(1, 4, D), torch.randn(1, 1, D)
    address = Address(key, torch.ones(1, 1), torch.full((1, 1), 0.3), None, torch.full((1, 1), 4.0))
    with regard.watch() as seen:
        weights = locate(memory, address, torch.tensor([[[1.0, 0.0, 0.0, 0.0]]]))
        read_memory(memory, weights)
    assert [entry.site for entry in seen] == ["memory"]
    assert torch.equal(seen["memory"].weights[:, :, 0], weights)
    assert (seen["memory"].axes.queries, seen["memory"].axes.keys) == ("input", "memory")


def test_sentences_are_several_rows_of_one_input():
    torch.manual_seed(0)
    trace = record(Documents().eval().subject())
    assert trace.rows == 2
    assert [look.name for look in trace.looks("word", 1)] == ["word[0]", "word[1]"]
    assert [look.keys for look in trace.looks("word", 1)] == [["Yes"], ["it", "was", "late"]]
    assert [look.keys for look in trace.looks("sentence", 1)] == [["s0", "s1"]]
    result = regard.explain.maps(trace, row=1)
    assert list(result.heads.sites) == ["word[0]", "word[1]", "sentence"]
    for look in trace.looks("word", 1):
        assert float(look.weights.sum()) == pytest.approx(1, abs=1e-6)


def test_words_about_an_image_get_a_picture_each():
    torch.manual_seed(0)
    trace = record(Asked().eval().subject())
    panels = regard.explain.maps(trace).panels
    pictures = [panel for panel in panels if getattr(panel, "square", False)]
    assert [panel.name for panel in pictures] == [
        f"Where {word} looks: look, mean of 2 heads" for word in ("what", "is", "it")
    ]
    assert [len(pictures[0].values), len(pictures[0].values[0])] == [2, 3]
