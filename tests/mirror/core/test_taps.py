import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import regard
from regard.attention.heads import MultiHead
from regard.core import taps
from regard.core.errors import UnknownName, UsageError
from regard.layers.block import DecoderBlock, EncoderBlock, stack
from regard.layers.feedforward import FeedForward
from regard.layers.norm import make_norm
from regard.layers.residual import Residual


def residual() -> Residual:
    return Residual(make_norm("layer", 8))


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = stack(lambda: EncoderBlock(MultiHead(8, 2), FeedForward(8, 16), residual), 2)
        self.decoder = stack(lambda: DecoderBlock(MultiHead(8, 2), MultiHead(8, 2), FeedForward(8, 16), residual), 1)
        taps.name_sites(self)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        for block in self.encoder:
            source = block(source)
        for block in self.decoder:
            target = block(target, block.cross.prepare(source), mask=regard.causal())
        return target


def run(model: Tiny) -> torch.Tensor:
    torch.manual_seed(1)
    return model(torch.randn(1, 5, 8), torch.randn(1, 3, 8))


def test_sites_are_named_after_the_module_tree():
    with regard.watch() as record:
        run(Tiny())
    assert record.sites == ["encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.0.cross"]
    assert record["decoder.0.cross"].weights.shape == (1, 2, 3, 5)
    assert list(record.hidden) == ["encoder.0", "encoder.1", "decoder.0"]
    assert len(record) == len(list(record)) == 4


def test_only_what_was_asked_for():
    model = Tiny()
    with regard.watch("decoder.*", weights=False, parts=True) as record:
        run(model)
    assert record.sites == ["decoder.0.self", "decoder.0.cross"]
    assert record["decoder.0.self"].weights is None
    assert record["decoder.0.self"].value_path is None
    assert record["decoder.0.cross"].keys.shape == (1, 2, 5, 4)


def test_watching_changes_no_bit_and_ends():
    model = Tiny()
    before = run(model)
    with regard.watch(parts=True, value_path=True) as record:
        during = run(model)
    assert torch.equal(before, during)
    assert torch.equal(before, run(model))
    assert len(record) == 4, "nothing is recorded after the block"


def test_watches_nest():
    model = Tiny()
    with regard.watch() as outer, regard.watch("encoder.0.*") as inner:
        run(model)
    assert (len(outer), len(inner)) == (4, 1)


def test_labels_by_site():
    source, target = list("abcde"), list("xyz")
    with regard.watch(labels={"encoder.*": (source, source), "*.cross": (target, source)}) as record:
        run(Tiny())
    assert record["encoder.1.self"].query_labels == source
    assert record["decoder.0.cross"].query_labels == target
    assert record["decoder.0.self"].key_labels is None


def test_recorded_tensors_carry_a_graph_only_on_request():
    model = Tiny()
    with regard.watch() as plain, regard.watch(graph=True) as attached:
        run(model)
    assert not plain["encoder.0.self"].weights.requires_grad
    attached["encoder.0.self"].weights[..., 0].sum().backward()
    assert model.encoder[0].self.query.weight.grad.abs().sum() > 0
    assert attached.hidden["encoder.0"][0].requires_grad


def test_repeated_and_unknown_sites_are_explained():
    q = torch.randn(2, 4)
    with regard.watch() as record:
        regard.attend(q, q, q)
        regard.attend(q, q, q)
    assert len(record.calls("attend")) == 2
    with pytest.raises(UsageError, match=r"called 2 times.*record.calls\('attend'\)"):
        record["attend"]
    with pytest.raises(UnknownName, match="Did you mean 'attend'"):
        record["atend"]


def test_threads_watch_only_themselves():
    model, gate = Tiny(), threading.Barrier(4)

    def work(watching: bool) -> int:
        gate.wait()
        if not watching:
            for _ in range(20):
                run(model)
            return 0
        with regard.watch() as record:
            for _ in range(20):
                run(model)
        return len(record)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, [True, False, True, False])) == [80, 0, 80, 0]


def test_nobody_sees_or_changes_what_is_unseen():
    x = torch.ones(1, 2, 3)
    with regard.watch() as record, taps.alter({"a": lambda _, y: 2 * y}):
        with taps.unseen():
            assert not taps.watched()
            assert torch.equal(taps.point("a", x), x)
        assert not record.hidden
        assert torch.equal(taps.point("a", x), 2 * x)
    assert list(record.hidden) == ["a"]
