"""Differential attention (Patro and Namboodiri 2018): a question is compared with two exemplars.

Exemplars are training examples, each an image with a question. In the joint space of question and image, the nearest
exemplar is the *supporting* one (+), the farthest is the *opposing* one (−):

    key = [u₀ / ‖u₀‖; v̄ / ‖v̄‖]                                 u₀: the question's vector, v̄: the mean of the cells
    + = argmax key · key_m,  − = argmin key · key_m               over the exemplars m

p, p⁺, p⁻ are the attention maps of the last step (of the question on its image, of each exemplar's question on its own
image), and s, s⁺, s⁻ are the contexts Σ p_i v_i:

    DAN    loss = −log p(answer) + ν max(0, ‖t − t⁺‖² − ‖t − t⁻‖² + α)         t = p / ‖p‖, or s / ‖s‖
    DCN    r⁺ = proj_s s⁺ + proj_s s⁻                                             proj_s x = (s · x) s / ‖s‖²
           r⁻ = (s⁺ − proj_s s⁺) + (s⁻ − proj_s s⁻)
           d = tanh(W s + W⁺ r⁺ − W⁻ r⁻),   u ← u + d

ν is `triplet`, α `margin`, W `own`, W⁺ `along`, W⁻ `across`.

Where we differ: the exemplars are a fixed set of training images with some of their questions. They are drawn by the
seed, set aside from training and stored with the model (`Exemplars`), so a loaded model uses the same exemplars as in
training. The joint space is that of the model's own current weights, without gradients, so the choice of exemplars is a
function of the weights alone. The paper finds neighbours in the whole training set, in the space of another model, and
takes the opposing exemplar from the far end of the neighbours' list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Differential = Literal["none", "dan", "dcn"]
Between = Literal["maps", "contexts"]


@dataclass(frozen=True)
class Looked:
    """The result of attention to an image: the states u₁ … u_K [B,N,K,D], the last map p [B,N,P], the context s
    [B,N,D]."""

    states: Float[Tensor, "B N K D"]
    map: Float[Tensor, "B N P"]
    context: Float[Tensor, "B N D"]


class Exemplars(nn.Module):
    """M images with X questions each, as tensors that are stored with the model; empty until they are filled."""

    pixel_values: Tensor
    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor

    def __init__(self, count: int, questions: int, words: int, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.register_buffer("pixel_values", torch.zeros(count, *shape))
        self.register_buffer("input_ids", torch.zeros(count, questions, words, dtype=torch.int64))
        self.register_buffer("attention_mask", torch.zeros(count, questions, words, dtype=torch.bool))
        self.register_buffer("labels", torch.full((count, questions), -1))

    @torch.no_grad()
    def fill(self, pixel_values: Tensor, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> None:
        """Copy images with their questions into the buffers. Questions and words beyond their size are left out."""
        self.pixel_values.copy_(pixel_values)
        (_, rows, words), (_, given, length) = self.input_ids.shape, input_ids.shape
        rows, words = min(rows, given), min(words, length)
        for own, other in ((self.input_ids, input_ids), (self.attention_mask, attention_mask)):
            own.zero_()
            own[:, :rows, :words] = other[:, :rows, :words]
        self.labels.fill_(-1)
        self.labels[:, :rows] = labels[:, :rows]

    @property
    def usable(self) -> Bool[Tensor, " M"]:
        """Which pairs of image and question hold a question; the pairs are ordered by image."""
        return self.attention_mask.any(2).flatten()


def joint(question: Float[Tensor, "*N D"], cells: Float[Tensor, "*N E"]) -> Float[Tensor, "*N DE"]:
    """The vector of a question and of the mean of its image's cells in the joint space."""
    return torch.cat([F.normalize(question, dim=-1), F.normalize(cells, dim=-1)], -1).detach()


def nearest_and_farthest(
    keys: Float[Tensor, "R D"], exemplars: Float[Tensor, "M D"], usable: Bool[Tensor, " M"]
) -> tuple[Int[Tensor, " R"], Int[Tensor, " R"]]:
    """The supporting and the opposing exemplar of each row; on a tie, the first."""
    likeness = keys.float() @ exemplars.float().T
    return likeness.masked_fill(~usable, -torch.inf).argmax(1), likeness.masked_fill(~usable, torch.inf).argmin(1)


def triplet(own: Tensor, supporting: Tensor, opposing: Tensor, margin: float) -> Tensor:
    """max(0, ‖t − t⁺‖² − ‖t − t⁻‖² + α) over the last axis, with the vectors normalised to length 1."""
    t, near, far = (F.normalize(x.float(), dim=-1) for x in (own, supporting, opposing))
    return F.relu((t - near).square().sum(-1) - (t - far).square().sum(-1) + margin)


class DifferentialContext(nn.Module):
    """d of the DCN, from the contexts of the image and of its two exemplars."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.own = nn.Linear(d_model, d_model)
        self.along, self.across = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))

    def forward(
        self, own: Float[Tensor, "*B D"], supporting: Float[Tensor, "*B D"], opposing: Float[Tensor, "*B D"]
    ) -> Float[Tensor, "*B D"]:
        along = _projected(supporting, own) + _projected(opposing, own)
        across = supporting + opposing - along
        return torch.tanh(self.own(own) + self.along(along) - self.across(across))


def _projected(x: Tensor, onto: Tensor) -> Tensor:
    square = onto.square().sum(-1, keepdim=True).clamp_min(1e-12)
    return (x * onto).sum(-1, keepdim=True) / square * onto
