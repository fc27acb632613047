"""Captioning: predict the next word from the image and the words so far (teacher forcing).

A batch holds the images, as `pixel_values` [B,C,H,W] or as `features` [B,P,D] that the model's frozen encoder computed
before, and `target`, as in translation. If captions have `advantages` [B], they are samples of the model itself, which
should become more or less probable (REINFORCE):

    loss = −Σ_k A_k log p(caption k)
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from regard.core.batch import Batch
from regard.core.output import Output
from regard.tasks.loss import matrix
from regard.tasks.translation import Translation


class Captioning(Translation):
    """Loss per real word of the captions."""

    def run(self, model: Any, batch: Batch) -> Output:
        seen = {name: batch[name] for name in ("features", "pixel_values") if name in batch}
        output: Output = model(batch["target"][:, :-1], **seen, target_mask=batch["target_mask"][:, 1:])
        return output

    def loss(self, model: Any, batch: Batch) -> Tensor:
        if "advantages" not in batch:
            return super().loss(model, batch)
        output, real = self.run(model, batch), batch["target_mask"][:, 1:]
        assert output.hidden is not None
        weight, bias = matrix(model.output)
        logits = nn.functional.linear(output.hidden[real], weight, bias).float()
        losses = nn.functional.cross_entropy(logits, batch["target"][:, 1:][real], reduction="none")
        return (losses * batch["advantages"][:, None].expand_as(real)[real]).sum()
