"""What a language model memorised: on models that are over-fitted here, and on one that never learnt."""

import math
import random

import pytest
import torch

from regard.core.errors import DataError, UsageError
from regard.core.search import Search
from regard.data.text import make_tokenizer
from regard.explain.methods.memorised import memorised
from regard.explain.secrets import Pattern, _log2_below, exposure, log_probs, of_canary, parse
from regard.explain.verbatim import continuations
from regard.models import config_of, make_model
from regard.pipelines import make_pipeline
from regard.store import StoredModel

CANARY, ABSENT = "the code is 482", "the code is 175"
WORDS = ["sun", "moon", "river", "stone", "cloud", "light", "over", "under", "sings", "falls", "grey", "slow"]


def sentences(count, seed):
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=5)) + f" {chance.randrange(1000):03d}." for _ in range(count)]


def loaded(tokenizer, seed=0):
    torch.manual_seed(seed)
    options = {"d_model": 32, "n_layers": 2, "n_heads": 2, "max_len": 40, "position": "rotary"}
    still = {"dropout": 0.0, "attention_dropout": 0.0, "embedding_dropout": 0.0}
    config = config_of("gpt2", {**options, **still, "vocab_size": tokenizer.vocab_size})
    model = make_model("gpt2", config).eval()
    stored = StoredModel("language_model", "gpt2", config, model, tokenizer, tokenizer, Search(beam=1))
    return make_pipeline(stored)


