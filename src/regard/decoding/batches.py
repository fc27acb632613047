"""Generates outputs for a batch whose rows all use the same search: a loop around a `Decoder`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from regard.core.contracts import Decodable
from regard.core.errors import ShapeError, UsageError
from regard.core.search import Search
from regard.decoding.decoder import Decoder
from regard.decoding.request import Request, SpecialTokens
from regard.decoding.result import Hypothesis

_REFILL = 4  # waiting rows begin when one in this many of the running rows has ended
_AT_ONCE = 1 << 30  # the budget of prompt tokens per step: all rows are known, so long prompts are not split


def decode(
    model: Decodable,
    inputs: Mapping[str, Tensor],
    search: Search,
    *,
    bos: int | Sequence[int],
    eos: int | Sequence[int],
    pad: int,
    lengths: Tensor | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
    rows: Sequence[int] | None = None,
    on_token: Callable[[int, int], None] | None = None,
    on_done: Callable[[int], None] | None = None,
    at_once: int | None = None,
    grammars: Sequence[Callable[[Sequence[int]], Tensor]] | None = None,
) -> list[list[Hypothesis]]:
    """Return the best `search.nbest` outputs of each row of `inputs`, finished ones first, then by score.

    A row has fewer outputs if fewer exist, but at least one. `lengths` are the source lengths; they limit the outputs
    unless `max_length` does. `prefixes` are tokens that each output must begin with. `rows` are the numbers of the rows
    for sampling (by default their indices): a row with the same number gets the same samples in any batch. `bos` may be
    given for each row, for models that continue any text. `eos` and `pad` are −1 if there is no such token, and any of
    several `eos` ends an output. `on_token` gets a row's index and its next token as soon as the token is certain (with
    a beam, only at the end); if a row has several samples, it does not get their last tokens at the length limit.
    `on_done` gets the index of each row that has ended. At most `at_once` rows run at a time
    (by default all): when some end, others begin. `grammars` define for each row which tokens are allowed
    (`Request.grammar`). Put the model into evaluation mode first; its mode is not changed here.
    """
    size = _size(inputs, lengths, prefixes, rows)
    firsts = [bos] * size if isinstance(bos, int) else list(bos)
    if len(firsts) != size:
        raise ShapeError("a first token is needed for each row", got=len(firsts), expected=size)
    shared_seed = Request(search, 0).seed()
    requests = [
        Request(
            search.model_copy(update={"seed": shared_seed}),
            firsts[row],
            prefixes[row] if prefixes is not None else (),
            {name: _own(tensor[row], lengths, row) for name, tensor in inputs.items()},
            int(lengths[row]) if lengths is not None else None,
            rows[row] if rows is not None else row,
            None if grammars is None else grammars[row],
        )
        for row in range(size)
    ]
    if not requests:
        return []
    special = SpecialTokens.of(bos=bos, eos=eos, pad=pad)
    seats = size if at_once is None else min(size, at_once)
    together = max(1, seats // _REFILL)
    decoder = Decoder(model, special, paths=seats * requests[0].width, sources=seats, together=together)
    results: dict[int, list[Hypothesis]] = {}
    reported = [len(request.prefix) for request in requests]
    decoder.admit(requests)
    while not decoder.idle:
        for event in decoder.step(_AT_ONCE):
            if event.results is not None:
                results[event.ticket] = event.results
                if on_token is not None and not (search.sample and search.nbest > 1):
                    for token in event.results[0].tokens[reported[event.ticket] :]:
                        on_token(event.ticket, token)
                if on_done is not None:
                    on_done(event.ticket)
            elif on_token is not None and event.token is not None:
                reported[event.ticket] += 1
                on_token(event.ticket, event.token)
    return [results[row] for row in range(size)]


def _own(part: Tensor, lengths: Tensor | None, row: int) -> Tensor:
    """A row of an input, without the padding of a sequence."""
    return part[: int(lengths[row])] if lengths is not None and part.dim() == 1 else part


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
