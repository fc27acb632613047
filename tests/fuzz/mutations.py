"""Ways to spoil a file, drawn from a seeded generator: values of the wrong kind, missing parts, other bytes."""

import copy
import json
from random import Random
from typing import Any

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 7, 255, 65536, 10**6, 10**9, 2**31, 2**63, 10**18, 10**30, -(10**12), 0.5, -0.0,
    1e-320, 1e308, float("inf"), float("nan"), "", "a", "0", "-1", "none", "gelu", "x" * 3000, "\x00", "\x1b[2J",
    "\ud800",
    "../../etc/passwd", "/dev/zero", "[PAD]", [], [None], [1, 2], ["a", "b"], [[[]]], {}, {"a": 1},
    {"0": "a", "1": "b"},
    {"height": 4}, {"type": "Sequence"}, [0.1] * 50,
]  # fmt: skip


def spoiled_json(data: Any, draw: Random) -> bytes:
    """One to three changes of the data, or of its text."""
    if draw.random() < 0.15:
        return spoiled_bytes(json.dumps(data).encode(), draw)
    made = copy.deepcopy(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        made = changed(made, draw)
    return json.dumps(made).encode()


def changed(data: Any, draw: Random) -> Any:
    """The data with another value, without one, or with one more, anywhere in it."""
    places = list(_places(data))
    if not places or draw.random() < 0.01:
        return copy.deepcopy(draw.choice(ODD))
    holder, key = draw.choice(places)
    kind = draw.random()
    if kind < 0.7:
        holder[key] = _other(holder[key], draw)
    elif kind < 0.85:
        del holder[key]
    elif isinstance(holder, dict):
        holder[draw.choice(("x", "type", "0", "size", "model_type", "regard", str(key)))] = copy.deepcopy(
            draw.choice(ODD)
        )
    else:
        holder.insert(key, copy.deepcopy(holder[key]))
    return data


def _other(value: Any, draw: Random) -> Any:
    if type(value) is int and draw.random() < 0.5:
        return draw.choice((value + 1, value - 1, 2 * value, value // 2, -value, value * 10**6, value << 40))
    if isinstance(value, str) and draw.random() < 0.3:
        return spoiled_bytes(value.encode("utf-8", "replace"), draw).decode("latin-1")
    return copy.deepcopy(draw.choice(ODD))


def _places(data: Any) -> Any:
    """Where a value stands, a few of each long list or mapping."""
    keys = list(data) if isinstance(data, dict) else list(range(len(data))) if isinstance(data, list) else []
    for key in keys[:40]:
        yield data, key
        yield from _places(data[key])


def spoiled_bytes(data: bytes, draw: Random) -> bytes:
    """Flipped, cut, repeated, overwritten or moved."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(made)) if made else 0
        # Heads of files decide the most, so that they are met often.
        at = at % 64 if draw.random() < 0.4 and made else at
        kind = draw.randrange(6)
        if kind == 0 and made:
            made[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            made[at : at + draw.randrange(1, 9)] = draw.randbytes(draw.randrange(1, 9))
        elif kind == 2:
            del made[at : at + draw.choice((1, 2, 8, 64, 10_000))]
        elif kind == 3:
            made[at:at] = made[at : at + draw.choice((1, 4, 32))] * draw.choice((1, 2, 50))
        elif kind == 4:
            number = draw.choice((0, 1, -1, 2**31 - 1, -(2**31), 2**16, 1 << 24, 1000))
            made[at : at + 4] = number.to_bytes(4, draw.choice(("little", "big")), signed=True)
        else:
            del made[draw.randrange(len(made) + 1) :]
    return bytes(made)
