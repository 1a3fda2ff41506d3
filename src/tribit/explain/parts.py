"""The parts of a score: what intercepts, labels, implicit features, side features and a regression add to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import Positions
from tribit.folding.half import Half

if TYPE_CHECKING:
    from tribit.selection.record import Search

Array = NDArray[np.floating[Any]]


class Cell(NamedTuple):
    """A cell, the entries of its row and the rows of the entries of its column."""

    row: int
    column: int
    columns: Positions
    labels: NDArray[np.int8]
    rows_of_column: Positions


class RegressionShare(NamedTuple):
    """The columns of the regression of the smaller side that are part of the factors, at one cell."""

    total: float
    by_entry: Array


def parts_of(half: Half, cell: Cell, side: tuple[Array, float]) -> dict[str, float]:
    """Return the parts of ``x`` of one fit, by name: they sum to it."""
    factors, maps = half.factors, half.maps
    turned = half.transposed
    of_column, of_column_effect = by_features(turned, cell.column, cell.rows_of_column)
    u, a = factors.row_factors[cell.row], float(factors.row_intercepts[cell.row])
    v = factors.column_factors[cell.column] - of_column
    seen, seen_effect = by_activity(half, cell.columns)
    own = u - seen - side[0]
    found = {
        "overall level": float(factors.intercept),
        "column effect": float(factors.column_intercepts[cell.column]) - of_column_effect,
        "row effect": a - seen_effect - side[1],
        "labels of the row": float(own @ v),
    }
    if maps[0].activity is not None:
        found["columns that the row has seen"] = float(seen @ v) + seen_effect
    if maps[0].encoder is not None:
        found["row features"] = float(side[0] @ v) + side[1]
    if maps[1].encoder is not None:
        found["column features"] = float(u @ of_column) + of_column_effect
    return found


def by_activity(half: Half, columns: Positions) -> tuple[Array, float]:
    """Return what implicit features add to a row that has seen these columns, to its factors and its intercept."""
    ones, rows = np.ones(columns.size), np.zeros(columns.size, dtype=np.int64)
    mask = sp.csr_array((ones, (rows, columns)), shape=(1, half.axes.columns.size))
    factors, intercepts = half.shared_by_activity(mask)
    return factors[0], float(intercepts[0])


def by_features(half: Half, place: int, seen: Positions) -> tuple[Array, float]:
    """Return what side features add to a row of the fit; of a row without entries, all but implicit features."""
    if half.maps[0].encoder is None or (seen.size and not half.maps[0].shared):
        return np.zeros(half.factors.rank), 0.0
    factors, intercept = by_activity(half, seen)
    u = half.factors.row_factors[place] - factors
    a = float(half.factors.row_intercepts[place]) - intercept
    if seen.size:
        u = u - half.unknowns.row_factors[place]
        a -= float(half.unknowns.row_intercepts[place])
    return u, a


def without_regression(
    search: Search | None, half: Half, cell: Cell
) -> tuple[RegressionShare | None, Half]:
    """Return what the regression of the smaller side adds, and the fit that it was added to.

    It is added after the fit, so that a row's own minimum is one of the other columns alone.
    """
    if search is None or search.regression is None or search.best is None:
        return None, half
    k = search.best.settings.rank
    of_row = half.factors.row_factors[cell.row, k:]
    of_column = half.factors.column_factors[cell.column, k:]
    by_entry = np.zeros(cell.columns.size)
    if (
        of_row.size == half.axes.columns.size
    ):  # the row's own entries, each times what it says of the column
        if not np.array_equal(np.flatnonzero(of_row), cell.columns):
            return None, half  # a row that was folded in has factors like any others there
        by_entry = (of_row * of_column)[cell.columns]
    fewer = replace(half, factors=half.factors.narrowed(k), unknowns=half.unknowns.narrowed(k))
    return RegressionShare(float(of_row @ of_column), by_entry), fewer
