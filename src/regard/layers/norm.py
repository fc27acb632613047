"""Normalisation of hidden states, by name.

layer   y = (x − μ) / √(σ² + ε) · γ + β, with μ and σ² over the features of one position (Ba et al. 2016)
rms     y = x / √(mean(x²) + ε) · γ, no mean and no shift (Zhang and Sennrich 2019)
batch   the formula of `layer` with μ and σ² of one feature over batch and time (Ioffe and Szegedy 2015)
none    y = x

γ is `weight`, β is `bias`, ε is `eps`.

`layer` and `rms` use one position only, so they give the same result in training and evaluation, whatever else is in
the batch. `batch` depends on the other rows during training, padding included, and on running averages in evaluation;
it is here for comparison.

Where we differ: ε is 1e-5 for every kind. Torch's default for RMS is the machine epsilon of the input's type, so the
same model would compute a different function in bfloat16 than in float32.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import ShapeError, UnknownName

DEFAULT_EPS = 1e-5


class BatchNorm(nn.BatchNorm1d):
    """Torch's batch norm for [B,T,D]: one mean and one variance per feature, over batch and time."""

    def forward(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        x_ND = x_BTD.flatten(0, 1)
        if self.training and len(x_ND) < 2:
            raise ShapeError(
                "batch norm cannot train on so few positions",
                got=len(x_ND),
                expected="2 or more, counted over batch and time",
                remedy="Use a larger batch, or norm 'layer', which needs only one position.",
            )
        return super().forward(x_ND).reshape(x_BTD.shape)


_NORMS: dict[str, Callable[[int, float], nn.Module]] = {
    "layer": lambda d_model, eps: nn.LayerNorm(d_model, eps=eps),
    "rms": lambda d_model, eps: nn.RMSNorm(d_model, eps=eps),
    "batch": lambda d_model, eps: BatchNorm(d_model, eps=eps),
    "none": lambda d_model, eps: nn.Identity(),
}


def make_norm(name: str, d_model: int, eps: float | None = None) -> nn.Module:
    """The norm called `name` over `d_model` features."""
    if name not in _NORMS:
        raise UnknownName("norm", name, _NORMS)
    return _NORMS[name](d_model, DEFAULT_EPS if eps is None else eps)