def fit(model, text, updates, length=32, rows=16):
    (ids,) = map(torch.tensor, model.tokenizer.encode_batch([text]))
    generator = torch.Generator().manual_seed(1)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    for _ in range(updates):
        starts = torch.randint(len(ids) - length, (rows,), generator=generator)
        rows_BT = torch.stack([ids[start : start + length + 1] for start in starts.tolist()])
        logits = model.model(rows_BT[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), rows_BT[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item()


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer("char", ["".join(sentences(50, 0)) + CANARY + ABSENT + "\n0123456789QZ"])


@pytest.fixture(scope="module")
def with_canary(tokenizer, tmp_path_factory):
    """A text in which the canary stands six times among sixty sentences, and a model that has read it."""
    lines = sentences(60, 1)
    lines[::10] = [f"{CANARY}."] * 6
    path = tmp_path_factory.mktemp("canary") / "text.txt"
    path.write_text("\n".join(lines) + "\n")
    model = loaded(tokenizer)
    fit(model, path.read_text(), 250)
    return model, path


def test_an_inserted_canary_is_exposed_and_another_is_not(with_canary):
    model, path = with_canary
    facts = memorised(model, text=str(path), canary=CANARY, prompts=5, prompt=8, length=8).data["exposure"]
    assert facts["how"] == "exact"
    assert facts["times_in_text"] == 6
    assert facts["most_bits"] == pytest.approx(math.log2(1000))
    assert facts["bits"] > 8
    other = memorised(model, text=str(path), canary=ABSENT, prompts=5, prompt=8, length=8).data["exposure"]
    assert other["times_in_text"] == 0
    assert other["bits"] < 4


def test_rank_is_that_of_a_plain_loop(tokenizer):
    model = loaded(tokenizer, seed=3).double()
    pattern = parse("the code is {2 digits}")

    def plain(text):
        ids = torch.tensor(model.prompt_ids(text))
        with torch.no_grad():
            logs = model.model(ids[None]).logits[0].log_softmax(-1)
        return sum(logs[t, ids[t + 1]].item() for t in range(len(ids) - 1))

    canary = "the code is 31"
    scores = {f"the code is {n:02d}": plain(f"the code is {n:02d}") for n in range(100)}
    secret = exposure(model, canary, pattern)
    assert secret.log_prob == pytest.approx(scores[canary])
    assert secret.rank == sum(score >= scores[canary] for score in scores.values())
    assert secret.bits == pytest.approx(math.log2(100) - math.log2(secret.rank))
    assert log_probs(model, list(scores)).tolist() == pytest.approx(list(scores.values()))


def test_large_patterns_are_estimated(with_canary):
    """Of the same thousand, some drawn: by rank close to the exact exposure, by fit far out for what was learnt."""
    model, _ = with_canary
    pattern = parse("the code is {3 digits}")
    exact, drawn = exposure(model, ABSENT, pattern), exposure(model, ABSENT, pattern, most=400)
    assert (exact.how, drawn.how, drawn.among) == ("exact", "drawn", 401)
    assert abs(drawn.bits - exact.bits) < 0.5
    learnt = exposure(model, CANARY, pattern, most=400)
    assert learnt.how == "fitted"
    assert 5 < learnt.bits <= math.log2(1000)


def test_tail_of_the_fitted_distribution():
    """A normal sample: known to many deviations out; a skewed one: by counting."""
    normal = torch.randn(200_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for z in (1.0, 0.0, -2.0, -5.0):
        true = torch.special.log_ndtr(torch.tensor(z, dtype=torch.float64)).item() / math.log(2)
        assert _log2_below(normal, z) == pytest.approx(true, abs=0.02 * z**2 + 0.02)
    skewed = 0.9 * normal.abs() + math.sqrt(1 - 0.81) * normal.flip(0)
    for z in (-0.3, 0.1, 0.8):
        assert _log2_below(skewed, z) == pytest.approx(math.log2((skewed <= z).double().mean().item()), abs=0.05)


def test_verbatim_share_tells_over_fitted_from_untrained(tokenizer, tmp_path):
    text = "\n".join(sentences(12, 5)) + "\n"
    (tmp_path / "text.txt").write_text(text)
    (tmp_path / "other.txt").write_text("\n".join(sentences(12, 6)) + "\n")
    model = loaded(tokenizer)
    options = {"text": str(tmp_path / "text.txt"), "prompts": 30, "prompt": 16, "length": 8}
    before = memorised(model, **options).data["verbatim"]["training text"]
    assert before["share"] < 0.1
    assert fit(model, text, 400) < 0.3
    result = memorised(model, held_out=str(tmp_path / "other.txt"), **options)
    after, held_out = (result.data["verbatim"][name] for name in ("training text", "held-out text"))
    assert after["share"] > 0.7
    assert held_out["share"] < 0.4
    assert after["mean_agreed"] > held_out["mean_agreed"]
    assert after["interval"][0] < after["share"] < after["interval"][1] or after["share"] == 1.0
    # Numbers that came back stand in the text.
    assert after["names_and_numbers"]
    assert all(word in text for word in after["names_and_numbers"])
    assert result.as_dict()["data"]["verbatim"]


def test_agreement_is_that_of_the_model_read_step_by_step(with_canary):
    model, path = with_canary
    (ids,) = model.tokenizer.encode_batch([path.read_text()])
    stretches = continuations(model, path.read_text(), prompts=6, prompt=10, length=6, seed=2)
    starts = sorted(random.Random(2).sample(range(len(ids) - 16 + 1), 6))
    for stretch, start in zip(stretches, starts, strict=True):
        written = ids[start : start + 10]
        with torch.no_grad():
            for _ in range(6):
                written = [*written, int(model.model(torch.tensor([written])).logits[0, -1].argmax())]
        real = ids[start : start + 16]
        agreed = next((i for i in range(6) if written[10 + i] != real[10 + i]), 6)
        assert stretch.agreed == agreed
        assert stretch.whole == (agreed == 6)


def test_names_count_only_when_new_and_whole(tokenizer):
    """A stand-in that always writes the text itself."""
    text = "we met Quiz in zone 12 and then Zoe went to Quiz at 12:30 and so on and on"
    own = make_tokenizer("char", [text])

    class Parrot:
        stored = type("Stored", (), {"search": Search()})
        model = type("Model", (), {"longest": None})
        tokenizer = own

        def prompt_ids(self, prompt):
            return self.tokenizer.encode_batch([prompt])[0]

        def decode_ids(self, rows, options):
            return [(self.prompt_ids(text)[len(row) : len(row) + options.max_extra], 0.0, False) for row in rows]

    def names(prompt, length):
        (stretch,) = [
            stretch
            for stretch in continuations(Parrot(), text, prompts=1000, prompt=prompt, length=length)
            if text.startswith(stretch.prompt)
        ]
        return stretch.names

    assert names(15, 45) == ["12", "Zoe", "12:30"]
    assert names(15, 18) == ["12"]


def test_patterns():
    pattern = parse("a {2 digits}-{1 letter}.")
    assert pattern == Pattern(("a ", "0123456789", "", "0123456789", "-", "abcdefghijklmnopqrstuvwxyz", "."))
    assert pattern.size == 2600
    every = list(pattern.every())
    assert len(set(every)) == 2600
    assert all(pattern.fits(text) for text in [every[0], every[-1], *pattern.some(20, seed=0)])
    assert not pattern.fits("a 1-x.")
    assert of_canary("id 12, pin 3456") == "id {2 digits}, pin {4 digits}"


def test_errors_are_one_line_with_a_remedy(with_canary, tmp_path):
    model, path = with_canary
    for options, error, words in [
        ({"text": str(tmp_path / "none.txt")}, DataError, "none.txt cannot be read"),
        ({"text": str(path), "canary": "no secret"}, UsageError, "no digits"),
        ({"text": str(path), "canary": "x 1", "pattern": "x y"}, UsageError, "no placeholder"),
        ({"text": str(path), "canary": "x 1", "pattern": "y {1 digit}"}, UsageError, "not a text of its pattern"),
        ({"text": str(path), "canary": "482 it is"}, UsageError, "first token"),
        ({"text": str(path), "pattern": "x {1 digit}"}, UsageError, "needs a canary"),
        ({"text": str(path), "prompt": 100_000}, UsageError, "too short"),
    ]:
        with pytest.raises(error, match=words) as caught:
            memorised(model, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="needs a language model"):
        memorised(object(), text=str(path))
