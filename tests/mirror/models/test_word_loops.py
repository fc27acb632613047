"""What word vectors draw and count, beside their definitions."""

import numpy as np
import pytest

from regard.models._co_occurrence import count_pairs
from regard.models._word_loops import Sampling
from regard.models._word_loops_plain import draws


def test_pairs_are_counted_by_distance_inside_documents():
    passage = np.array([4, 5, 6, 4, 3, 5, 5, 1, 6, 7])  # 3 ends a document, 1 is an unknown word
    wanted: dict[tuple[int, int], float] = {}
    for words in ([4, 5, 6, 4], [5, 5, 6, 7]):
        for i, word in enumerate(words):
            for j, other in enumerate(words):
                if 0 < abs(i - j) <= 2:
                    wanted[word, other] = wanted.get((word, other), 0) + 1 / abs(i - j)
    for passages in ([passage], [passage[:5], passage[5:]], [passage[:5]] + [passage[:0]] * 20 + [passage[5:]]):
        table = count_pairs(passages, 8, 2)
        counted = dict(
            zip(zip(table.rows.tolist(), table.columns.tolist(), strict=True), table.counts.tolist(), strict=True)
        )
        assert counted == pytest.approx(wanted)


def test_words_are_kept_and_noise_is_drawn_in_proportion():
    counts = np.array([0, 0, 1000, 200, 30, 5])
    sampling = Sampling.of(counts, sample=0.05, power=0.75)
    share = counts / counts.sum()
    for word in (2, 3, 4, 5):
        kept = min(1.0, (0.05 / share[word]) ** 0.5 + 0.05 / share[word])
        assert sampling.keep[word] / 2**32 == pytest.approx(kept, abs=1e-6)
    noise = np.zeros(6)
    for word, (stay, alias) in enumerate(zip(sampling.stay, sampling.alias, strict=True)):
        noise[word] += stay / 2**32 / 6
        noise[alias] += (1 - stay / 2**32) / 6
    assert noise == pytest.approx(counts**0.75 / (counts**0.75).sum(), abs=1e-6)
    assert (Sampling.of(counts, sample=0.0, power=0.75).keep == 2**32 - 1).all()


def test_draws_are_splitmix64():
    """The first numbers of the generator with seed 1234567, from its author's page."""
    assert draws(1234567, np.arange(3)).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]
