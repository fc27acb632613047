"""Stored tensors become a module's parameters: ties stay, misfits are told together, types are kept."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.core.errors import WeightsError
from regard.core.weights import brief, load_into, read_tensors, write


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


class Tied(nn.Module):
    """An embedding that is also the output matrix, and a buffer."""

    def __init__(self, tie: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        if tie:
            self.head.weight = self.embedding.weight
        self.register_buffer("steps", torch.arange(4))


def test_a_module_takes_the_tensors_themselves(tmp_path: Path) -> None:
    source, target = nn.Linear(3, 2), nn.Linear(3, 2)
    write(tmp_path / "model.safetensors", source.state_dict())
    tensors = read_tensors(tmp_path)
    target.bias.requires_grad_(False)
    assert load_into(target, tensors) == ([], [])
    assert target.weight.data_ptr() == tensors["weight"].data_ptr()
    assert same(target.state_dict(), source.state_dict())
    assert isinstance(target.weight, nn.Parameter)
    assert (target.weight.requires_grad, target.bias.requires_grad) == (True, False)
    target(torch.ones(1, 3)).sum().backward()


def test_recurrent_layers_compute_with_the_new_weights() -> None:
    source, target, inputs = nn.LSTM(3, 4, num_layers=2), nn.LSTM(3, 4, num_layers=2), torch.randn(5, 2, 3)
    load_into(target, copy.deepcopy(source.state_dict()))
    assert torch.equal(target(inputs)[0], source(inputs)[0])


def test_a_module_on_the_meta_device_becomes_real() -> None:
    source = Tied()
    with torch.device("meta"):
        target = Tied()
    load_into(target, copy.deepcopy(source.state_dict()))
    assert same(target.state_dict(), source.state_dict())
    assert target.head.weight is target.embedding.weight


@pytest.mark.parametrize("names", [["embedding.weight"], ["head.weight"], ["head.weight", "embedding.weight"]])
def test_ties_of_the_module_stay(names: list[str]) -> None:
    target, value = Tied(), torch.randn(5, 3)
    given = {name: value.clone() for name in names}
    assert load_into(target, {**given, "steps": torch.arange(4)}) == ([], [])
    assert target.head.weight is target.embedding.weight
    assert torch.equal(target.head.weight, value)
    assert len(list(target.parameters())) == 1


def test_tied_names_with_differing_values_are_refused() -> None:
    given = {"embedding.weight": torch.zeros(5, 3), "head.weight": torch.ones(5, 3), "steps": torch.arange(4)}
    with pytest.raises(WeightsError, match=r"head.weight is tied in the module, but the values.*differ"):
        load_into(Tied(), given)


def test_one_tensor_for_two_names_does_not_tie_them(tmp_path: Path) -> None:
    write(tmp_path / "model.safetensors", Tied().state_dict())
    target = Tied(tie=False)
    load_into(target, read_tensors(tmp_path))
    assert torch.equal(target.head.weight, target.embedding.weight)
    with torch.no_grad():
        target.head.weight.zero_()
    assert target.embedding.weight.abs().sum() > 0


def test_all_misfits_are_told_together_and_nothing_is_loaded() -> None:
    target = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(2, 2)})
    before = copy.deepcopy(target.state_dict())
    given = {"a.weight": torch.zeros(2, 4), "a.bias": torch.zeros(2, dtype=torch.int64), "b.bias": torch.zeros(2)}
    given |= {f"extra.{i}": torch.ones(1) for i in range(8)}
    with pytest.raises(WeightsError) as caught:
        load_into(target, given)
    text = str(caught.value)
    assert "do not fit ModuleDict: missing: b.weight; " in text
    assert "unexpected: extra.0, extra.1, extra.2, extra.3, extra.4 and 3 more; " in text
    assert "a.weight is torch.float32 [2, 4], expected torch.float32 [2, 3]" in text
    assert "a.bias is torch.int64 [2], expected torch.float32 [2]" in text
    assert same(target.state_dict(), before)


def test_missing_and_unexpected_names_are_returned_if_not_strict() -> None:
    target = nn.Linear(3, 2)
    before = target.weight.detach().clone()
    assert load_into(target, {"bias": torch.zeros(2), "more": torch.ones(1)}, strict=False) == (["weight"], ["more"])
    assert torch.equal(target.weight, before)
    assert target.bias.tolist() == [0, 0]
    with pytest.raises(WeightsError, match=r"bias is torch.float32 \[3\]"):
        load_into(target, {"bias": torch.zeros(3)}, strict=False)


def test_types_are_cast_only_if_asked() -> None:
    given = {"embedding.weight": torch.ones(5, 3, dtype=torch.bfloat16), "steps": torch.arange(4)}
    target = Tied()
    load_into(target, given)
    assert target.head.weight.dtype == torch.bfloat16
    load_into(target, given, dtype=torch.float64)
    assert target.head.weight.dtype == torch.float64
    assert target.get_buffer("steps").dtype == torch.int64


def test_long_lists_are_shortened() -> None:
    assert brief(["a", "b"]) == "a, b"
    assert brief(list("abcdefg"), most=2) == "a, b and 5 more"
