"""Reasons for one prediction: the effect of each seen entry of its row, by leaving it out (:mod:`tribit.explain`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tribit.data.axis import Axes, Axis, Positions, first_true, named
from tribit.data.ingest import Checked
from tribit.data.observations import Observations, as_observations
from tribit.errors import InvalidInputError
from tribit.explain.explanation import EntryEffect, Explanation
from tribit.explain.leave_one_out import without_each
from tribit.explain.parts import Cell, by_features, parts_of, without_regression
from tribit.folding.half import Half
from tribit.folding.new_rows import halves_of
from tribit.model.features import mask_of
from tribit.model.risks import Missingness

if TYPE_CHECKING:
    from tribit.completion import BinaryMatrixCompletion

__all__ = ["explain"]

Array = NDArray[np.floating[Any]]

#: Entries of the matrices of rows that are solved for at once: a row of 1,000 entries in one go, in some 100 MB.
BLOCK = 2**20


@dataclass(frozen=True)
class RhoOfRow:
    """The probability that an entry of one row is unobserved, for matrices of which every row is that one."""

    rho: Missingness
    row: int

    def rho_at(self, rows: Any, columns: Any) -> Array:
        """Return it at the columns, whatever the rows."""
        shape = np.broadcast_shapes(np.shape(rows), np.shape(columns))
        places = np.broadcast_to(columns, shape).ravel()
        return np.asarray(self.rho.rho_at(np.full(places.size, self.row), places)).reshape(shape)


def explain(
    model: BinaryMatrixCompletion,
    row: Any,
    column: Any,
    seen: Any,
) -> Explanation:
    """Return what made the score of one cell; see the model's own method.

    Parameters
    ----------
    model : BinaryMatrixCompletion
        A fitted model.
    row, column : id or int
        The cell: ids where the model has ids, else positions.
    seen : Observations, sparse matrix or array
        What the model was fitted on; of a row that was folded in, its entries. Matched by id where the model has ids.
    """
    check_is_fitted(model)
    cell = _cell(model, row, column, seen)
    if model.spec_.mixed and model.imputed is not None:
        raise InvalidInputError(
            "The model was fitted with imputed probabilities, of which no single entry has a share: explain one that "
            "was fitted without imputed."
        )
    halves = [replace(half, risk=_risk_of(half, model, cell.row)) for half in halves_of(model)]
    parts: dict[str, float] = {}
    effects, minimum = np.zeros(cell.columns.size), 0.0
    for half in halves:
        regression, half = without_regression(model.search_, half, cell)
        side = by_features(half, cell.row, cell.columns)
        found = parts_of(half, cell, side)
        if regression is not None:
            found["regression of the smaller side"] = regression.total
            effects += regression.by_entry / len(halves)
            minimum += regression.total / len(halves)
        for name, value in found.items():
            parts[name] = parts.get(name, 0.0) + value / len(halves)
        at_once = without_each(half, cell, side)
        every = np.arange(-1, cell.columns.size)
        x = _solved_without(half, cell, side, every) if at_once is None else at_once
        effects += (x[0] - x[1:]) / len(halves)
        minimum += x[0] / len(halves)
    place = np.array([cell.row]), np.array([cell.column])
    slopes = float((model._factors().at(*place) - model._fitted_factors().at(*place))[0])
    if slopes:
        parts["slopes on features"] = slopes
    return _explanation(model, cell, parts, effects, minimum + slopes)


def _explanation(
    model: BinaryMatrixCompletion,
    cell: Cell,
    parts: dict[str, float],
    effects: Array,
    minimum: float,
) -> Explanation:
    x = float(model._factors().at(np.array([cell.row]), np.array([cell.column]))[0])
    probabilities = model._probability(np.append(x - effects, x))
    axes = model._axes
    order = np.argsort(-np.abs(effects), kind="stable")
    names = axes.columns.names(cell.columns[order]).tolist()
    entries = zip(
        names,
        cell.labels[order].tolist(),
        effects[order].tolist(),
        (probabilities[-1] - probabilities[:-1])[order].tolist(),
        strict=True,
    )
    return Explanation(
        row=axes.rows.names(np.array([cell.row])).tolist()[0],
        column=axes.columns.names(np.array([cell.column])).tolist()[0],
        probability=float(probabilities[-1]),
        x=x,
        parts=parts,
        entries=tuple(EntryEffect(*each) for each in entries),
        residual=x - minimum,
    )


def _cell(model: BinaryMatrixCompletion, row: Any, column: Any, seen: Any) -> Cell:
    """Return the positions of the cell, of the entries of its row and of those of its column."""
    axes: Axes = model._axes
    i, j = axes.pairs(row, column)
    if i.size != 1:
        raise InvalidInputError(
            f"Explained is one cell at a time; got {i.size} rows and columns: call explain for each."
        )
    entries = as_observations(seen, like_at=model.like_at)
    rows, columns = axes.places(entries, "the seen entries have", "pass what it was fitted on")
    here = rows == i[0]
    if (lost := first_true(here & (columns < 0))) is not None:
        name = named(entries.axes.columns.ids, entries.columns[lost])
        raise InvalidInputError(
            f"The row has a seen entry in the column {name}, which the model does not know: pass what it was fitted on."
        )
    order = np.argsort(columns[here])
    above = np.unique(rows[(columns == j[0]) & (rows >= 0)])
    return Cell(int(i[0]), int(j[0]), columns[here][order], entries.labels[here][order], above)


def _risk_of(half: Half, model: BinaryMatrixCompletion, row: int) -> Any:
    """Return the risk of the row itself: folding in has one for rows that a model of the mask does not know."""
    rho = model.rho_
    if not half.spec.mixed or not isinstance(rho, Missingness):
        return half.risk
    try:
        rho.rho_at(np.array([row]), np.array([0]))
    except (InvalidInputError, IndexError):  # a row that came after the fit
        return half.risk
    return replace(half.risk, rho=RhoOfRow(rho, row))


def _solved_without(
    half: Half, cell: Cell, side: tuple[Array, float], left_out: Positions
) -> Array:
    """Return ``x`` of the cell with the row at its own minimum, without one entry each (-1 for none)."""
    n = cell.columns.size
    if not n:
        return half.factors.at(np.array([cell.row]), np.array([cell.column]))
    found, of = [], half.factors
    step = max(1, BLOCK // n)
    for start in range(0, left_out.size, step):
        some = left_out[start : start + step]
        rows, at = np.nonzero(np.arange(n) != some[:, None])
        new = Axis("row", some.size)
        entries = Observations.from_checked(
            Checked(rows, cell.columns[at], cell.labels[at], Axes(new, half.axes.columns))
        )
        factors, intercepts = half.shared_by_activity(mask_of(entries))
        shared = factors + side[0], intercepts + side[1]
        U, a = half.minimisers(entries, shared)
        v, c = (side[cell.column] for side in (of.column_factors, of.column_intercepts))
        found.append(U @ v + of.intercept + a + c)
    return np.concatenate(found)
