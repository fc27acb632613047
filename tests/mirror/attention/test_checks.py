"""Bad input: what, got, expected, remedy."""

from collections.abc import Iterator

import jaxtyping
import pytest
import torch

import regard
from regard.attention import Mask, make_score
from regard.attention.heads import MultiHead
from regard.core.errors import LengthError, RegardError, ShapeError, UnknownName, UsageError


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """Without the check of the shape annotations, which would refuse a bad input before `attend` can explain it."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def x(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


BAD = {
    "axes": (dict(query=x(4), keys=x(3, 4), values=x(3, 4)), ShapeError, r"number of axes.*\[4\].*query\[None\]"),
    "five axes": (dict(query=x(1, 1, 1, 2, 4), keys=x(1, 1, 1, 3, 4), values=x(1, 1, 1, 3, 4)), ShapeError, "axes"),
    "values": (dict(query=x(2, 4), keys=x(3, 4), values=x(5, 4)), ShapeError, r"keys and values.*\[3, 4\], \[5, 4\]"),
    "width": (dict(query=x(2, 4), keys=x(3, 6), values=x(3, 4)), ShapeError, r"width.*4 and 6.*'general'"),
    "batch": (dict(query=x(2, 2, 4), keys=x(3, 3, 4), values=x(3, 3, 4)), ShapeError, "batch size"),
    "heads": (dict(query=x(1, 4, 2, 4), keys=x(1, 3, 3, 4), values=x(1, 3, 3, 4)), ShapeError, "4 query.*3 key"),
    "integers": (dict(query=x(2, 4).long(), keys=x(3, 4).long(), values=x(3, 4).long()), ShapeError, "int64"),
    "mixed types": (dict(query=x(2, 4).double(), keys=x(3, 4), values=x(3, 4)), ShapeError, "float64, torch.float32"),
    "score": (dict(query=x(2, 4), keys=x(3, 4), values=x(3, 4), score="scaled_dto"), UnknownName, "'scaled_dot'"),
    "chooser": (dict(query=x(2, 4), keys=x(3, 4), values=x(3, 4), chooser="softmx"), UnknownName, "mean 'softmax'"),
    "weights": (dict(query=x(2, 4), keys=x(3, 4), values=x(3, 4), score="additive"), UsageError, "d_query.*Additive"),
    "mask shape": (
        dict(query=x(2, 1, 5, 4), keys=x(2, 1, 3, 4), values=x(2, 1, 3, 4), mask=torch.ones(2, 3).bool()),
        ShapeError,
        r"mask does not fit.*\[2, 3\].*\[2, 1, 5, 3\].*Mask\(keys",
    ),
    "bias shape": (dict(query=x(2, 4), keys=x(3, 4), values=x(3, 4), bias=x(2, 9)), ShapeError, "bias does not fit"),
    "padding shape": (
        dict(query=x(2, 1, 5, 4), keys=x(2, 1, 3, 4), values=x(2, 1, 3, 4), mask=Mask(keys=torch.ones(2, 4).bool())),
        ShapeError,
        r"padding mask.*\[2, 4\].*\[2, 3\]",
    ),
    "dropout": (dict(query=x(2, 4), keys=x(3, 4), values=x(3, 4), dropout=1.5), UsageError, "dropout.*1.5.*0 to 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.usefixtures("as_users_run_it")
def test_bad_input_is_explained(name):
    call, kind, text = BAD[name]
    with pytest.raises(kind, match=text) as caught:
        regard.attend(**call)
    assert isinstance(caught.value, RegardError)
    assert isinstance(caught.value, ValueError), "code that catches ValueError keeps working"


@pytest.mark.parametrize("name", ["values", "integers"])
def test_shape_annotations_are_checked_while_the_tests_run(name):
    with pytest.raises(jaxtyping.TypeCheckError):
        regard.attend(*(BAD[name][0][part] for part in ("query", "keys", "values")))


def test_location_past_its_last_key():
    score = make_score("location", 4, max_keys=2)
    with pytest.raises(LengthError, match=r"3 keys.*at most 2.*max_keys"):
        regard.attend(x(2, 4), x(3, 4), x(3, 4), score=score)


def test_heads_that_do_not_divide():
    with pytest.raises(ShapeError, match="d_model=10, n_heads=4"):
        MultiHead(10, 4)
    with pytest.raises(ShapeError, match="n_kv_heads=3"):
        MultiHead(8, 4, n_kv_heads=3)
