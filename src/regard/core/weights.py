"""Weights on disk as safetensors files. Pickles are never read, because they can run code.

Reading maps the file: a tensor costs memory only where it is touched, and changing it never changes the file. Writing
is all or nothing: the new file replaces the old one only when it is complete and on disk, so tensors mapped from the
old file stay valid. Tied tensors are stored once, with their other names as metadata, and are read as one tensor.

The layout is written here, not by the library's `save_file` (0.8). That function shuffles the metadata, so that equal
weights give unequal hashes; it makes files that only their owner can read; and it refuses tied tensors.
"""

from __future__ import annotations

import functools
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from regard.core.errors import WeightsError
from regard.core.paths import check_link

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
_SUFFIXES = (".safetensors", ".trace")  # a trace (regard.explain) has the same format
_LINE = 64  # bytes of a cache line
_TIED = "regard.tied"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_CONVERT = f"If you trust it: regard.core.weights.write({FILE!r}, torch.load(path, weights_only=True))."
_FLOATS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
_WHOLES = {torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"}
_CODES = {**_FLOATS, **_WHOLES, torch.bool: "BOOL"}


def read_tensors(path: str | Path, *, names: Iterable[str] | None = None) -> dict[str, Tensor]:
    """The tensors of a file, of an index of shards, or of a folder that holds either; only `names`, if given."""
    asked, tensors = None if names is None else set(names), dict[str, Tensor]()
    files, promised = _files(Path(path))
    for file in files:
        with _opened(file) as stored:
            tied = _tied_names((stored.metadata() or {}).get(_TIED, "{}"))
            fetch = functools.cache(stored.get_tensor)
            sources = {**{name: name for name in stored.keys()}, **tied}  # noqa: SIM118 (it is no mapping)
            if unknown := [name for name, source in tied.items() if source not in sources]:
                raise WeightsError(f"{file} ties names to tensors that it lacks", got=brief(unknown))
            tensors |= {name: fetch(sources[name]) for name in sources if asked is None or name in asked}
    if lacking := (promised if asked is None else asked) - tensors.keys():
        raise WeightsError(f"{path} lacks {brief(sorted(lacking))}", remedy="Check the names, or download it again.")
    return tensors


def extent(path: str | Path) -> tuple[int, int]:
    """The number of tensor names, and the bytes of all files. Only headers are read."""
    count, size = 0, 0
    for file in _files(Path(path))[0]:
        with _opened(file) as stored:
            tied = (stored.metadata() or {}).get(_TIED, "{}")
            count += len(stored.keys()) + len(_tied_names(tied))
            size += file.stat().st_size
    return count, size


def names(path: str | Path) -> set[str]:
    """The names of all tensors; only headers are read."""
    known = set[str]()
    for file in _files(Path(path))[0]:
        with _opened(file) as stored:
            known |= {*stored.keys(), *_tied_names((stored.metadata() or {}).get(_TIED, "{}"))}
    return known


def metadata(path: str | Path) -> dict[str, str]:
    """The metadata that was written with the weights."""
    notes: dict[str, str] = {}
    for file in _files(Path(path))[0]:
        with _opened(file) as stored:
            notes |= stored.metadata() or {}
    return {key: note for key, note in notes.items() if key != _TIED}


def write(path: str | Path, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str] | None = None) -> None:
    """Store the tensors in one file. Equal calls write equal bytes; a failure leaves the old file unchanged."""
    if Path(path).suffix not in _SUFFIXES:
        raise WeightsError(f"{path} is not a name for weights", expected=f"a name ending in {' or '.join(_SUFFIXES)}")
    refused = [name for name, t in tensors.items() if t.is_meta or t.layout != torch.strided or t.dtype not in _CODES]
    if refused := refused or [name for name in tensors if name == "__metadata__"]:
        raise WeightsError(f"cannot store {brief(refused)}", expected=f"dense tensors of {', '.join(_CODES.values())}")
    kept, tied = _untied(tensors)
    try:
        with replacing(path) as file:
            file.write(_header(kept, {**(metadata or {}), **({_TIED: json.dumps(tied)} if tied else {})}))
            for tensor in kept.values():
                file.write(tensor.detach().cpu().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    except OSError as error:
        raise WeightsError(f"{path} was not written", got=error, remedy="Make room, or write elsewhere.") from error


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to write that replaces `path` when the block succeeds and is deleted when the block fails."""
    partial = Path(path).with_name(f".{Path(path).name}.{uuid.uuid4().hex}.part")
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(partial.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load_into(
    module: nn.Module, tensors: Mapping[str, Tensor], *, strict: bool = True, dtype: torch.dtype | None = None
) -> tuple[list[str], list[str]]:
    """Make the tensors the module's parameters and buffers, and return the names (missing, unexpected).

    Nothing is copied: the module takes the tensors themselves, so pass clones if you change them later. Parameters
    become new objects, so make the optimizer afterwards. Ties in the module stay; a tensor for one tied name is enough.
    `strict=False` allows missing and unexpected names, but no wrong shapes. `dtype` casts floating tensors.
    """
    slots = {name: slot for name, slot in module.state_dict(keep_vars=True).items() if isinstance(slot, Tensor)}
    common = [name for name in slots if name in tensors]
    given = {id(slots[name]): (slots[name], tensors[name]) for name in reversed(common)}  # tied names share a slot
    missing = [name for name, slot in slots.items() if id(slot) not in given]
    unexpected = [name for name in tensors if name not in slots]
    faults = {"missing": missing, "unexpected": unexpected} if strict else {}
    faults["misfits"] = [fault for name in common if (fault := _misfit(name, tensors[name], *given[id(slots[name])]))]
    if reports := [f"{kind}: {brief(names)}" for kind, names in faults.items() if names]:
        raise WeightsError(f"the weights do not fit {type(module).__name__}: {'; '.join(reports)}")
    values = _as_slots(given, dtype)
    state = {name: values[id(slot)] for name, slot in slots.items() if id(slot) in values}
    module.load_state_dict(state, strict=False, assign=True)
    return missing, unexpected


def aligned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, but those that do not begin on a cache line are copied. The last bit of a matrix product
    depends on alignment, and a loaded model should give exactly the numbers of the saved model. Files written here need
    few copies."""
    return {name: tensor if tensor.data_ptr() % _LINE == 0 else tensor.clone() for name, tensor in tensors.items()}


def brief(names: Sequence[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _tied_names(text: str) -> dict[str, str]:
    """The other names of tensors in a file, from its metadata."""
    tied = json.loads(text)
    if not isinstance(tied, dict) or not all(isinstance(source, str) for source in tied.values()):
        raise ValueError(f"{_TIED} is not a mapping of names")
    return tied


def _misfit(name: str, tensor: Tensor, slot: Tensor, first: Tensor) -> str | None:
    """Why the tensor cannot fill its slot, or None; `first` is the tensor that fills it, perhaps by a tied name."""
    if tensor.shape != slot.shape or tensor.is_floating_point() != slot.is_floating_point():
        return f"{name} is {tensor.dtype} {list(tensor.shape)}, expected {slot.dtype} {list(slot.shape)}"
    if _place(tensor) == _place(first) or (tensor.dtype == first.dtype and torch.equal(tensor, first)):
        return None
    return f"{name} is tied in the module, but the values given for its names differ"


def _as_slots(given: Mapping[int, tuple[Tensor, Tensor]], dtype: torch.dtype | None) -> dict[int, Tensor]:
    """The given tensors on the devices of their slots, as parameters where the slots are parameters."""
    values, used = dict[int, Tensor](), set[object]()
    for key, (slot, tensor) in given.items():
        to_dtype = dtype if dtype and tensor.is_floating_point() else tensor.dtype
        value = tensor.detach().to(tensor.device if slot.is_meta else slot.device, to_dtype)
        if _place(value) in used:  # sharing one tensor would tie two names that the module does not tie
            value = value.clone()
        used.add(_place(value))
        values[key] = nn.Parameter(value, slot.requires_grad) if isinstance(slot, nn.Parameter) else value
    return values


def _place(tensor: Tensor) -> object:
    """A key that is equal for tensors with the same numbers at the same place in memory."""
    start = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
    return (tensor.device, *start, tensor.dtype, tensor.shape, tensor.stride()) if tensor.numel() else object()


def _untied(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors to store, and the tied names. The tensors are sorted so that most are aligned: those whose size is a
    multiple of a cache line first, then by the width of the type."""
    firsts: dict[object, str] = {}
    tied = {name: first for name in tensors if (first := firsts.setdefault(_place(tensors[name]), name)) != name}
    sizes = {name: tensors[name].numel() * tensors[name].element_size() for name in firsts.values()}
    names = sorted(sizes, key=lambda name: (sizes[name] % _LINE > 0, -tensors[name].element_size(), name))
    return {name: tensors[name] for name in names}, tied


def _header(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {key: str(notes[key]) for key in sorted(notes)}} if notes else {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.numel() * tensor.element_size()
        entries[name] = {"dtype": _CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    return (size := len(text) + -(8 + len(text)) % _LINE).to_bytes(8, "little") + text.ljust(size)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    if file.suffix not in _SUFFIXES:
        expected = f"a .safetensors file, or a folder with {FILE} or {INDEX}"
        if pickles := [str(each) for each in (file, *sorted(file.glob("*"))) if each.suffix in _PICKLES]:
            raise WeightsError(f"{brief(pickles)}: a pickle can run code", expected=expected, remedy=_CONVERT)
        raise WeightsError(f"{file} holds no weights", expected=expected)
    try:
        with safe_open(file, framework="pt") as stored:
            yield stored
    except (SafetensorError, OSError, ValueError, TypeError, RecursionError) as error:
        what = "missing" if isinstance(error, FileNotFoundError) else "damaged or unreadable"
        raise WeightsError(f"{file} is {what}", got=error, remedy="Check the path, or download it again.") from error


def _files(path: Path) -> tuple[list[Path], set[str]]:
    """The files to read, and the names that an index lists."""
    path = next((path / name for name in (FILE, INDEX) if (path / name).is_file()), path)
    if not path.name.endswith(".index.json"):
        return [path], set()
    try:
        places = {str(name): str(shard) for name, shard in json.loads(path.read_bytes())["weight_map"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{path} is no shard index", got=error, remedy="Copy or download it again.") from error
    shards = sorted(set(places.values()))
    if outside := [shard for shard in shards if (way := PureWindowsPath(shard)).anchor or ".." in way.parts]:
        raise WeightsError(f"{path} names files outside its folder", got=brief(outside), remedy="Do not trust it.")
    for shard in shards:
        check_link(path.parent / shard, path.parent)
    return [path.parent / shard for shard in shards], set(places)
