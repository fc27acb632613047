"""What a model adds to its embeddings for each position: sines, or vectors that it learnt.

A heat map has one row per vector. The cosines of the vectors show what they say about positions: nearby positions
should be more alike than distant ones. The patches of an image are numbered row by row, but the model is never told
that they form a grid; if it has learnt that, each patch is most like those in its own row and column (Dosovitskiy et
al. 2021, figure 7). Rotary positions, ALiBi and other schemes that act inside attention add no vectors to draw.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from regard.core.articles import with_article
from regard.core.errors import UsageError
from regard.views.result import Curves, Matrix, Panel, Result

LOOKS_AT = "model"


def positions(model: Any, *, longest: int = 48) -> Result:
    """The vectors that a model adds for positions, and how alike they are; of a text model the first `longest`."""
    vectors_PD, grid = _vectors(model, longest)
    unit_PD = normalize(vectors_PD, dim=1)
    cosines_PP = unit_PD @ unit_PD.T
    names = [str(number) for number in range(len(vectors_PD))]
    columns = [str(number) for number in range(vectors_PD.shape[1])]
    vectors = Matrix("Vectors", names, columns, vectors_PD.tolist(), note="rows: positions")
    by_distance = _by_distance(cosines_PP, grid)
    panels: list[Panel] = _on_grid(cosines_PP, grid) if grid else [vectors]
    panels.append(Curves("Cosine by distance", "distance in " + ("patches" if grid else "tokens"), "mean cosine",
                         {"positions": by_distance}))  # fmt: skip
    return Result(
        "positions",
        f"Positions of {with_article(model.stored.name)}",
        panels,
        _statements(cosines_PP, by_distance, grid),
        {"vectors": vectors_PD.tolist(), "cosines": cosines_PP.tolist(), "grid": grid, "by_distance": by_distance},
    )


def _vectors(model: Any, longest: int) -> tuple[Tensor, tuple[int, int] | None]:
    """Vectors [P,D] and, for an image, the rows and columns of its patches."""
    if longest < 3:
        raise UsageError("too few positions to compare", got=f"longest {longest}", expected="at least 3")
    net = model.model
    position: Any = getattr(net, "position", getattr(net, "source_position", None))
    if isinstance(position, Tensor):
        return position.detach()[0, net.n_special :], net.patches.grid
    vectors_PD = torch.zeros(0, 1)
    if hasattr(position, "embed"):
        most = min(longest, net.config.max_len) if position.bounded else longest
        with torch.no_grad():
            vectors_PD = position.embed(torch.zeros(1, most, net.config.d_model), torch.arange(most))[0]
    if not vectors_PD.any():
        raise UsageError(
            "this model adds no vectors for positions",
            got=with_article(model.stored.name),
            expected="a model with learned or sinusoidal positions",
            remedy="Schemes that act inside attention can be compared by --method lengths.",
        )
    return vectors_PD, None


def _places(count: int, grid: tuple[int, int] | None) -> Tensor:
    """Where each position is, [P,1] on a line or [P,2] in an image."""
    if grid is None:
        return torch.arange(count).float().unsqueeze(1)
    return torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1])).float()


def _by_distance(cosines_PP: Tensor, grid: tuple[int, int] | None) -> list[tuple[float, float]]:
    """The mean cosine of positions at each distance from 1 on, rounded."""
    places = _places(len(cosines_PP), grid)
    apart_PP = torch.cdist(places, places).round()
    return [
        (float(gap), float(cosines_PP[apart_PP == gap].mean())) for gap in apart_PP.unique(sorted=True).tolist() if gap
    ]


def _on_grid(cosines_PP: Tensor, grid: tuple[int, int]) -> list[Panel]:
    """For a few patches: how alike each other patch's position is."""
    rows, columns = grid
    wanted = {(0, 0): "top left", (rows // 2, columns // 2): "centre", (rows - 1, columns // 2): "bottom"}
    labels = [str(row) for row in range(rows)], [str(column) for column in range(columns)]
    return [
        Matrix(
            f"Cosine with the patch in row {row}, column {column} ({name})",
            *labels,
            cosines_PP[row * columns + column].unflatten(0, grid).tolist(),
            square=True,
        )
        for (row, column), name in wanted.items()
    ]


def _statements(cosines_PP: Tensor, by_distance: list[tuple[float, float]], grid: tuple[int, int] | None) -> list[str]:
    (near, first), (far, last) = by_distance[0], by_distance[-1]
    means = f"{first:.2f} at distance {near:.0f} and {last:.2f} at distance {far:.0f}"
    said = [f"{len(cosines_PP)} positions; the mean cosine of two is {means}."]
    if grid is not None:
        places = _places(len(cosines_PP), grid)
        apart_PP2 = (places.unsqueeze(0) - places.unsqueeze(1)).abs()
        row, column = apart_PP2[..., 0] == 0, apart_PP2[..., 1] == 0
        kinds = [float(cosines_PP[kind].mean()) for kind in (row & ~column, column & ~row, ~row & ~column)]
        said.append(
            "Mean cosine of patches in the same row: {:.2f}, in the same column: {:.2f}, in neither: {:.2f}.".format(
                *kinds
            )
        )
    return said
