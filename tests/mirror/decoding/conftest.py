"""Small random models that keep the contract, and searches written straight from the definitions: slow, one row each.

The slow searches read every path anew from an empty state, so they share nothing with the package but the model.
"""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from regard.attention import Mask
from regard.attention.causal_positions import step_positions
from regard.attention.heads import KeyValues, MultiHead
from regard.core import taps
from regard.core.state import State
from regard.decoding import decode

PAD, BOS, EOS = 0, 1, 2
LEAST = 2.0**-126  # the smallest normal float32
SPECIAL = {"pad": PAD, "bos": BOS, "eos": EOS}


class Table:
    """Logits from a random table, by the row's source and the last two tokens; `batches` has the size of each step.

    They drift with time, or paths that take the same turns in another order would be equally probable.
    """

    coverage_site = None

    def __init__(self, vocab=8, *, kinds=6, seed=0, spread=1.5, end=0.0):
        noise = torch.Generator().manual_seed(seed)
        self.table = spread * torch.randn(kinds, vocab, vocab, vocab, generator=noise, dtype=torch.float64)
        self.table[..., EOS] += end
        self.drift = 0.3 * torch.randn(64, vocab, generator=noise, dtype=torch.float64)
        self.vocab, self.batches = vocab, []

    @property
    def vocab_size(self):
        return self.vocab

    def new_state(self, **room):
        return State(**room)

    def read(self, inputs, state, sources_R):
        kind = (inputs["source"] * inputs["source_mask"]).sum(1) % len(self.table)
        state.put_sources("kind", sources_R, kind)

    def step(self, tokens_NT, counts_N, paths_N, state):
        self.batches.append(len(tokens_NT))
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        before = rows.get("last", torch.zeros(len(paths_N), 2, dtype=torch.int64))
        all_NT = torch.cat([before, tokens_NT], 1)
        last = torch.stack([all_NT[n, count : count + 2] for n, count in enumerate(counts_N.tolist())])
        rows.put("last", last)
        rows.advance()
        drift = self.drift[state.lengths_P[paths_N]].to(self.table.dtype)
        kind = rows.of_sources("kind")[rows.groups.places_N // rows.groups.width]
        return self.table[kind, last[:, 0], last[:, 1]] + drift


class Attentive(nn.Module):
    """Self-attention over what is written, cross-attention over the source."""

    coverage_site = "cross"

    def __init__(self, vocab=8, *, seed=0, d_model=8):
        super().__init__()
        torch.manual_seed(seed)
        self.vocab, self.batches = vocab, []
        self.embedding = nn.Embedding(vocab, d_model)
        self.place = nn.Embedding(64, d_model)
        self.own, self.cross = MultiHead(d_model, 2), MultiHead(d_model, 2)
        self.output = nn.Linear(d_model, vocab)
        taps.name_sites(self)
        self.double()
        with torch.no_grad():
            for weight in self.parameters():
                weight.mul_(1.5)

    @property
    def vocab_size(self):
        return self.vocab

    def new_state(self, **room):
        return State(**room)

    def read(self, inputs, state, sources_R):
        source = inputs["source"]
        memory = self.embedding(source) + self.place(torch.arange(source.shape[1]))
        for name, part in self.cross.prepare(memory)._asdict().items():
            state.put_sources(name, sources_R, part, dim=2)
        state.put_sources("mask", sources_R, inputs["source_mask"], dim=1)

    def step(self, tokens_NT, counts_N, paths_N, state):
        self.batches.append(len(tokens_NT))
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        positions, mask = step_positions(rows)
        x = self.embedding(tokens_NT) + self.place(positions)
        x = x + self.own(x, mask=mask, positions=positions, rows=rows.sub("own"))
        memory = KeyValues(rows.of_sources("keys"), rows.of_sources("values"))
        x = x + self.cross(x, memory, mask=Mask(keys=rows.of_sources("mask")), groups=rows.groups)
        rows.advance()
        return self.output(rows.last(x))


def read_anew(model, inputs, tokens):
    """Logits [B,V] after these tokens [B,T], from an empty state."""
    rows = torch.arange(len(tokens))
    state = model.new_state(sources=len(tokens), paths=len(tokens), capacity=8)
    state.begin(rows, rows)
    model.read(inputs, state, rows)
    return model.step(tokens, torch.full((len(tokens),), tokens.shape[1]), rows, state)


def sources(lengths, *, seed=0, high=8):
    """Inputs of random sources with these lengths, padded to the longest."""
    noise = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    source = torch.randint(3, high, mask.shape, generator=noise) * mask
    return {"source": source, "source_mask": mask}


def run(model, inputs, search, **options):
    lengths = inputs["source_mask"].sum(1)
    return decode(model, inputs, search, lengths=lengths, **{**SPECIAL, **options})


def alone(inputs, row):
    """One row, without its padding."""
    length = int(inputs["source_mask"][row].sum())
    return {name: tensor[row : row + 1, :length] for name, tensor in inputs.items()}


def look(model, inputs, tokens):
    """Log-probabilities of what follows, and the attention each input has got, reading all from the start."""
    with torch.no_grad(), taps.watch("cross") as record:
        logits = read_anew(model, inputs, torch.tensor([[BOS, *tokens]]))
    cover = record["cross"].weights[0].mean(0).sum(0).tolist() if record.seen else []
    return logits[0].double().log_softmax(-1).tolist(), cover


def score(search, log_prob, n, cover=()):
    divisor = (5 + n) / 6 if search.length_form == "wu" else max(n, 1)
    penalty = sum(math.log(min(max(c, LEAST), 1.0)) for c in cover) if search.coverage_penalty else 0.0
    return log_prob / divisor**search.length_penalty + search.coverage_penalty * penalty


def permitted(search, tokens, token):
    """Whether a token may follow, from the definition of each constraint."""
    n = search.no_repeat_ngram
    grams = {tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)} if n else set()
    if token in (PAD, BOS) or (token == EOS and len(tokens) < search.min_length):
        return False
    return token == EOS or not n or (*tokens, token)[-n:] not in grams


