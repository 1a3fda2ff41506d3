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
from tribit.data.weights import weights_or_ones
from tribit.errors import InvalidInputError
from tribit.explain.explanation import EntryEffect, Explanation
from tribit.folding.row_solver import RowSolver
from tribit.model.features import mask_of
from tribit.model.fitted import Fitted, Member
from tribit.model.links import Label
from tribit.model.risks import Integers, Missingness, Risk

__all__ = ["explain", "scores_without_each"]

Array = NDArray[np.floating[Any]]


class RowEntries(NamedTuple):
    """A row and its entries, in the order of their columns."""

    row: int
    columns: Positions
    labels: NDArray[np.int8]
    weights: NDArray[np.float64] | None = None


class RegressionShare(NamedTuple):
    """Contributions of the regression of the smaller side, which is part of the factors, to ``x`` at some columns.

    They are those of all entries, (n_columns,), and of each, (n_entries, n_columns).
    """

    total: Array
    by_entry: Array


def score_parts(
    member: Member, entries: RowEntries, column: int, rows_of_column: Positions
) -> dict[str, float]:
    """Return the terms of ``x`` of one fit at one column, by name; they sum to ``x``."""
    regression, member = split_regression(member, entries, np.array([column]))
    side = side_terms(member, entries.row, entries.columns)
    factors, maps = member.factors, member.maps
    turned = member.transposed
    of_column, of_column_effect = side_terms(turned, column, rows_of_column)
    u, a = factors.row_factors[entries.row], float(factors.row_intercepts[entries.row])
    v = factors.column_factors[column] - of_column
    seen, seen_effect = implicit_terms(member, entries.columns)
    own = u - seen - side[0]
    found = {
        "overall level": float(factors.intercept),
        "column effect": float(factors.column_intercepts[column]) - of_column_effect,
        "row effect": a - seen_effect - side[1],
        "labels of the row": float(own @ v),
    }
    if maps[0].activity is not None:
        found["implicit feedback"] = float(seen @ v) + seen_effect
    if maps[0].encoder is not None:
        found["row features"] = float(side[0] @ v) + side[1]
    if maps[1].encoder is not None:
        found["column features"] = float(u @ of_column) + of_column_effect
    if regression is not None:
        found["regression of the smaller side"] = float(regression.total[0])
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


def split_regression(
    member: Member, entries: RowEntries, at: Positions
) -> tuple[RegressionShare | None, Member]:
    """Return the contribution of the regression of the smaller side, and the fit without it.

    It was added after the fit, so that a row's own minimum concerns the other factors alone.
    """
    k = member.own_rank
    if member.factors.rank == k:
        return None, member
    of_row = member.factors.row_factors[entries.row, k:]
    of_columns = member.factors.column_factors[at, k:].T
    by_entry = np.zeros((entries.columns.size, at.size))
    if of_row.size == member.shape[1]:  # the row's entries, each times its regression weight
        if not np.array_equal(np.flatnonzero(of_row), entries.columns):
            return None, member  # the row was folded in
        by_entry = of_row[entries.columns, None] * of_columns[entries.columns]
    return RegressionShare(of_row @ of_columns, by_entry), member.without_regression()


#: Fewest entries for which all problems are solved at once: a shorter row takes milliseconds either way.
MIN_ENTRIES_AT_ONCE = 50
#: Scores, or entries of rows, in memory at once: a row of 1,000 entries in one block of some 100 MB.
BLOCK_ENTRIES = 2**20
#: Most steps, and the change of the score at which they stop; the remaining error is smaller.
MAX_STEPS, SCORE_TOLERANCE = 40, 1e-10


def scores_without_each(
    solver: RowSolver, entries: RowEntries, at: Positions, side: tuple[Any, float]
) -> Array | None:
    """Return ``x`` at some columns with the row at its own minimum: for all entries, then without each of them.

    The shape is (1 + n_entries, n_columns).

    None where the row is short, has bounds, no ridge or a sum over unobserved entries, or the steps do not converge.
    """
    member, n = solver.member, entries.columns.size
    shared, intercept = implicit_terms(member, entries.columns)
    centre = np.append(shared + side[0], intercept + side[1])
    # With all entries of the row, then without each of them.
    weights = weights_or_ones(entries.weights, n)
    totals = weights.sum() - np.append(0.0, weights)
    problem = solver.row_problem((centre[None, :-1], centre[None, -1]), totals)
    if n < MIN_ENTRIES_AT_ONCE or not problem.free or not solver.is_unbounded(problem):
        return None
    d = problem.free
    V, offsets = member.factors.column_factors, member.factors.column_intercepts
    Q = np.hstack([V[entries.columns], np.ones((n, 1))])[:, :d].astype(np.float64)
    ridges = np.broadcast_to(problem.ridge, (1 + n, d))
    row = _Row(member, entries, Q, ridges[0])
    targets = np.hstack([V[at], np.ones((at.size, 1))])[:, :d].T.astype(np.float64)
    effects = member.factors.intercept + offsets[at]
    with single_threaded_blas():
        p = row.minimum(centre[:d])
        if p is None:
            return None
        found = row.left_out(p, _centres(member, entries, side)[:, :d], targets, ridges[1:])
    if found is None:
        return None
    return np.asarray(np.vstack([p @ targets, found]) + effects)


