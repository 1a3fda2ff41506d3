"""A row without one of its entries each, at the minimum of its own objective, at the cost of a few passes over them.

Without bounds and unobserved entries the row is the minimiser of

    F(p) = sum over its entries e of l(q_e' p + o_e, y_e) + (p - c)' R (p - c) / 2,

with the curvature ``H = sum_e w_e q_e q_e' + R`` there. Without the entry e the sum lacks a term, and the centre c is
another, as implicit features are of the columns that were seen. Each of these problems is solved by steps

    - (H - w_e q_e q_e')^-1 (gradient without e),

the inverse by one factorisation of H and the formula of Sherman and Morrison (1950), and the gradients of all of them
at once. The curvature stays that at the common minimum, from which no solution is far: the error falls by a constant
factor in each step, of the size of what one entry changes in H. The plain method has a curvature for each entry: on a
row of 673 entries and 41 unknowns it takes nine times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from tribit.backends.threads import single_threaded_blas
from tribit.explain.parts import Cell, by_activity
from tribit.folding.row_solver import RowSolver
from tribit.model.fitted import Member

__all__ = ["without_each"]

Array = NDArray[np.float64]
#: Entries from which this pays. A shorter row takes milliseconds either way, and one entry is much of it.
LONG = 50
#: Scores of the entries of some problems that are held at once.
BLOCK = 2**20
#: Most steps, and the change of the score at which a step is the last; the error left is smaller than that change.
STEPS, NEAR = 40, 1e-10


def without_each(solver: RowSolver, cell: Cell, side: tuple[Any, float]) -> Array | None:
    """Return ``x`` of the cell with the row at its own minimum: of all its entries, and without each of them.

    None where the row is short, has bounds, no ridge or a sum over unobserved entries, or where the steps do not end.
    """
    member, n = solver.member, cell.columns.size
    shared, intercept = by_activity(member, cell.columns)
    centre = np.append(shared + side[0], intercept + side[1])
    problem = solver.row_problem((centre[None, :-1], centre[None, -1]))
    if n < LONG or not problem.free or not solver.is_unbounded(problem):
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

    def __init__(self, member: Member, cell: Cell, Q: Array, ridge: Any) -> None:
        self.order = np.argsort(-cell.labels, kind="stable")
        self.n_likes = int(np.count_nonzero(cell.labels > 0))
        self.Q = Q[self.order]
        offsets = member.factors.intercept + member.factors.column_intercepts[cell.columns]
        self.offsets = offsets[self.order].astype(np.float64)
        self.link, self.ridge = member.spec.link, np.asarray(ridge, dtype=np.float64)

    def _by_label(self, function: Any, x: Array) -> Array:
        found = np.empty_like(x)
        found[..., : self.n_likes] = function(x[..., : self.n_likes], 1)
        found[..., self.n_likes :] = function(x[..., self.n_likes :], -1)
        return found

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
        for _ in range(STEPS):
            gradient = self.slopes(self.scores(p)) @ self.Q + self.ridge * (p - centre)
            step = -cho_solve(cho_factor(self.curvature(p)[0]), gradient)
            for _ in range(STEPS):
                after = value(p + step)
                if after <= now + 1e-12 * abs(now):
                    break
                step = step / 2.0
            else:
                return None
            p, now = p + step, after
            if np.max(np.abs(self.Q @ step)) <= NEAR:
                return p
        return None

    def left_out(self, p: Array, centres: Array, target: Array) -> Array | None:
        """Return ``p_e' target`` without each entry e, in the order that these came in."""
        H, weights = self.curvature(p)
        factor = cho_factor(H)
        solved = cho_solve(factor, self.Q.T).T
        # A ridge keeps the rest of the curvature above 0.
        left = weights / (1.0 - weights * np.einsum("ed,ed->e", self.Q, solved))
        found = np.empty(self.order.size)
        step = max(1, BLOCK // self.order.size)
        for start in range(0, self.order.size, step):
            some = np.arange(start, min(start + step, self.order.size))
            # The centres are in the order that the entries came in.
            own = centres[self.order[some]]
            P = p + (own - centres.mean(axis=0))
            for _ in range(STEPS):
                slopes = self.slopes(self.scores(P))
                slopes[np.arange(some.size), some] = 0.0
                gradient = slopes @ self.Q + self.ridge * (P - own)
                move = cho_solve(factor, gradient.T).T
                along = np.einsum("ed,ed->e", self.Q[some], move)
                move += (left[some] * along)[:, None] * solved[some]
                P = P - move
                if np.max(np.abs(move @ target)) <= NEAR:
                    break
            else:
                return None
            found[self.order[some]] = P @ target
        return found


def _centres(member: Member, cell: Cell, side: tuple[Any, float]) -> Array:
    """Return the centre of the row, of its factors and its intercept, without each entry.

    Implicit features are sums over the columns that were seen, with one weight: without another entry the sum has the
    part of the one in the place of the other.
    """
    n = cell.columns.size
    activity = member.maps[0].activity
    own = np.append(side[0], side[1])
    if activity is None:
        return np.broadcast_to(own, (n, own.size))
    first, intercept = by_activity(member, cell.columns[1:])
    ones = np.ones(n - 1), (np.zeros(n - 1, dtype=np.int64), cell.columns[1:])
    mask = sp.csr_array(ones, shape=(1, member.shape[1]))
    weight = float(activity.block(mask, 0.0).matrix.data[0])
    places = member.shape[0] + cell.columns
    unknowns = member.unknowns
    parts = np.column_stack([unknowns.row_factors[places], unknowns.row_intercepts[places]])
    parts = parts.astype(np.float64)
    return np.asarray(own + np.append(first, intercept) + weight * (parts[0] - parts))
