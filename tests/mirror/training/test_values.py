"""What an update does to the weights, against the arithmetic written out: clipping, moving average, learning rate."""

from dataclasses import replace

import pytest
import torch

from regard.training.averaging import average_checkpoints
from regard.training.checkpoint import read_checkpoint
from regard.training.trained import Trained

PLAIN = {"dropout": 0.0, "optimizer": "sgd", "lr": 0.5, "warmup": 0, "schedule": "constant"}


def weights_of(model) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.named_parameters()}


def gradients(engine, batch) -> dict[str, torch.Tensor]:
    """Of the mean loss of a batch, at the weights that the engine's model has now."""
    engine.model.zero_grad()
    (engine.task.loss(engine.model, batch) / engine.task.count(batch)).backward()
    return {name: parameter.grad.clone() for name, parameter in engine.model.named_parameters()}


def walked(make_engine, steps: int, *, clip: float = 0.0, rate: float = 0.5) -> list[dict[str, torch.Tensor]]:
    """The weights before and after each update of plain gradient descent."""
    engine = make_engine("plain", **PLAIN)
    engine.model.train()
    path = [weights_of(engine.model)]
    for index in range(steps):
        slopes = gradients(engine, next(iter(engine.data.epoch(0, index))))
        norm = torch.stack([slope.double().square().sum() for slope in slopes.values()]).sum().sqrt().item()
        share = min(1.0, clip / norm) if clip else 1.0
        with torch.no_grad():
            for name, parameter in engine.model.named_parameters():
                parameter -= rate * share * slopes[name]
        path.append(weights_of(engine.model))
    return path


def assert_near(got, wanted) -> None:
    assert got.keys() >= wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(
            got[name], tensor, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"{name} {text}"
        )


@pytest.mark.parametrize("clip", [0.0, 0.05, 1e6])
def test_clipping_shortens_the_gradient_to_its_limit(make_engine, clip):
    """The first update's length is rate · min(norm, clip), and three updates end where the plain ones do."""
    path = walked(make_engine, 3, clip=clip)
    engine = make_engine("a", **PLAIN, clip=clip, max_steps=3)
    engine.run()
    assert_near(weights_of(engine.model), path[-1])
    length = torch.stack([(path[1][name] - path[0][name]).square().sum() for name in path[0]]).sum().sqrt().item()
    if clip == 0.05:
        assert length == pytest.approx(0.5 * 0.05, rel=1e-3)
    else:
        assert length > 0.5 * 0.05 * 1.5


def test_the_moving_average_is_the_one_of_the_definition(make_engine):
    """It begins with the weights after the first update: mean ← 0.8 mean + 0.2 weights."""
    path = walked(make_engine, 4)
    engine = make_engine("a", **PLAIN, ema=0.8, max_steps=4)
    engine.run()
    mean = path[1]
    for later in path[2:]:
        mean = {name: 0.8 * mean[name] + 0.2 * later[name] for name in mean}
    assert_near(engine.average.tensors, mean)
    assert_near(weights_of(engine.model), path[-1])
    with engine.average.in_place_of(engine.model):
        assert_near(weights_of(engine.model), mean)
    assert_near(weights_of(engine.model), path[-1])


def test_validation_and_the_best_model_have_the_moving_average(make_engine):
    path, seen = walked(make_engine, 2), []
    engine = make_engine(
        "a", **PLAIN, ema=0.8, max_steps=2, validate_every=2, validate=lambda model: {"loss": 1.0},
        on_best=lambda model: seen.append(weights_of(model)),
    )  # fmt: skip
    engine.run()
    (best,) = seen
    assert_near(best, {name: 0.8 * path[1][name] + 0.2 * path[2][name] for name in path[0]})


@pytest.mark.parametrize("validates", [True, False])
def test_the_average_of_checkpoints(make_engine, validates):
    """Of the last three: those that were validated, or the regular ones and the last."""
    path = walked(make_engine, 7)
    validation = {"validate": lambda model: {"loss": 1.0}, "validate_every": 2} if validates else {}
    engine = make_engine("a", **PLAIN, max_steps=7, average=3, checkpoint_every=2, **validation)
    progress = engine.run()
    assert progress.validated == [4, 6, 7]
    mean, count = average_checkpoints(engine.checkpoints, progress.validated, print)
    assert count == 3
    assert_near(mean, {name: (path[4][name] + path[6][name] + path[7][name]) / 3 for name in path[0]})


def test_of_a_run_with_a_moving_average_that_is_averaged(make_engine):
    engine = make_engine("a", **PLAIN, ema=0.8, max_steps=4, average=2, checkpoint_every=2)
    progress = engine.run()
    mean, _ = average_checkpoints(engine.checkpoints, progress.validated, print)
    parts = [read_checkpoint(engine.checkpoints / f"step-{step:08d}").training for step in (2, 4)]
    assert_near(mean, {name: (parts[0][f"average/{name}"] + parts[1][f"average/{name}"]) / 2 for name in mean})


def test_a_stopped_run_averages_the_same_checkpoints(make_engine):
    settings = {"max_steps": 9, "average": 3, "checkpoint_every": 2}
    whole, first = make_engine("whole", **settings), make_engine("parts", **settings)
    whole.run()
    first.data.epoch = stops_after(first.data.epoch, 5)
    with pytest.raises(Stop):
        first.run()
    second = make_engine("parts", **settings)
    assert second.run().validated == [6, 8, 9]
    one, other = (average_checkpoints(engine.checkpoints, [6, 8, 9], print)[0] for engine in (whole, second))
    assert all(torch.equal(one[name], other[name]) for name in one)


class Stop(Exception):
    """Stands in for a crash."""


def stops_after(epoch, count: int):
    def limited(number, start=0):
        for index, batch in enumerate(epoch(number, start)):
            if index == count:
                raise Stop
            yield batch

    return limited


def test_fewer_than_two_checkpoints_are_no_average(make_engine):
    engine = make_engine("a", **PLAIN, max_steps=4, average=2, checkpoint_every=2)
    engine.run()
    damaged = engine.checkpoints / "step-00000002" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    said = []
    assert average_checkpoints(engine.checkpoints, [2, 4], said.append) is None
    assert "update 2 is damaged" in said[0]


def test_a_scaled_part_takes_so_much_smaller_steps(make_engine):
    before, after = walked(make_engine, 1)
    engine = make_engine("scaled", **PLAIN, max_steps=1, lr_scales={"encoder": 0.25, "decoder.0.cross": 0.0})
    engine.run()
    for name, parameter in engine.model.named_parameters():
        scale = 0.25 if name.startswith("encoder.") else 0.0 if name.startswith("decoder.0.cross.") else 1.0
        expected = before[name] + scale * (after[name] - before[name])
        torch.testing.assert_close(parameter.detach(), expected, atol=1e-6, rtol=1e-5)


def test_an_idle_share_gives_no_loss_and_no_gradient(make_engine):
    """With several processes, one whose share of a batch is empty runs another batch that counts for nothing."""
    engine = make_engine("plain", **PLAIN)
    batch = next(iter(engine.data.epoch(0)))
    trained = Trained(engine.model, engine.task)
    torch.testing.assert_close(trained(batch), engine.task.loss(engine.model, batch))
    loss = trained(replace(batch, idle=True))
    loss.backward()
    assert loss == 0
    assert all(not parameter.grad.any() for parameter in engine.model.parameters())
