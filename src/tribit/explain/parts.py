"""The parts of a score: what intercepts, labels, implicit features, side features and a regression add to it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import Positions
from tribit.model.fitted import Member

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


def parts_of(member: Member, cell: Cell, side: tuple[Array, float]) -> dict[str, float]:
    """Return the parts of ``x`` of one fit, by name: they sum to it."""
    factors, maps = member.factors, member.maps
    turned = member.transposed
    of_column, of_column_effect = by_features(turned, cell.column, cell.rows_of_column)
    u, a = factors.row_factors[cell.row], float(factors.row_intercepts[cell.row])
    v = factors.column_factors[cell.column] - of_column
    seen, seen_effect = by_activity(member, cell.columns)
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


def by_activity(member: Member, columns: Positions) -> tuple[Array, float]:
    """Return what implicit features add to a row that has seen these columns, to its factors and its intercept."""
    ones, rows = np.ones(columns.size), np.zeros(columns.size, dtype=np.int64)
    mask = sp.csr_array((ones, (rows, columns)), shape=(1, member.shape[1]))
    factors, intercepts = member.implicit_parts(mask)
    return factors[0], float(intercepts[0])


def by_features(member: Member, place: int, seen: Positions) -> tuple[Array, float]:
    """Return what side features add to a row of the fit; of a row without entries, all but implicit features."""
    if member.maps[0].encoder is None or (seen.size and not member.maps[0].shared):
        return np.zeros(member.factors.rank), 0.0
    factors, intercept = by_activity(member, seen)
    u = member.factors.row_factors[place] - factors
    a = float(member.factors.row_intercepts[place]) - intercept
    if seen.size:
        u = u - member.unknowns.row_factors[place]
        a -= float(member.unknowns.row_intercepts[place])
    return u, a


def without_regression(member: Member, cell: Cell) -> tuple[RegressionShare | None, Member]:
    """Return the contribution of the regression of the smaller side, and the fit that it was added to.

    It is added after the fit, so that a row's own minimum is one of the other factors alone.
    """
    k = member.own_rank
    if member.factors.rank == k:
        return None, member
    of_row = member.factors.row_factors[cell.row, k:]
    of_column = member.factors.column_factors[cell.column, k:]
    by_entry = np.zeros(cell.columns.size)
    if of_row.size == member.shape[1]:  # the row's own entries, each times its regression weight
        if not np.array_equal(np.flatnonzero(of_row), cell.columns):
            return None, member  # a row that was folded in has factors like any others there
        by_entry = (of_row * of_column)[cell.columns]
    return RegressionShare(float(of_row @ of_column), by_entry), member.without_regression()
