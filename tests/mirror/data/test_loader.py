"""Every pair once an epoch, in batches within the budget, in an order that a resumed run finds again."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.batch import Batch
from regard.core.errors import UsageError
from regard.data.loader import Loader
from regard.data.parallel import ParallelText, TokenPairs, encode
from regard.data.text import make_tokenizer

PAD, BOS, EOS = 0, 2, 3
LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=60)
BUDGET = st.integers(1, 120)


def stored(lengths: list[tuple[int, int]]) -> TokenPairs:
    """Pairs of these lengths; the ids of both sides count on from 4, so that every token is told apart."""
    sides = []
    for side in np.array(lengths, dtype=np.int64).reshape(-1, 2).T:
        sides += [np.arange(4, 4 + side.sum()), np.concatenate([[0], np.cumsum(side)])]
    return TokenPairs(*sides)


def loader(pairs: TokenPairs, budget: int, *, seed: int = 7, shuffle: bool = True) -> Loader:
    return Loader(pairs, tokens_per_batch=budget, seed=seed, pad=PAD, bos=BOS, eos=EOS, shuffle=shuffle)


def cells(batch: Batch) -> int:
    return batch["source"].numel() + batch["target"].numel()


def padding_share(batches: list[Batch]) -> float:
    real = sum(int(batch[mask].sum()) for batch in batches for mask in ("source_mask", "target_mask"))
    return 1 - real / sum(map(cells, batches))


def same(first: Batch, second: Batch) -> bool:
    return first.rows == second.rows and all(torch.equal(first[name], second[name]) for name in first.tensors)


@given(lengths=LENGTHS, budget=BUDGET, seed=st.integers(0, 2**64 - 1), number=st.integers(0, 99), shuffle=st.booleans())
def test_every_pair_is_in_one_batch_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int, number: int, shuffle: bool
) -> None:
    made = loader(stored(lengths), budget, seed=seed, shuffle=shuffle)
    batches = list(made.epoch(number))
    assert sorted(row for batch in batches for row in batch.rows) == list(range(len(lengths)))
    assert len(batches) == made.batches_in_epoch(number)
    assert all(batch.size == 1 or cells(batch) <= 2 * budget for batch in batches)


@given(lengths=LENGTHS, budget=BUDGET, share=st.floats(0, 1))
def test_resuming_at_any_batch_gives_the_rest(lengths: list[tuple[int, int]], budget: int, share: float) -> None:
    whole = list(loader(stored(lengths), budget).epoch(3))
    start = round(share * len(whole))
    rest = list(loader(stored(lengths), budget).epoch(3, start))
    assert len(rest) == len(whole) - start
    assert all(map(same, rest, whole[start:]))


@given(lengths=LENGTHS.filter(len), budget=BUDGET)
def test_batches_hold_the_tokens_of_their_rows(lengths: list[tuple[int, int]], budget: int) -> None:
    pairs = stored(lengths)
    for batch in loader(pairs, budget).epoch(0):
        assert set(batch.tensors) == {"source", "source_mask", "target", "target_mask"}
        for i, row in enumerate(batch.rows):
            source, target = pairs.source(row).tolist(), pairs.target(row).tolist()
            assert batch["source"][i][batch["source_mask"][i]].tolist() == [*source, EOS]
            assert batch["target"][i][batch["target_mask"][i]].tolist() == [BOS, *target, EOS]
        for side in ("source", "target"):
            assert (batch[side][~batch[f"{side}_mask"]] == PAD).all()
            assert batch[f"{side}_mask"].any(dim=0).all(), "a column of nothing but padding"


def many(count: int = 600) -> TokenPairs:
    rng = np.random.default_rng(0)
    sources = rng.integers(1, 30, count)
    return stored(list(zip(sources.tolist(), (sources + rng.integers(0, 4, count)).tolist(), strict=True)))


def orders(made: Loader, number: int) -> list[tuple[int, ...]]:
    return [batch.rows for batch in made.epoch(number)]


def test_the_order_follows_from_seed_and_epoch_alone() -> None:
    pairs = many()
    first, second = loader(pairs, 100), loader(pairs, 100)
    assert orders(first, 1) == orders(second, 1)
    list(second.epoch(5))
    assert orders(second, 2) == orders(first, 2) != orders(first, 1)
    assert orders(loader(pairs, 100, seed=8), 1) != orders(first, 1)
    # Seed and epoch are two numbers, not one: they must not stand in for each other.
    assert orders(loader(pairs, 100, seed=1), 2) != orders(loader(pairs, 100, seed=2), 1)


def test_the_order_stays_the_same_from_version_to_version() -> None:
    lengths = [(n % 5 + 1, n % 3 + 1) for n in range(12)]
    # A run that was stopped before an update goes on after it only if this does not change.
    assert orders(loader(stored(lengths), 20, seed=1), 0) == [(5, 10, 0, 6, 11), (8, 9, 4), (1, 2, 7, 3)]


def test_batches_differ_between_epochs_in_order_and_in_company() -> None:
    made = loader(many(), 100)
    first, second = orders(made, 0), orders(made, 1)
    assert len({frozenset(rows) for rows in first} & {frozenset(rows) for rows in second}) < len(first) / 4
    lengths = [int(made.pairs.target_lengths[list(rows)].max()) for rows in first]
    rising = sum(a <= b for a, b in pairwise(lengths)) / len(lengths)
    assert 0.3 < rising < 0.7


def test_without_shuffling_every_epoch_is_alike() -> None:
    made = loader(many(), 100, shuffle=False)
    assert orders(made, 0) == orders(made, 1) == orders(loader(many(), 100, seed=9, shuffle=False), 5)


def test_a_pair_over_the_budget_is_a_batch_of_one() -> None:
    batches = list(loader(stored([(2, 2), (500, 3), (2, 2)]), 10).epoch(0))
    assert sorted(batch.rows for batch in batches) in ([(0, 2), (1,)], [(1,), (2, 0)])


def test_wrong_numbers_are_refused() -> None:
    pairs = stored([(1, 1)] * 4)
    with pytest.raises(UsageError, match="tokens_per_batch"):
        loader(pairs, 0)
    with pytest.raises(UsageError, match="seed"):
        loader(pairs, 1, seed=-1)
    made = loader(pairs, 1)
    with pytest.raises(UsageError, match="no such epoch"):
        made.batches_in_epoch(-1)
    assert list(made.epoch(0, 4)) == []
    for start in (-1, 5):
        with pytest.raises(UsageError, match=f"no batch {start}"):
            made.epoch(0, start)


def test_padding_on_real_text_is_under_five_percent(data: Path, tmp_path: Path) -> None:
    folder = data / "multi30k"
    parallel = ParallelText(folder / "train.en.gz", folder / "train.de.gz")
    tokenizer = make_tokenizer("bpe", (side for pair in parallel.pairs() for side in pair), vocab_size=8000)
    pairs = encode(parallel.pairs(), tokenizer, tokenizer, tmp_path, max_tokens=200)
    made = loader(pairs, 4096)
    for number in range(3):
        batches = list(made.epoch(number))
        assert padding_share(batches) < 0.05
        assert sum(batch.size for batch in batches) == 29_000
        # The budget is used: on average a batch is nearly full.
        assert sum(map(cells, batches)) / len(batches) > 0.95 * 2 * 4096


def test_a_million_pairs_are_planned_in_a_moment() -> None:
    rng = np.random.default_rng(0)
    sources = rng.integers(1, 60, 1_000_000)
    offsets = np.concatenate([[0], np.cumsum(sources)])
    made = loader(TokenPairs(np.zeros(0), offsets, np.zeros(0), offsets), 4096)
    begun = time.perf_counter()
    made.batches_in_epoch(0)
    assert time.perf_counter() - begun < 5


def test_cuts_are_drawn_anew_in_each_epoch_and_again_on_resuming() -> None:
    def cut(ids, offsets, dice):
        counts = 1 + dice.below(2, len(ids))
        return np.repeat(ids, counts), np.concatenate([[0], np.cumsum(counts)])[offsets]

    pairs = stored([(5, 6), (3, 9), (8, 2), (4, 4)] * 6)
    settings = {"tokens_per_batch": 40, "seed": 7, "pad": PAD, "bos": BOS, "eos": EOS}
    made = Loader(pairs, **settings, cuts=(cut, cut))
    first, second = list(made.epoch(0)), list(made.epoch(1))
    again = list(Loader(pairs, **settings, cuts=(cut, cut)).epoch(0, start=2))
    assert all(same(batch, other) for batch, other in zip(first[2:], again, strict=True))
    by_row = [{row: b["source"][i].tolist() for b in part for i, row in enumerate(b.rows)} for part in (first, second)]
    assert by_row[0] != by_row[1]
    plain = {row for batch in loader(pairs, 40).epoch(0) for row in batch.rows}
    assert plain == set(by_row[0]), "the same pairs"
    for batch in [*first, *second]:
        assert batch["source"].numel() + batch["target"].numel() <= 80, "the budget counts what rows have become"
