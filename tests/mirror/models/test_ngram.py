"""N-gram models: the worked arithmetic of each smoothing, against a plain implementation with dictionaries."""

import importlib.util
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch
from tests.system.small_models import fit_on_ids, fit_on_lines

from regard.core.batch import Batch
from regard.core.contracts import FitEpoch
from regard.core.errors import DataError, ShapeError, UsageError, WeightsError
from regard.data.text import make_tokenizer
from regard.models import config_of, make_model
from regard.models._ngram_counts import discounts

BOS, EOS = 2, 3
LINES = ["a b a b c", "b c a b", "c a b a", "a b c d", "b a", "d d a b c a b", "c c a", "a b"]


def counted(lines=LINES, **options):
    tokenizer = make_tokenizer("space", lines)
    model = make_model("ngram", config_of("ngram", {"vocab_size": tokenizer.vocab_size, **options}))
    fit_on_lines(model, tokenizer, lines)
    return model, tokenizer


def random_text(length=3000, vocab=30, seed=1):
    """Zipf's words in sentences: counts of every size."""
    dice = np.random.default_rng(seed)
    words = np.minimum(dice.zipf(1.4, length), vocab - 5) + 3
    words[dice.random(length) < 0.1] = EOS
    return words.tolist()


def sentences(ids):
    part = [BOS]
    for token in ids:
        part.append(token)
        if token == EOS:
            yield part
            part = [BOS]
    if part != [BOS]:
        yield [*part, EOS]


class Plain:
    """Interpolated modified Kneser–Ney with dictionaries, as the paper writes it."""

    def __init__(self, ids, order, vocab):
        self.order, self.words = order, [w for w in range(vocab) if w not in (0, BOS)]
        raw = [Counter() for _ in range(order)]
        for sentence in sentences(ids):
            for n in range(1, order + 1):
                for end in range(max(n, 2), len(sentence) + 1):
                    raw[n - 1][tuple(sentence[end - n : end])] += 1
        self.counts = []
        for n in range(1, order + 1):
            before = defaultdict(set)
            if n < order:
                for gram in raw[n]:
                    before[gram[1:]].add(gram[0])
            alike = {g: c if n == order or g[0] == BOS else len(before[g]) for g, c in raw[n - 1].items()}
            self.counts.append({g: c for g, c in alike.items() if g != (BOS,)})
        self.discounts = [discounts(np.array(list(level.values()))) for level in self.counts]

    def probability(self, word, context):
        n = len(context) + 1
        lower = self.probability(word, context[1:]) if context else 1 / len(self.words)
        level, amounts = self.counts[n - 1], self.discounts[n - 1]
        after = {g: c for g, c in level.items() if g[:-1] == tuple(context)}
        total = sum(after.values())
        if not total:
            return lower
        left = sum(amounts[min(c, 3)] for c in after.values()) / total
        c = after.get((*context, word), 0)
        return (c - amounts[min(c, 3)]) / total + left * lower


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_kneser_ney_is_the_papers(order):
    ids, vocab = random_text(), 30
    model = make_model("ngram", config_of("ngram", {"vocab_size": vocab, "order": order}))
    fit_on_ids(model, ids)
    plain = Plain(ids, order, vocab)
    unseen = random_text(60, seed=2)
    context = [BOS]
    shown = model.label_log_probs(torch.tensor([[BOS, *unseen[:-1]]]), torch.tensor([unseen]))[0].exp().tolist()
    for word, p in zip(unseen, shown, strict=True):
        expected = plain.probability(word, tuple(context[-(order - 1) :]) if order > 1 else ())
        assert p == pytest.approx(expected, rel=1e-5)
        context = [BOS] if word == EOS else [*context, word]


SMOOTHED = [{"smoothing": "kneser_ney"}, {"smoothing": "add_k", "k": 0.1}, {"smoothing": "mle"}]


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("options", SMOOTHED, ids=lambda o: o["smoothing"])
def test_probabilities_sum_to_one_and_are_those_of_labels(options, order):
    ids = random_text()
    model = make_model("ngram", config_of("ngram", {"vocab_size": 30, "order": order, **options}))
    fit_on_ids(model, ids)
    text = torch.tensor([random_text(50, seed=3)])
    logits = model(text).logits
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(1, 50), atol=1e-5, rtol=0)
    assert (logits[..., [0, BOS]] == -math.inf).all(), "padding and <s> are never predicted"
    labels = model.label_log_probs(text[:, :-1], text[:, 1:])
    torch.testing.assert_close(labels, logits[:, :-1].gather(2, text[:, 1:, None])[..., 0], atol=1e-6, rtol=1e-6)
    parts = model(text).hidden
    torch.testing.assert_close(parts[:, 1:].sum(-1), labels.exp(), atol=1e-6, rtol=1e-5)
    assert (parts > -1e-6).all()


