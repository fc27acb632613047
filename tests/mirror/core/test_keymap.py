"""A key map goes both ways without changing a bit, and says at once all that it cannot place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UsageError, WeightsError
from regard.core.keymap import Copies, Drop, KeyMap, Pack, Rename, Transpose

QKV = [f"layers.{{i}}.{part}.weight" for part in ("query", "key", "value")]
GPT = KeyMap(
    [
        Rename("embedding.weight", "wte.weight"),
        Rename("layers.{i}.norm.{kind}", "h.{i}.ln_1.{kind}"),
        Transpose("layers.{i}.out.weight", "h.{i}.attn.c_proj.weight"),
        Pack(QKV, "h.{i}.attn.c_attn.weight", transpose=True),
        Pack([name.replace("weight", "bias") for name in QKV], "h.{i}.attn.c_attn.bias", parts=(6, 2, 2)),
        Drop("h.{i}.attn.mask"),
    ]
)


def ours(layers: int, width: int = 4, seed: int = 0) -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(seed)
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (7, width)}
    for i in range(layers):
        shapes |= {f"layers.{i}.norm.{kind}": (width,) for kind in ("weight", "bias")}
        shapes |= {name.format(i=i): (6, width) for name in QKV}
        shapes |= {f"layers.{i}.{part}.bias": (size,) for part, size in (("query", 6), ("key", 2), ("value", 2))}
        shapes[f"layers.{i}.out.weight"] = (width, 6)
    return {name: torch.randn(shape, generator=source) for name, shape in shapes.items()}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test_names_and_layouts_are_converted() -> None:
    tensors = ours(layers=12)
    theirs = GPT.to_theirs(tensors)
    assert theirs["wte.weight"] is tensors["embedding.weight"]
    assert theirs["h.11.ln_1.bias"] is tensors["layers.11.norm.bias"]
    assert torch.equal(theirs["h.3.attn.c_proj.weight"], tensors["layers.3.out.weight"].T)
    assert torch.equal(theirs["h.3.attn.c_attn.weight"], torch.cat([tensors[name.format(i=3)] for name in QKV]).T)
    assert theirs["h.0.attn.c_attn.bias"].shape == (10,)


@given(st.integers(0, 11), st.integers(1, 5), st.integers(0, 99), st.randoms())
def test_the_round_trip_is_exact_whatever_the_order(layers: int, width: int, seed: int, random: object) -> None:
    tensors = ours(layers, width, seed)
    names = list(tensors)
    random.shuffle(names)  # type: ignore[attr-defined]
    theirs = GPT.to_theirs({name: tensors[name] for name in names})
    assert same(GPT.to_ours(theirs), tensors)
    assert same(GPT.to_theirs(GPT.to_ours(theirs)), theirs)


@given(st.integers(1, 3), st.integers(0, 2), st.booleans(), st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_packs_of_any_sizes_round_trip(rank: int, dim: int, equal: bool, sizes: list[int]) -> None:
    dim, sizes = dim % rank, [sizes[0]] * len(sizes) if equal else sizes
    shapes = [[size if axis == dim else 2 for axis in range(rank)] for size in sizes]
    tensors = {f"part{i}": torch.randn(shape).to(torch.bfloat16) for i, shape in enumerate(shapes)}
    table = KeyMap([Pack(list(tensors), "all", dim=dim, transpose=rank == 2, parts=None if equal else sizes)])
    theirs = table.to_theirs(tensors)
    assert list(theirs) == ["all"]
    assert same(table.to_ours(theirs), tensors)


def test_our_tensors_are_views_of_theirs() -> None:
    theirs = {"packed": torch.randn(6, 4), "rotated": torch.randn(6, 4), "turned": torch.randn(2, 3)}
    table = KeyMap(
        [
            Pack(["a", "b"], "packed"),
            Pack(["c", "d"], "rotated", dim=1),
            Transpose("e", "turned"),
        ]
    )
    ours = table.to_ours(theirs)
    starts = {"a": theirs["packed"], "c": theirs["rotated"], "e": theirs["turned"]}
    assert all(ours[name].data_ptr() == tensor.data_ptr() for name, tensor in starts.items())
    assert ours["b"].data_ptr() == theirs["packed"][3:].data_ptr()
    assert ours["d"].data_ptr() == theirs["rotated"][:, 2:].data_ptr()
    assert table.to_theirs(ours)["turned"].data_ptr() == ours["e"].data_ptr()


def test_dropped_names_are_read_over_and_never_written() -> None:
    theirs = GPT.to_theirs(ours(layers=1))
    assert same(GPT.to_ours({**theirs, "h.0.attn.mask": torch.ones(1)}), ours(layers=1))
    assert "h.0.attn.mask" not in theirs


@pytest.mark.parametrize(
    "name", ["h.x.ln_1.bias", "h.1.ln_1.bias.more", "h.1.ln_1.a.b", "h.-1.ln_1.bias", "hx1.ln_1.b"]
)
def test_letters_stand_for_digits_and_words_for_words_without_a_dot(name: str) -> None:
    with pytest.raises(WeightsError, match="matched by no rule: "):
        GPT.to_ours({name: torch.ones(1)})


def test_all_problems_are_told_together() -> None:
    table = KeyMap(
        [
            Rename("a.{i}", "x.{i}"),
            Rename("b", "x.0"),
            Rename("c.{word}", "y.{word}"),
            Rename("c.{i}", "z.{i}"),
            Pack(["q.{i}", "k.{i}"], "qk.{i}"),
            Pack(["r", "s"], "rs"),
            Transpose("t", "tt"),
        ]
    )
    names = ["a.0", "b", "c.5", "q.7", "lost", "t", "r"]
    tensors = {**dict.fromkeys(names, torch.ones(1)), "s": torch.ones(2)}
    with pytest.raises(WeightsError) as caught:
        table.to_theirs(tensors)
    text = str(caught.value)
    assert "matched by no rule: lost" in text
    assert "matched by two rules: c.5" in text
    assert "incomplete: q.7 without k.7" in text
    assert "same new name: a.0 and b → x.0" in text
    assert "t cannot be transposed: got shape [1], expected a matrix" in text
    assert "r, s cannot be packed" in text
    assert "\n" not in text


def test_long_lists_are_shortened() -> None:
    with pytest.raises(WeightsError, match=r"no rule: n0, n1, n2, n3, n4 and 95 more$"):
        GPT.to_ours({f"n{i}": torch.ones(1) for i in range(100)})


@pytest.mark.parametrize(
    ("table", "tensors", "message"),
    [
        (Pack(["a", "b", "c"], "abc"), {"abc": torch.ones(7)}, r"abc cannot be split along dim 0: got 7"),
        (Pack(["a", "b"], "ab", parts=(3, 2)), {"ab": torch.ones(6)}, r"got 6, expected the sum of \[3, 2\]"),
        (Pack(["a", "b"], "ab", dim=1), {"ab": torch.ones(6)}, "too few dimensions"),
        (Pack(["a", "b"], "ab", transpose=True), {"ab": torch.ones(6)}, "cannot be transposed"),
    ],
)
def test_their_tensor_that_does_not_split_is_refused(table: Pack, tensors: dict[str, Tensor], message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        KeyMap([table]).to_ours(tensors)


@pytest.mark.parametrize(
    ("parts", "second"),
    [(None, torch.ones(3, 4)), (None, torch.ones(2, 5)), (None, torch.ones(2, 4).half()), ((2, 1), torch.ones(2, 4))],
)
def test_parts_that_would_not_come_back_as_they_were_are_refused(parts: Sequence[int] | None, second: Tensor) -> None:
    with pytest.raises(WeightsError, match="a, b cannot be packed"):
        KeyMap([Pack(["a", "b"], "ab", parts=parts)]).to_theirs({"a": torch.ones(2, 4), "b": second})


def test_a_table_that_cannot_be_reversed_is_refused_when_made() -> None:
    with pytest.raises(UsageError, match="same placeholders"):
        KeyMap([Rename("a.{i}", "b")])
    with pytest.raises(UsageError, match="as many sizes as names"):
        Pack(["a", "b"], "ab", parts=(1,))


def test_a_new_kind_of_rule_is_a_new_class() -> None:
    @dataclass(frozen=True)
    class Negate(Rename):
        def to_ours(self, theirs: Sequence[Tensor]) -> Sequence[Tensor]:
            return [-tensor for tensor in theirs]

        def to_theirs(self, ours: Sequence[Tensor]) -> Sequence[Tensor]:
            return [-tensor for tensor in ours]

    table = KeyMap([Negate("a", "b"), Rename("c", "d")])
    assert table.to_theirs({"a": torch.ones(1), "c": torch.ones(1)})["b"].item() == -1
    assert table.to_ours({"b": torch.ones(1)})["a"].item() == -1


def test_one_tensor_that_they_store_twice():
    table = KeyMap([Copies("embedding", ("first.weight", "second.weight"))])
    tensor = torch.arange(4.0)
    theirs = table.to_theirs({"embedding": tensor})
    assert theirs.keys() == {"first.weight", "second.weight"}
    assert all(torch.equal(copy, tensor) for copy in theirs.values())
    assert theirs["first.weight"].data_ptr() != theirs["second.weight"].data_ptr(), "files hold each on its own"
    assert torch.equal(table.to_ours(theirs)["embedding"], tensor)
    with pytest.raises(WeightsError, match="incomplete"):
        table.to_ours({"first.weight": tensor})
