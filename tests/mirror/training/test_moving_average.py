"""A moving average in the place of a model's weights, of models with batch norm too."""

import torch

from regard.models import config_of, make_model
from regard.training.moving_average import MovingAverage


def test_it_stands_in_for_the_weights_and_goes_again():
    torch.manual_seed(0)
    model, average = (
        make_model("resnet", config_of("resnet", {"widths": (4,), "blocks": 1, "n_labels": 3})),
        MovingAverage(0.5),
    )
    weight, running = model.classifier.weight, model.stem.norm.running_mean
    average.update(model)
    first = weight.detach().clone()
    with torch.no_grad():
        weight.add_(1.0)
        running.add_(2.0)
    average.update(model)
    with average.in_place_of(model):
        assert model.classifier.weight is weight, "an optimizer still holds these tensors"
        torch.testing.assert_close(weight.detach(), first + 0.5)
        torch.testing.assert_close(running, torch.ones(4))
    torch.testing.assert_close(weight.detach(), first + 1.0)
    torch.testing.assert_close(running, torch.full((4,), 2.0))
