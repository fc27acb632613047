"""Images that are not there: zeros, whichever tensors the others have."""

import torch

from regard.data.kept_features import WithBlanks


class Two:
    versions = 2

    def __call__(self, images, versions):
        return {
            "features": torch.tensor(
                [[[1.0 + image, 10.0 + version]] for image, version in zip(images, versions, strict=True)]
            )
        }


def test_numbers_after_the_images_are_zeros():
    images = WithBlanks(Two(), 2)
    assert images.versions == 2
    seen = images([1, 2, 0, 7], [1, 1, 0, 0])["features"]
    assert seen[:, 0].tolist() == [[2, 11], [0, 0], [1, 10], [0, 0]]
    assert images([5], [1])["features"].tolist() == [[[0, 0]]]
