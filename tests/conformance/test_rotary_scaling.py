"""What every way of scaling rotary positions must keep."""

import pytest
import torch
from tests.conformance.test_checkpoint_models import inputs, make


@pytest.mark.parametrize("scaling", ["none", "linear", "ntk", "llama3", "yarn"])
def test_rotary_positions_go_on_past_the_trained_length(scaling):
    model = make("llama", {"scaling": scaling, "factor": 2.0}).eval()
    assert model(**inputs("llama", (40,))).logits.isfinite().all()


def test_scaling_changes_long_inputs_as_it_says():
    """Linear scaling by 2 reads position 2p as position p; NTK leaves the fastest pair as it was."""
    plain, linear, ntk = (
        make("llama", {"scaling": kind, "factor": 2.0}).position for kind in ("none", "linear", "ntk")
    )
    x = torch.randn(1, 1, 4, 4)
    even = torch.arange(0, 8, 2)
    torch.testing.assert_close(linear.rotate(x, even), plain.rotate(x, even // 2))
    assert ntk.frequencies()[0] == plain.frequencies()[0]
    torch.testing.assert_close(ntk.frequencies()[-1], plain.frequencies()[-1] / 2)


@pytest.mark.parametrize("scaling", ["llama3", "yarn"])
def test_scaling_by_turns_keeps_the_fast_and_stretches_the_slow(scaling):
    wide = {"d_head": 32, "trained_len": 1000, "many_turns": 32.0}
    plain, scaled = (make("llama", {**wide, "scaling": kind, "factor": 4.0}).position for kind in ("none", scaling))
    ratio = scaled.frequencies() / plain.frequencies()
    turns = 1000 * plain.frequencies() / (2 * torch.pi)
    torch.testing.assert_close(ratio[turns > 60], torch.ones(int((turns > 60).sum()), dtype=ratio.dtype))
    torch.testing.assert_close(ratio[turns < 0.3], torch.full((int((turns < 0.3).sum()),), 0.25, dtype=ratio.dtype))
    assert (ratio.diff() <= 0).all()
    assert ((ratio > 0.25) & (ratio < 1)).any()
