"""Reasons for one prediction: the effect of each seen entry of its row, by leaving it out (:mod:`tribit.explain`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.threads import count_jobs
from tribit.data.axis import Axes, Axis, Positions, first_true, named
from tribit.data.ingest import Checked
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.explain.explanation import EntryEffect, Explanation
from tribit.explain.leave_one_out import without_each
from tribit.explain.parts import Cell, by_features, parts_of, without_regression
from tribit.folding.row_solver import RowSolver
from tribit.model.features import mask_of
from tribit.model.fitted import Fitted
from tribit.model.risks import Missingness, Risk

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
    fitted: Fitted, row: Any, column: Any, seen: Observations, *, n_jobs: int | None = None
) -> Explanation:
    """Return the contributions to the score of one cell; see :meth:`tribit.BinaryMatrixCompletion.explain`.

    Parameters
    ----------
    fitted : Fitted
        The result of a fit.
    row, column : id or int
        The cell: ids where the fit has ids, else positions.
    seen : Observations
        The entries of the fit; of a row that was folded in, its entries. Matched by id where the fit has ids.
    n_jobs : int or None, default=None
        Threads.
    """
    cell = _cell(fitted, row, column, seen)
    if any(each.spec.mixed and each.spec.imputed is not None for each in fitted.members):
        raise InvalidInputError(
            "The model was fitted with imputed probabilities, of which no single entry has a share: explain one that "
            "was fitted without imputed."
        )
    jobs = count_jobs(n_jobs)
    parts: dict[str, float] = {}
    effects, minimum = np.zeros(cell.columns.size), 0.0
    total = sum(each.weight for each in fitted.members)
    for member, risk in zip(fitted.members, _risks_of(fitted, cell.row), strict=True):
        of = total / member.weight
        regression, member = without_regression(member, cell)
        solver = RowSolver(member, risk, jobs)
        side = by_features(member, cell.row, cell.columns)
        found = parts_of(member, cell, side)
        if regression is not None:
            found["regression of the smaller side"] = regression.total
            effects += regression.by_entry / of
            minimum += regression.total / of
        for name, value in found.items():
            parts[name] = parts.get(name, 0.0) + value / of
        at_once = without_each(solver, cell, side)
        every = np.arange(-1, cell.columns.size)
        x = _solved_without(solver, fitted.axes, cell, side, every) if at_once is None else at_once
        effects += (x[0] - x[1:]) / of
        minimum += x[0] / of
    place = np.array([cell.row]), np.array([cell.column])
    slopes = float((fitted.scores.factors.at(*place) - fitted.factors.at(*place))[0])
    if slopes:
        parts["slopes on features"] = slopes
    return _explanation(fitted, cell, parts, effects, minimum + slopes)


def _explanation(
    fitted: Fitted,
    cell: Cell,
    parts: dict[str, float],
    effects: Array,
    minimum: float,
) -> Explanation:
    scores = fitted.scores
    x = float(scores.x(np.array([cell.row]), np.array([cell.column]))[0])
    probabilities = scores.probability(np.append(x - effects, x))
    axes = scores.axes
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
        meaning=fitted.meaning,
    )


def _cell(fitted: Fitted, row: Any, column: Any, entries: Observations) -> Cell:
    """Return the positions of the cell, of the entries of its row and of those of its column."""
    axes = fitted.axes
    i, j = axes.pairs(row, column)
    if i.size != 1:
        raise InvalidInputError(
            f"Explained is one cell at a time; got {i.size} rows and columns: call explain for each."
        )
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


def _risks_of(fitted: Fitted, row: int) -> list[Risk]:
    """Return the risk of the row itself under each member.

    Folding in has one for rows that a model of the mask does not know.
    """
    known = fitted.fitted_shape or fitted.shape
    # A model of the mask knows neither rows nor columns that came after the fit.
    here = row < known[0] and fitted.shape[1] == known[1]
    found = []
    for member, risk in zip(fitted.members, fitted.row_risks(), strict=True):
        rho = member.spec.rho
        own = here and member.spec.mixed and isinstance(rho, Missingness)
        found.append(replace(risk, rho=RhoOfRow(rho, row)) if own else risk)
    return found


def _solved_without(
    solver: RowSolver, axes: Axes, cell: Cell, side: tuple[Array, float], left_out: Positions
) -> Array:
    """Return ``x`` of the cell with the row at its own minimum, without one entry each (-1 for none)."""
    of = solver.member.factors
    n = cell.columns.size
    if not n:
        return of.at(np.array([cell.row]), np.array([cell.column]))
    found = []
    step = max(1, BLOCK // n)
    for start in range(0, left_out.size, step):
        some = left_out[start : start + step]
        rows, at = np.nonzero(np.arange(n) != some[:, None])
        new = Axis("row", some.size)
        entries = Observations.from_checked(
            Checked(rows, cell.columns[at], cell.labels[at], Axes(new, axes.columns))
        )
        factors, intercepts = solver.member.implicit_parts(mask_of(entries))
        shared = factors + side[0], intercepts + side[1]
        U, a = solver.minimisers(entries, shared)
        v, c = (side[cell.column] for side in (of.column_factors, of.column_intercepts))
        found.append(U @ v + of.intercept + a + c)
    return np.concatenate(found)