class _Row:
    """The entries of a row, likes first, and its ridge."""

    def __init__(self, member: Member, entries: RowEntries, Q: Array, ridge: ArrayLike) -> None:
        self.order = np.argsort(-entries.labels, kind="stable")
        #: 1 without weights
        self.weights: Any = 1.0 if entries.weights is None else entries.weights[self.order]
        self.n_likes = int(np.count_nonzero(entries.labels > 0))
        self.Q = Q[self.order]
        offsets = member.factors.intercept + member.factors.column_intercepts[entries.columns]
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

    def left_out(self, p: Array, centres: Array, targets: Array, ridges: Array) -> Array | None:
        """Return ``p_e' targets`` without each entry e, in the original order of the entries, with its own ridge."""
        H, weights = self.curvature(p)
        factor = cho_factor(H)
        solved = cho_solve(factor, self.Q.T).T
        # Positive, as the ridge is.
        left = weights / (1.0 - weights * np.einsum("ed,ed->e", self.Q, solved))
        found = np.empty((self.order.size, targets.shape[1]))
        step = max(1, BLOCK_ENTRIES // self.order.size)
        for start in range(0, self.order.size, step):
            some = np.arange(start, min(start + step, self.order.size))
            # Centres have the original order of the entries.
            own, ridge = centres[self.order[some]], ridges[self.order[some]]
            P = p + (own - centres.mean(axis=0))
            for _ in range(MAX_STEPS):
                slopes = self.slopes(self.scores(P))
                slopes[np.arange(some.size), some] = 0.0
                gradient = slopes @ self.Q + ridge * (P - own)
                move = cho_solve(factor, gradient.T).T
                along = np.einsum("ed,ed->e", self.Q[some], move)
                move += (left[some] * along)[:, None] * solved[some]
                P = P - move
                if np.max(np.abs(move @ targets)) <= SCORE_TOLERANCE:
                    break
            else:
                return None
            found[self.order[some]] = P @ targets
        return found


def _centres(member: Member, entries: RowEntries, side: tuple[Any, float]) -> Array:
    """Return the centre of the row, of its factors and its intercept, without each entry.

    Implicit features are sums over the observed columns with one weight. They are computed without the first entry;
    without another one, the first replaces it.
    """
    n = entries.columns.size
    activity = member.maps[0].activity
    own = np.append(side[0], side[1])
    if activity is None:
        return np.broadcast_to(own, (n, own.size))
    first, intercept = implicit_terms(member, entries.columns[1:])
    ones = np.ones(n - 1), (np.zeros(n - 1, dtype=np.int64), entries.columns[1:])
    mask = sp.csr_array(ones, shape=(1, member.shape[1]))
    weight = float(activity.block(mask, 0.0).matrix.data[0])
    places = member.shape[0] + entries.columns
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

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Observations
    >>> from tribit.explain import explain
    >>> seen = Observations.from_matrix([[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1]])
    >>> model = BinaryMatrixCompletion(search=False, rank=1, random_state=0).fit(seen)
    >>> len(explain(model.fitted_, 0, 2, seen).entries)
    3
    """
    entries, place, rows_of_column = _entries_of_cell(fitted, row, column, seen)
    effects, minimum = entry_effects(fitted, entries, np.array([place]), n_jobs=n_jobs)
    parts: dict[str, float] = {}
    total = sum(each.weight for each in fitted.members)
    for member in fitted.members:
        for name, value in score_parts(member, entries, place, rows_of_column).items():
            parts[name] = parts.get(name, 0.0) + value * member.weight / total
    cell = np.array([entries.row]), np.array([place])
    regression_term = float((fitted.scores.factors.at(*cell) - fitted.factors.at(*cell))[0])
    if regression_term:
        parts["feature regression"] = regression_term
    at_minimum = float(minimum[0]) + regression_term
    return _explanation(fitted, entries, place, parts, effects[:, 0], at_minimum)


def entry_effects(
    fitted: Fitted, entries: RowEntries, at: Positions, *, n_jobs: int | None = None
) -> tuple[Array, Array]:
    """Return the effect of each entry of a row on ``x`` at some columns, and ``x`` with the row at its own minimum.

    Parameters
    ----------
    fitted : Fitted
        The result of a fit.
    entries : RowEntries
        The row and its entries.
    at : array of shape (n_columns,)
        Positions of columns, which are explained together at the cost of one.
    n_jobs : int or None, default=None
        Threads.

    Returns
    -------
    effects : array of shape (n_entries, n_columns)
    minimum : array of shape (n_columns,)
    """
    if any(each.spec.uses_unobserved and each.spec.imputed is not None for each in fitted.members):
        raise InvalidInputError(
            "The model was fitted with imputed probabilities, which single entries do not explain: explain a "
            "model fitted without imputed."
        )
    jobs = count_jobs(n_jobs)
    n = entries.columns.size
    effects, minimum = np.zeros((n, at.size)), np.zeros(at.size)
    total = sum(each.weight for each in fitted.members)
    for member, risk in zip(fitted.members, _risks_of(fitted, entries.row), strict=True):
        of = total / member.weight
        regression, member = split_regression(member, entries, at)
        solver = RowSolver(member, risk, jobs)
        side = side_terms(member, entries.row, entries.columns)
        if regression is not None:
            effects += regression.by_entry / of
            minimum += regression.total / of
        x = scores_without_each(solver, entries, at, side)
        if x is None:
            x = _solved_without(solver, fitted.axes, entries, at, side)
        effects += (x[0] - x[1:]) / of
        minimum += x[0] / of
    return effects, minimum


def _explanation(
    fitted: Fitted,
    entries: RowEntries,
    column: int,
    parts: dict[str, float],
    effects: Array,
    minimum: float,
) -> Explanation:
    scores = fitted.scores
    x = float(scores.x(np.array([entries.row]), np.array([column]))[0])
    probabilities = scores.probability(np.append(x - effects, x))
    axes = scores.axes
    order = np.argsort(-np.abs(effects), kind="stable")
    names = axes.columns.names(entries.columns[order]).tolist()
    found = zip(
        names,
        entries.labels[order].tolist(),
        effects[order].tolist(),
        (probabilities[-1] - probabilities[:-1])[order].tolist(),
        strict=True,
    )
    return Explanation(
        row=axes.rows.names(np.array([entries.row])).tolist()[0],
        column=axes.columns.names(np.array([column])).tolist()[0],
        probability=float(probabilities[-1]),
        x=x,
        parts=parts,
        entries=tuple(EntryEffect(*each) for each in found),
        residual=x - minimum,
        meaning=fitted.meaning,
    )


def _entries_of_cell(
    fitted: Fitted, row: object, column: object, entries: Observations
) -> tuple[RowEntries, int, Positions]:
    """Return a row with its entries, the position of a column, and the rows with an entry of it."""
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
    return RowEntries(int(i[0]), *own, weights), int(j[0]), above


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
    solver: RowSolver, axes: Axes, entries: RowEntries, at: Positions, side: tuple[Array, float]
) -> Array:
    """Return the same as :func:`scores_without_each` by solving for the row without each entry."""
    of = solver.member.factors
    n = entries.columns.size
    if not n:
        return of.at(np.full(at.size, entries.row), at)[None]
    found, left_out = [], np.arange(-1, n)  # -1 for none
    step = max(1, BLOCK_ENTRIES // n)
    for start in range(0, left_out.size, step):
        some = left_out[start : start + step]
        rows, kept = np.nonzero(np.arange(n) != some[:, None])
        new = Axis("row", some.size)
        rest = Observations.from_checked(
            Checked(
                rows,
                entries.columns[kept],
                entries.labels[kept],
                Axes(new, axes.columns),
                weights=None if entries.weights is None else entries.weights[kept],
            )
        )
        factors, intercepts = solver.member.implicit_terms(mask_of(rest))
        U, a = solver.solve(rest, (factors + side[0], intercepts + side[1]))
        V, c = of.column_factors[at], of.column_intercepts[at]
        found.append(U @ V.T + of.intercept + a[:, None] + c)
    return np.concatenate(found)
