"""Nothing that is not a number is stored."""

import math

import pytest
import torch

from regard.training import checkpoint
from regard.training.divergence import Diverged


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
@pytest.mark.parametrize("validate", [None, lambda model: {"loss": 1.0}])
def test_weights_that_overflow_in_the_update_are_not_stored(make_engine, optimizer, validate):
    """The loss and the gradient were numbers: only the weights show it."""
    saved = []
    engine = make_engine(
        "a", lr=1e300, warmup=0, schedule="constant", max_steps=1, optimizer=optimizer, validate=validate,
        on_best=saved.append,
    )  # fmt: skip
    with pytest.raises(Diverged, match=r"not finite after update 1: got infinity or NaN in .*not stored.*lr"):
        engine.run()
    assert not saved
    assert not checkpoint.listing(engine.checkpoints)


def test_the_checkpoint_before_stays(make_engine):
    engine = make_engine("a", max_steps=5, checkpoint_every=1)
    count = engine.task.count

    def breaks(batch):
        if engine.progress.step == 3:
            for group in engine.optimizer.param_groups:
                group["params"][0].data.fill_(math.inf)
        return count(batch)

    engine.task.count = breaks
    with pytest.raises(Diverged):
        engine.run()
    _, newest = checkpoint.newest(engine.checkpoints, print)
    assert newest.state["step"] == 3
    assert all(torch.isfinite(tensor).all() for tensor in newest.model.values())