def test_the_arithmetic_of_add_k_and_maximum_likelihood():
    for k in (0.0, 0.5):
        model, tokenizer = counted(order=2, smoothing="add_k" if k else "mle", k=k or 1.0)
        (a, b, c), words = (tokenizer.encode_batch(["a b c"])[0], tokenizer.vocab_size - 2)
        after = model(torch.tensor([[a]])).logits[0, 0].exp()
        pairs = Counter(pair for line in LINES for pair in zip(line.split(), [*line.split()[1:], "</s>"], strict=True))
        total = sum(count for (first, _), count in pairs.items() if first == "a")
        assert after[b].item() == pytest.approx((pairs["a", "b"] + k) / (total + k * words), rel=1e-6)
        assert after[c].item() == pytest.approx((pairs["a", "c"] + k) / (total + k * words), rel=1e-6)


def test_a_text_without_discounts_gets_the_usual_ones():
    assert discounts(np.array([1, 1, 1])) == (0.0, 0.5, 1.0, 1.5)
    n = np.repeat([1, 2, 3, 4], [10, 4, 2, 1])
    y = 10 / 18
    assert discounts(n) == pytest.approx((0, 1 - 2 * y * 0.4, 2 - 3 * y * 0.5, 3 - 4 * y * 0.5))


def test_nothing_crosses_a_sentences_end():
    model, tokenizer = counted(order=3)
    (a, b) = tokenizer.encode_batch(["a b"])[0]
    after_end = model(torch.tensor([[a, b, EOS]])).logits[0, -1]
    torch.testing.assert_close(after_end, model(torch.tensor([[BOS]])).logits[0, -1])


def test_windows_that_follow_one_another_are_one_text():
    ids = random_text(400)
    whole, parts, apart = (make_model("ngram", config_of("ngram", {"vocab_size": 30, "order": 3})) for _ in range(3))
    fit_on_ids(whole, ids)
    text = torch.tensor(ids)
    rows = []
    for i in range(0, len(ids) - 1, 57):
        labels = text[None, i + 1 : i + 58]
        rows.append(Batch({"input_ids": text[None, i : i + labels.shape[1]], "labels": labels}, (i,)))
    parts.fit(rows, FitEpoch())
    apart.fit([Batch(row.tensors) for row in rows], FitEpoch())
    assert parts.config == whole.config
    assert all(torch.equal(a, b) for a, b in zip(parts.buffers(), whole.buffers(), strict=True))
    assert apart.config.ngrams != whole.config.ngrams


def test_what_is_wrong_is_said_in_one_line():
    with pytest.raises(DataError, match="order is larger than the text.*order 9.*Set model.options.order to 7"):
        counted(["a b", "a b c d e"], order=9)
    with pytest.raises(UsageError, match="for models read from files"):
        counted(smoothing="backoff")
    model = make_model("ngram", config_of("ngram", {"vocab_size": 30}))
    with pytest.raises(UsageError, match="counted nothing"):
        model(torch.tensor([[4]]))
    with pytest.raises(ShapeError, match="out of range"):
        counted()[0](torch.tensor([[99]]))


def test_damaged_keys_are_refused():
    model, _ = counted(order=2)
    for spoil in (lambda keys: keys.flip(0), lambda keys: keys - 10**6, lambda keys: keys * 10**6):
        spoilt = make_model("ngram", model.config)
        spoilt.load_state_dict({**model.state_dict(), "keys_2": spoil(model.keys_2)})
        with pytest.raises(WeightsError, match="keys_2 .*damaged"):
            spoilt(torch.tensor([[4]]))


@pytest.mark.skipif(importlib.util.find_spec("kenlm") is None, reason="kenlm is not installed")
def test_kenlm_gives_the_same_perplexity(tmp_path):
    import kenlm
    from tests.mirror.store.test_arpa import loaded

    model = loaded([" ".join(f"w{t}" for t in s[1:-1]) for s in sentences(random_text())], order=4)
    from regard import api

    api.convert(model, tmp_path / "x.arpa", to="arpa")
    theirs = kenlm.Model(str(tmp_path / "x.arpa"))
    for sentence in list(sentences(random_text(200, seed=4))):
        words = [f"w{t}" for t in sentence[1:-1]]
        (ids,) = model.tokenizer.encode_batch([" ".join(words)])
        row = torch.tensor([[BOS, *ids, EOS]])
        ours = model.model.label_log_probs(row[:, :-1], row[:, 1:]).double().sum().item() / math.log(10)
        assert ours == pytest.approx(theirs.score(" ".join(words), bos=True, eos=True), rel=1e-4, abs=1e-4)