def slow_beam(model, inputs, search, prefix=()):
    """Beam search to the limit, without an early stop; `steps` is after how many it could have stopped."""
    limit = search.limit(inputs["source"].shape[1])
    live, finished, steps = [(tuple(prefix), 0.0, ())], [], None
    for length in range(len(prefix), limit):
        continuations = []
        for tokens, log_prob, _ in live:
            gains, cover = look(model, inputs, tokens)
            continuations += [
                (log_prob + gains[v], tokens, v, cover)
                for v in range(model.vocab)
                if permitted(search, tokens, v) and gains[v] > -math.inf
            ]
        if not continuations:
            steps = steps or length + 1 - len(prefix)
            break
        continuations.sort(key=lambda item: -item[0])
        n = length + 1 - len(prefix)
        for log_prob, tokens, token, cover in continuations[: search.beam]:
            if token == EOS:
                finished.append((score(search, log_prob, n, cover), list(tokens), log_prob, True))
        finished = sorted(finished, key=lambda item: -item[0])[: search.nbest]
        live = [((*ts, v), log_prob, cover) for log_prob, ts, v, cover in continuations if v != EOS][: search.beam]
        most = score(search, live[0][1], limit - len(prefix)) if live else -math.inf
        if not live or (len(finished) == search.nbest and most <= finished[-1][0]):
            steps = steps or length + 1 - len(prefix)
    rest = [(score(search, lp, len(ts) - len(prefix), cover), list(ts), lp, False) for ts, lp, cover in live]
    results = finished + sorted(rest, key=lambda item: -item[0])[: search.nbest - len(finished)]
    return SimpleNamespace(results=results, steps=steps or limit - len(prefix))


def agree(got, wanted, tolerance=1e-9):
    """Same tokens and ends, same numbers but for rounding."""
    assert [hypothesis.tokens for hypothesis in got] == [tokens for _, tokens, _, _ in wanted]
    assert [hypothesis.finished for hypothesis in got] == [finished for _, _, _, finished in wanted]
    assert [hypothesis.score for hypothesis in got] == pytest.approx([s for s, _, _, _ in wanted], abs=tolerance)
    assert [hypothesis.log_prob for hypothesis in got] == pytest.approx([lp for _, _, lp, _ in wanted], abs=tolerance)


@pytest.fixture(scope="session")
def kit():
    """The models and slow searches of this file."""
    return SimpleNamespace(
        Table=Table,
        Attentive=Attentive,
        sources=sources,
        run=run,
        alone=alone,
        look=look,
        read_anew=read_anew,
        score=score,
        slow_beam=slow_beam,
        agree=agree,
        special=SPECIAL,
        EOS=EOS,
    )
