"""How much of each frequency of a signal is missing: the error's share of the signal's energy, by octave.

    error_f = Σ |F(prediction − signal)|² / Σ |F(signal)|²        over frequencies from f to 2f (error_1: 0 < f < 2)

F is the Fourier transform over the whole signal. Frequencies are in cycles over the signal; for a picture, the
frequency is the length of the frequency vector. Frequency 0, the mean, belongs to no band. The error is 1 for a band
that is not learnt at all and 0 for one that is fitted. Logged at each validation, it shows the spectral bias: low bands
fall first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.core.directions import Direction
from regard.data.signals import Signal
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut

_OCTAVES = tuple(2**power for power in range(12))


class Frequencies(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = {f"error_{octave}": "lower" for octave in _OCTAVES}
    needs: ClassVar[tuple[str, ...]] = ("signal",)

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        signal: Signal = held_out.material["signal"]
        predicted = held_out.model.values(signal.shape)
        return band_errors(predicted, signal.values)


def band_errors(predicted: NDArray[np.float32], values: NDArray[np.float32]) -> dict[str, float]:
    """The error of each octave; both [*shape,C]."""
    axes = tuple(range(values.ndim - 1))
    turns = [np.fft.fftfreq(size, 1 / size) for size in values.shape[:-1]]
    length = np.sqrt(sum(part**2 for part in np.meshgrid(*turns, indexing="ij")))
    mean = values.mean(axis=axes)
    wrong = np.abs(np.fft.fftn(predicted.astype(np.float64) - values, axes=axes)) ** 2
    energy = np.abs(np.fft.fftn(values.astype(np.float64) - mean, axes=axes)) ** 2
    wrong[length == 0] = energy[length == 0] = 0.0
    errors = {}
    for octave in _OCTAVES:
        band = (length < 2) if octave == 1 else (length >= octave) & (length < 2 * octave)
        if octave > max(values.shape[:-1]) / 2:
            break
        if (total := energy[band].sum()) > 1e-9 * energy.sum():
            errors[f"error_{octave}"] = float(wrong[band].sum() / total)
    return errors
