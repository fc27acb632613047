"""What a call of `decode` asks for: the special tokens, and each row's limit, forced prefix and number, all checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.batch import pad as pad_sequences
from regard.core.errors import ShapeError, UsageError
from regard.core.search import Search

_FREE = -1  # no token has this number, so that it can stand for "none": also for an end or padding that does not exist


@dataclass(frozen=True)
class Request:
    """One call of `decode`; tensors have a place for each row."""

    first_B: Tensor
    """The token that each row begins with, which is no part of the output."""
    forbidden: frozenset[int]
    """Never generated: the first token, where it is the same for all by design, and padding."""
    ends: tuple[int, ...]
    """Tokens that end an output; none where there is no such token."""
    limit_B: Tensor
    prefix_BP: Tensor
    """Forced tokens, −1 beyond a row's own."""
    prefix_length_B: Tensor
    numbers: tuple[int, ...]
    """By which number a row is drawn for: its place, unless the caller says otherwise."""
    lengths_B: Tensor | None
    source_mask_BS: Tensor | None

    @property
    def common(self) -> int:
        """How much of the prefixes can be read at once: what all rows have, but for a last token within the limit."""
        return int(torch.minimum(self.prefix_length_B, self.limit_B - 1).min())

    def forced(self, step: int, row_N: Tensor) -> Tensor:
        """The token that must come at this step [N], −1 where the search is free."""
        if step >= self.prefix_BP.shape[1]:
            return torch.full_like(row_N, _FREE)
        return self.prefix_BP[row_N, step]

    def is_end(self, tokens: Tensor) -> Tensor:
        """Which of these tokens end an output."""
        if len(self.ends) == 1:
            return tokens == self.ends[0]
        return torch.isin(tokens, torch.tensor(self.ends, dtype=tokens.dtype, device=tokens.device))

    def check_tokens(self, vocab: int) -> None:
        """The end token and the forced ones must be tokens that the model knows."""
        groups = {
            "end token": list(self.ends),
            "forced prefix": self.prefix_BP[self.prefix_BP != _FREE].tolist(),
        }
        for name, tokens in groups.items():
            outside = [token for token in tokens if not 0 <= token < vocab]
            if outside:
                raise UsageError(
                    f"the {name} is outside the model's vocabulary",
                    got=outside[0],
                    expected=f"0 to {vocab - 1}",
                    remedy="Use the tokenizer that the model was trained with.",
                )

    def real_inputs(self, n_keys: int) -> Tensor:
        """Which of the inputs that are attended to are no padding [B,K]."""
        if self.source_mask_BS is not None and self.source_mask_BS.shape[1] == n_keys:
            return self.source_mask_BS.bool()
        keys_K = torch.arange(n_keys, device=self.limit_B.device)
        lengths_B = torch.full_like(self.limit_B, n_keys) if self.lengths_B is None else self.lengths_B
        return keys_K < lengths_B[:, None]


def make_request(
    inputs: Mapping[str, Tensor],
    search: Search,
    special: tuple[int | Sequence[int], int | Sequence[int], int],
    lengths: Tensor | None,
    prefixes: Sequence[Sequence[int]] | None,
    rows: Sequence[int] | None,
) -> Request:
    """`special` is bos, eos, pad; −1 where there is no such token. A bos for each row may be any token."""
    bos, eos, pad = special
    ends = tuple(token for token in ([eos] if isinstance(eos, int) else eos) if token != _FREE)
    size = _size(inputs, lengths, prefixes, rows)
    device = next((tensor.device for tensor in inputs.values()), torch.device("cpu"))
    if lengths is None and search.max_length is None:
        raise UsageError("nothing says how long an output may be", remedy="Set max_length, or give source lengths.")
    limits = [search.limit(length) for length in (lengths.tolist() if lengths is not None else [0] * size)]
    forced = [list(prefix) for prefix in prefixes] if prefixes is not None else [[] for _ in limits]
    _check_prefixes(forced, limits)
    prefix_BP, _ = pad_sequences(forced, value=_FREE)
    firsts = [bos] * size if isinstance(bos, int) else list(bos)
    if len(firsts) != size:
        raise ShapeError("a first token is needed for each row", got=len(firsts), expected=size)
    return Request(
        first_B=torch.tensor(firsts, dtype=torch.int64, device=device),
        # Some vocabularies use one token for several ends, so the end token is exempt.
        forbidden=frozenset({pad, bos} if isinstance(bos, int) else {pad}) - set(ends),
        ends=ends,
        limit_B=torch.tensor(limits, dtype=torch.int64, device=device),
        prefix_BP=prefix_BP.to(device),
        prefix_length_B=torch.tensor([len(prefix) for prefix in forced], dtype=torch.int64, device=device),
        numbers=tuple(range(size)) if rows is None else tuple(rows),
        lengths_B=None if lengths is None else lengths.to(device),
        source_mask_BS=inputs.get("source_mask"),
    )


def _size(inputs: Mapping[str, Tensor], *others: Tensor | Sequence[object] | None) -> int:
    names = [*inputs, "lengths", "prefixes", "rows"]
    given = zip(names, (*inputs.values(), *others), strict=True)
    sizes = {name: len(rows) for name, rows in given if rows is not None}
    if len(set(sizes.values())) > 1:
        got = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ShapeError("the inputs differ in how many rows they have", got=got, expected="one number of rows")
    if not sizes:
        raise UsageError("nothing says how many rows to generate", remedy="Give inputs, lengths or prefixes.")
    return next(iter(sizes.values()))


def _check_prefixes(prefixes: list[list[int]], limits: list[int]) -> None:
    for row, (prefix, limit) in enumerate(zip(prefixes, limits, strict=True)):
        if len(prefix) > limit:
            raise UsageError(
                f"the forced prefix of row {row} is longer than its output may be",
                got=f"{len(prefix)} tokens",
                expected=f"at most {limit}",
                remedy="Raise max_length (or max_extra), or shorten the prefix.",
            )
        if min(prefix, default=0) < 0:
            raise UsageError(f"the forced prefix of row {row} holds a negative token", got=min(prefix))
