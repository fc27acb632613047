"""Running text in parallel streams."""

import numpy as np
import pytest
import torch

from regard.core.errors import DataError
from regard.data.streams import Streams

TOKENS = np.arange(100, 145)


@pytest.mark.parametrize(("streams", "context"), [(1, 7), (3, 5), (4, 100), (44, 1)])
def test_rows_go_on_and_every_token_is_predicted_once(streams, context):
    data = Streams(TOKENS, context=context, streams=streams)
    batches = list(data.epoch(0))
    assert data.batches_in_epoch(0) == len(batches)
    rows = torch.cat([batch["labels"] for batch in batches], 1)
    length = (len(TOKENS) - 1) // streams
    assert rows.flatten().tolist() == list(range(101, 101 + streams * length))
    assert torch.equal(rows, torch.cat([batch["input_ids"] for batch in batches], 1) + 1)
    assert [bool(batch["fresh"].all()) for batch in batches] == [True] + [False] * (len(batches) - 1)
    assert not any(batch["fresh"].any() for batch in batches[1:])


def test_an_epoch_begun_in_the_middle_is_the_rest_of_it():
    data = Streams(TOKENS, context=4, streams=3)
    whole, rest = list(data.epoch(1)), list(data.epoch(1, 2))
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(whole[2:], rest, strict=True))


def test_more_streams_than_tokens_are_refused():
    with pytest.raises(DataError, match="too short for so many streams"):
        Streams(TOKENS, context=4, streams=45)
