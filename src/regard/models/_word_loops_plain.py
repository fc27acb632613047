"""The loops of `_word_vectors.c` in numpy, for machines without a compiler: the same random draws and updates."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from regard.models._word_loops import GloveLoop, Passage, Word2vecLoop

Array = NDArray[Any]
_WORD = np.uint64
_HALF = _WORD(32)


def draws(key: int, numbers: Array) -> Array:
    """splitmix64 (Steele et al. 2014) at these places of the sequence of `key`."""
    with np.errstate(over="ignore"):
        z = _WORD(key) + (numbers.astype(_WORD) + _WORD(1)) * _WORD(0x9E3779B97F4A7C15)
        z = (z ^ (z >> _WORD(30))) * _WORD(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> _WORD(27))) * _WORD(0x94D049BB133111EB)
        mixed: Array = z ^ (z >> _WORD(31))
        return mixed


def train_word2vec(loop: Word2vecLoop, passage: Passage, piece: int) -> tuple[float, float]:
    """As the function `word2vec` in C."""
    loss, pairs, every = 0.0, 0.0, passage.tokens.numpy()
    each = 2 + 2 * loop.window * loop.negative
    for begin in range(0, len(every), piece):
        tokens = every[begin : begin + piece]
        places = passage.first + begin + np.arange(len(tokens), dtype=np.int64)
        share = max(1e-4, 1 - (passage.done + begin) / loop.total)
        drawn = draws(loop.key, places * each) >> _HALF
        kept = (tokens >= loop.specials) & (drawn <= loop.sampling.keep[tokens])
        cuts = [0, *(np.flatnonzero(tokens == loop.end) + 1).tolist(), len(tokens)]
        for low, high in pairwise(cuts):
            inside = slice(low, high)
            summed = _sentence(
                loop, tokens[inside][kept[inside]], places[inside][kept[inside]], np.float32(loop.lr * share)
            )
            loss, pairs = loss + summed[0], pairs + summed[1]
    return loss, pairs


def _sentence(loop: Word2vecLoop, ids: Array, places: Array, lr: np.float32) -> tuple[float, float]:
    loss, pairs, vectors = 0.0, 0.0, loop.input.detach().numpy()
    first = places * (2 + 2 * loop.window * loop.negative)
    bits = draws(loop.key, first + 1)
    reaches = 1 + (((bits >> _HALF) * _WORD(loop.window)) >> _HALF).astype(np.int64)
    for i, (word, reach) in enumerate(zip(ids.tolist(), reaches.tolist(), strict=True)):
        around = [*ids[max(0, i - reach) : i].tolist(), *ids[i + 1 : i + 1 + reach].tolist()]
        asked = bits[i] % _WORD(16) == 0
        if not around:
            continue
        groups = [around] if loop.cbow else [[other] for other in around]
        noise = _noise(loop, int(first[i]) + 2, len(groups))
        for group, drawn in zip(groups, noise, strict=True):
            start = vectors[group].mean(0, dtype=np.float32) if loop.cbow else vectors[group[0]]
            change, lost = _predict(loop, start, np.array([word, *drawn[drawn != word]]), lr)
            np.add.at(vectors, group, change)
            loss, pairs = loss + asked * lost, pairs + asked
    return loss, pairs


def _noise(loop: Word2vecLoop, first: int, rows: int) -> Array:
    bits = draws(loop.key, first + np.arange(rows * loop.negative, dtype=np.int64))
    words = ((bits >> _HALF) * _WORD(len(loop.input)) >> _HALF).astype(np.int64)
    stays = (bits & _WORD(2**32 - 1)) < loop.sampling.stay[words]
    drawn: Array = np.where(stays, words, loop.sampling.alias[words]).reshape(rows, loop.negative)
    return drawn


def _predict(loop: Word2vecLoop, start: Array, targets: Array, lr: np.float32) -> tuple[Array, float]:
    """Move the targets' output vectors; return the step of the input vectors, and the loss."""
    outputs = loop.output.detach().numpy()
    others = outputs[targets]
    scores = others @ start
    wanted = np.zeros(len(targets), dtype=np.float32)
    wanted[0] = 1
    errors = lr * (wanted - 1 / (1 + np.exp(-scores)))
    change = errors @ others
    np.add.at(outputs, targets, errors[:, None] * start)
    loss = np.log1p(np.exp(-np.abs(scores))).sum() + np.maximum(0, np.where(wanted > 0, -scores, scores)).sum()
    return change, float(loss)


def train_glove(loop: GloveLoop, rows: Array, columns: Array, counts: Array, order: Array) -> float:
    """As the function `glove` in C."""
    (w, c), (w_bias, c_bias), (w_sums, c_sums), (w_bias_sums, c_bias_sums) = (
        [tensor.detach().numpy() for tensor in pair]
        for pair in (loop.vectors, loop.biases, loop.vector_sums, loop.bias_sums)
    )
    loss = 0.0
    weights = np.minimum(1.0, (counts / np.float32(loop.limit)) ** np.float32(loop.power)).astype(np.float32)
    for entry in order.tolist():
        i, j, weight = rows[entry], columns[entry], weights[entry]
        error = w[i] @ c[j] + w_bias[i] + c_bias[j] - np.log(counts[entry])
        step = np.float32(loop.lr) * weight * error
        loss += 0.5 * float(weight) * float(error) ** 2
        to_w, to_c = step * c[j], step * w[i]
        for values, sums, at, change in (
            (w, w_sums, i, to_w),
            (c, c_sums, j, to_c),
            (w_bias, w_bias_sums, i, step),
            (c_bias, c_bias_sums, j, step),
        ):
            values[at] -= change / np.sqrt(sums[at])
            sums[at] += change * change
    return loss
