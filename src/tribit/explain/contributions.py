"""Contributions to the score of one cell: the terms of ``x``, and the effect of each observed entry of the row.

The effect of an entry is found by leaving it out (:mod:`tribit.explain`). Without bounds and unobserved entries the row
minimises

    F(p) = sum over its entries e of l(q_e' p + o_e, y_e) + (p - c)' R (p - c) / 2,

with the curvature ``H = sum_e w_e q_e q_e' + R`` there. Without the entry e the sum lacks a term, and the centre c
changes, as implicit features depend on the observed columns. Each of these problems is solved by steps

    - (H - w_e q_e q_e')^-1 (gradient without e),

with one factorisation of H, the formula of Sherman and Morrison (1950), and the gradients of all problems at once. The
curvature stays that at the common minimum, which is near all solutions, so that the error falls by a constant factor in
each step. Newton's method with a curvature for each entry takes nine times as long on a row of 673 entries and 41
unknowns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from tribit.backends.threads import count_jobs, single_threaded_blas
from tribit.data.axis import Axes, Axis, Positions, first_true, quoted_id
from tribit.data.ingest import Checked
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.explain.explanation import EntryEffect, Explanation
from tribit.folding.row_solver import RowSolver
from tribit.model.features import mask_of
from tribit.model.fitted import Fitted, Member
from tribit.model.links import Label
from tribit.model.risks import Integers, Missingness, Risk

__all__ = ["explain", "scores_without_each"]

Array = NDArray[np.floating[Any]]


class Cell(NamedTuple):
    """A cell, the entries of its row and the rows of the entries of its column."""

    row: int
    column: int
    columns: Positions
    labels: NDArray[np.int8]
    rows_of_column: Positions
    weights: NDArray[np.float64] | None = None


class RegressionShare(NamedTuple):
    """Contribution to one cell of the regression of the smaller side, which is part of the factors."""

    total: float
    by_entry: Array


def score_parts(member: Member, cell: Cell, side: tuple[Array, float]) -> dict[str, float]:
    """Return the terms of ``x`` of one fit, by name; they sum to ``x``."""
    factors, maps = member.factors, member.maps
    turned = member.transposed
    of_column, of_column_effect = side_terms(turned, cell.column, cell.rows_of_column)
    u, a = factors.row_factors[cell.row], float(factors.row_intercepts[cell.row])
    v = factors.column_factors[cell.column] - of_column
    seen, seen_effect = implicit_terms(member, cell.columns)
    own = u - seen - side[0]
    found = {
        "overall level": float(factors.intercept),
        "column effect": float(factors.column_intercepts[cell.column]) - of_column_effect,
        "row effect": a - seen_effect - side[1],
        "labels of the row": float(own @ v),
    }
    if maps[0].activity is not None:
        found["implicit feedback"] = float(seen @ v) + seen_effect
    if maps[0].encoder is not None:
        found["row features"] = float(side[0] @ v) + side[1]
    if maps[1].encoder is not None:
        found["column features"] = float(u @ of_column) + of_column_effect
    return found


def implicit_terms(member: Member, columns: Positions) -> tuple[Array, float]:
    """Return the contributions of implicit features to factors and intercept of a row with these columns observed."""
    ones, rows = np.ones(columns.size), np.zeros(columns.size, dtype=np.int64)
    mask = sp.csr_array((ones, (rows, columns)), shape=(1, member.shape[1]))
    factors, intercepts = member.implicit_terms(mask)
    return factors[0], float(intercepts[0])


def side_terms(member: Member, place: int, seen: Positions) -> tuple[Array, float]:
    """Return the contributions of side features to a row of the fit; without entries, all but implicit features."""
    if member.maps[0].encoder is None or (seen.size and not member.maps[0].shared):
        return np.zeros(member.factors.rank), 0.0
    factors, intercept = implicit_terms(member, seen)
    u = member.factors.row_factors[place] - factors
    a = float(member.factors.row_intercepts[place]) - intercept
    if seen.size:
        u = u - member.unknowns.row_factors[place]
        a -= float(member.unknowns.row_intercepts[place])
    return u, a


def split_regression(member: Member, cell: Cell) -> tuple[RegressionShare | None, Member]:
    """Return the contribution of the regression of the smaller side, and the fit without it.

    It was added after the fit, so that a row's own minimum concerns the other factors alone.
    """
    k = member.own_rank
    if member.factors.rank == k:
        return None, member
    of_row = member.factors.row_factors[cell.row, k:]
    of_column = member.factors.column_factors[cell.column, k:]
    by_entry = np.zeros(cell.columns.size)
    if of_row.size == member.shape[1]:  # the row's entries, each times its regression weight
        if not np.array_equal(np.flatnonzero(of_row), cell.columns):
            return None, member  # the row was folded in
        by_entry = (of_row * of_column)[cell.columns]
    return RegressionShare(float(of_row @ of_column), by_entry), member.without_regression()


#: Fewest entries for which all problems are solved at once: a shorter row takes milliseconds either way.
MIN_ENTRIES_AT_ONCE = 50
#: Scores, or entries of rows, in memory at once: a row of 1,000 entries in one block of some 100 MB.
BLOCK_ENTRIES = 2**20
#: Most steps, and the change of the score at which they stop; the remaining error is smaller.
MAX_STEPS, SCORE_TOLERANCE = 40, 1e-10


def scores_without_each(solver: RowSolver, cell: Cell, side: tuple[Any, float]) -> Array | None:
    """Return ``x`` of the cell with the row at its own minimum: for all entries, then without each of them.

    None where the row is short, has bounds, no ridge or a sum over unobserved entries, or the steps do not converge.
    """
    member, n = solver.member, cell.columns.size
    shared, intercept = implicit_terms(member, cell.columns)
    centre = np.append(shared + side[0], intercept + side[1])
    problem = solver.row_problem((centre[None, :-1], centre[None, -1]))
    if n < MIN_ENTRIES_AT_ONCE or not problem.free or not solver.is_unbounded(problem):
        return None
    d = problem.free
    V, offsets = member.factors.column_factors, member.factors.column_intercepts
    Q = np.hstack([V[cell.columns], np.ones((n, 1))])[:, :d].astype(np.float64)
    row = _Row(member, cell, Q, problem.ridge)
    target = np.append(V[cell.column], 1.0)[:d].astype(np.float64)
    effects = member.factors.intercept + offsets[cell.column]
    with single_threaded_blas():
        p = row.minimum(centre[:d])
        if p is None:
            return None
        found = row.left_out(p, _centres(member, cell, side)[:, :d], target)
    if found is None:
        return None
    return np.asarray(np.append(p @ target, found) + effects)


class _Row:
    """The entries of a row, likes first, and its ridge."""

    def __init__(self, member: Member, cell: Cell, Q: Array, ridge: ArrayLike) -> None:
        self.order = np.argsort(-cell.labels, kind="stable")
        #: 1 without weights
        self.weights: Any = 1.0 if cell.weights is None else cell.weights[self.order]
        self.n_likes = int(np.count_nonzero(cell.labels > 0))
        self.Q = Q[self.order]
        offsets = member.factors.intercept + member.factors.column_intercepts[cell.columns]
        self.offsets = offsets[self.order].astype(np.float64)
        self.link, self.ridge = member.spec.link, np.asarray(ridge, dtype=np.float64)

    def _by_label(self, function: Callable[[Array, Label], Array], x: Array) -> Array:
        found = np.empty_like(x)
        found[..., : self.n_likes] = function(x[..., : self.n_likes], 1)
        found[..., self.n_likes :] = function(x[..., self.n_likes :], -1)
        return np.asarray(found * self.weights)

    def scores(self, P: Array) -> Array:
        """Return ``x`` at the entries, for each p."""
        return np.asarray(P @ self.Q.T + self.offsets)

    def slopes(self, x: Array) -> Array:
        """Return the first derivative of the loss at each entry."""
        return self._by_label(self.link.first, x)

    def curvature(self, p: Array) -> tuple[Array, Array]:
        """Return H and the weights of the entries in it."""
        weights = np.maximum(self._by_label(self.link.second, self.scores(p)), 0.0)
        bent = self.Q * np.sqrt(weights)[:, None]
        return bent.T @ bent + np.diag(self.ridge), weights

    def minimum(self, centre: Array) -> Array | None:
        """Return the minimiser with all entries, by Newton's method."""
        p: Array = centre

        def value(p: Array) -> float:
            away = p - centre
            loss = self._by_label(self.link.loss, self.scores(p)).sum()
            return float(loss + 0.5 * away @ (self.ridge * away))

        now = value(p)
        for _ in range(MAX_STEPS):
            gradient = self.slopes(self.scores(p)) @ self.Q + self.ridge * (p - centre)
            step = -cho_solve(cho_factor(self.curvature(p)[0]), gradient)
            for _ in range(MAX_STEPS):
                after = value(p + step)
                if after <= now + 1e-12 * abs(now):
                    break
                step = step / 2.0
            else:
                return None
            p, now = p + step, after
            if np.max(np.abs(self.Q @ step)) <= SCORE_TOLERANCE:
                return p
        return None

    def left_out(self, p: Array, centres: Array, target: Array) -> Array | None:
        """Return ``p_e' target`` without each entry e, in the original order of the entries."""
        H, weights = self.curvature(p)
        factor = cho_factor(H)
        solved = cho_solve(factor, self.Q.T).T
        # Positive, as the ridge is.
        left = weights / (1.0 - weights * np.einsum("ed,ed->e", self.Q, solved))
        found = np.empty(self.order.size)
        step = max(1, BLOCK_ENTRIES // self.order.size)
        for start in range(0, self.order.size, step):
            some = np.arange(start, min(start + step, self.order.size))
            # Centres have the original order of the entries.
            own = centres[self.order[some]]
            P = p + (own - centres.mean(axis=0))
            for _ in range(MAX_STEPS):
                slopes = self.slopes(self.scores(P))
                slopes[np.arange(some.size), some] = 0.0
                gradient = slopes @ self.Q + self.ridge * (P - own)
                move = cho_solve(factor, gradient.T).T
                along = np.einsum("ed,ed->e", self.Q[some], move)
                move += (left[some] * along)[:, None] * solved[some]
                P = P - move
                if np.max(np.abs(move @ target)) <= SCORE_TOLERANCE:
                    break
            else:
                return None
            found[self.order[some]] = P @ target
        return found


def _centres(member: Member, cell: Cell, side: tuple[Any, float]) -> Array:
    """Return the centre of the row, of its factors and its intercept, without each entry.

    Implicit features are sums over the observed columns with one weight. They are computed without the first entry;
    without another one, the first replaces it.
    """
    n = cell.columns.size
    activity = member.maps[0].activity
    own = np.append(side[0], side[1])
    if activity is None:
        return np.broadcast_to(own, (n, own.size))
    first, intercept = implicit_terms(member, cell.columns[1:])
    ones = np.ones(n - 1), (np.zeros(n - 1, dtype=np.int64), cell.columns[1:])
    mask = sp.csr_array(ones, shape=(1, member.shape[1]))
    weight = float(activity.block(mask, 0.0).matrix.data[0])
    places = member.shape[0] + cell.columns
    unknowns = member.unknowns
    parts = np.column_stack([unknowns.row_factors[places], unknowns.row_intercepts[places]])
    parts = parts.astype(np.float64)
    return np.asarray(own + np.append(first, intercept) + weight * (parts[0] - parts))


@dataclass(frozen=True)
class RhoOfRow:
    """The probability that an entry of one row is unobserved, for matrices whose rows are all copies of it."""

    rho: Missingness
    row: int

    def rho_at(self, rows: Integers, columns: Integers) -> Array:
        """Return the probabilities at the columns, for any rows."""
        shape = np.broadcast_shapes(np.shape(rows), np.shape(columns))
        places = np.broadcast_to(columns, shape).ravel()
        return np.asarray(self.rho.rho_at(np.full(places.size, self.row), places)).reshape(shape)


def explain(
    fitted: Fitted, row: object, column: object, seen: Observations, *, n_jobs: int | None = None
) -> Explanation:
    """Return the contributions to the score of one cell; see :meth:`tribit.BinaryMatrixCompletion.explain`.

    Parameters
    ----------
    fitted : Fitted
        The result of a fit.
    row, column : id or int
        The cell: ids where the fit has ids, else positions.
    seen : Observations
        The entries of the fit and of rows that were folded in, matched by id where the fit has ids.
    n_jobs : int or None, default=None
        Threads.
    """
    cell = _cell(fitted, row, column, seen)
    if any(each.spec.uses_unobserved and each.spec.imputed is not None for each in fitted.members):
        raise InvalidInputError(
            "The model was fitted with imputed probabilities, which single entries do not explain: explain a "
            "model fitted without imputed."
        )
    jobs = count_jobs(n_jobs)
    parts: dict[str, float] = {}
    effects, minimum = np.zeros(cell.columns.size), 0.0
    total = sum(each.weight for each in fitted.members)
    for member, risk in zip(fitted.members, _risks_of(fitted, cell.row), strict=True):
        of = total / member.weight
        regression, member = split_regression(member, cell)
        solver = RowSolver(member, risk, jobs)
        side = side_terms(member, cell.row, cell.columns)
        found = score_parts(member, cell, side)
        if regression is not None:
            found["regression of the smaller side"] = regression.total
            effects += regression.by_entry / of
            minimum += regression.total / of
        for name, value in found.items():
            parts[name] = parts.get(name, 0.0) + value / of
        at_once = scores_without_each(solver, cell, side)
        every = np.arange(-1, cell.columns.size)
        x = _solved_without(solver, fitted.axes, cell, side, every) if at_once is None else at_once
        effects += (x[0] - x[1:]) / of
        minimum += x[0] / of
    place = np.array([cell.row]), np.array([cell.column])
    regression_term = float((fitted.scores.factors.at(*place) - fitted.factors.at(*place))[0])
    if regression_term:
        parts["feature regression"] = regression_term
    return _explanation(fitted, cell, parts, effects, minimum + regression_term)


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


def _cell(fitted: Fitted, row: object, column: object, entries: Observations) -> Cell:
    """Return the positions of the cell, of the entries of its row and of those of its column."""
    axes = fitted.axes
    i, j = axes.pairs(row, column)
    if i.size != 1:
        raise InvalidInputError(
            f"explain takes one cell; got {i.size} rows and columns: call it for each."
        )
    rows, columns = axes.places(entries, "the seen entries have", "pass the entries of the fit")
    here = rows == i[0]
    if (lost := first_true(here & (columns < 0))) is not None:
        name = quoted_id(entries.axes.columns.ids, entries.columns[lost])
        raise InvalidInputError(
            f"The row has a seen entry in the column {name}, which the model does not know: pass the "
            "entries of the fit."
        )
    order = np.argsort(columns[here])
    above = np.unique(rows[(columns == j[0]) & (rows >= 0)])
    weights = None if entries.weights is None else entries.weights[here][order]
    own = columns[here][order], entries.labels[here][order]
    return Cell(int(i[0]), int(j[0]), *own, above, weights)


def _risks_of(fitted: Fitted, row: int) -> list[Risk]:
    """Return the risk of the row under each member; of a row outside the model of the mask, that of a new row."""
    known = fitted.fitted_shape or fitted.shape
    # A model of the mask has no rows and columns that were added after the fit.
    here = row < known[0] and fitted.shape[1] == known[1]
    found = []
    for member, risk in zip(fitted.members, fitted.row_risks(), strict=True):
        rho = member.spec.rho
        own = here and member.spec.uses_unobserved and isinstance(rho, Missingness)
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
    step = max(1, BLOCK_ENTRIES // n)
    for start in range(0, left_out.size, step):
        some = left_out[start : start + step]
        rows, at = np.nonzero(np.arange(n) != some[:, None])
        new = Axis("row", some.size)
        entries = Observations.from_checked(
            Checked(
                rows,
                cell.columns[at],
                cell.labels[at],
                Axes(new, axes.columns),
                weights=None if cell.weights is None else cell.weights[at],
            )
        )
        factors, intercepts = solver.member.implicit_terms(mask_of(entries))
        shared = factors + side[0], intercepts + side[1]
        U, a = solver.solve(entries, shared)
        v, c = (side[cell.column] for side in (of.column_factors, of.column_intercepts))
        found.append(U @ v + of.intercept + a + c)
    return np.concatenate(found)
