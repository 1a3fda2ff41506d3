"""Augmented Lagrangian: the exact minimum under a bound on every entry, in factor form.

    min F(U V')  subject to  (U, V) in a ball  and  |u_i . v_j| <= alpha for every i, j

Scaling all of X to keep alpha, as the paper does, is no projection, and stops far from the minimum. Here each
entry that passed alpha has a multiplier y of its own, until it is well inside again, and adds

    weight / 2  dist(x + y / weight, [-alpha, alpha])^2

to F; the sum is minimised inside the ball, y becomes weight times what x + y / weight exceeds alpha by, and so on
(Hestenes, 1969; Powell, 1969; for two-sided bounds Rockafellar, 1973). The other entries are looked at tile by tile
after each round, and need no memory. Between updates :class:`tribit.solvers.accelerated.Accelerated` moves both
factors.

With k large enough (at most d1 + d2 columns) the factors can stand for every X in a max-norm or trace-norm ball, and
the result is the minimum of a convex problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tribit.constraints import (
    Constraint,
    EntryBound,
    MaxNorm,
    TraceNorm,
    Unconstrained,
    check_positive,
)
from tribit.errors import InvalidInputError
from tribit.factors import Factors
from tribit.kernels.common import single_threaded_blas
from tribit.solvers.accelerated import Accelerated, Pair, Smooth, counts_of, projection_of
from tribit.solvers.loop import (
    CONVERGED,
    NO_DESCENT,
    OUT_OF_ITERATIONS,
    Iteration,
    SolverResult,
    Stopping,
    run,
)

Array = NDArray[np.floating[Any]]

CELLS = 1 << 18  #: entries of X that are looked at together: a tile of rows, which stays in cache
#: How many entries of a tile one matrix product forms in the time of one entry on its own.
FASTER = 16
#: A step may gain this share of ``tol`` at the end of the last round, and more at first: early multipliers are poor.
STEP, LOOSE, TIGHTEN = 1e-3, 1e-3, 0.3
ROUND = 20  #: most steps in a round: better multipliers are worth more than a better minimum for poor ones
#: The penalty's weight, in curvatures of an entry: the first and the largest. It grows by GROWTH when a round leaves
#: more than the share ENOUGH of the violation. A heavy weight makes for short steps that look like convergence.
FIRST, HEAVIEST, GROWTH, ENOUGH = 4.0, 32.0, 1.5, 0.5
#: An entry without multiplier stays while it is beyond this share of alpha.
NEAR = 0.75
#: The last scaling leaves so much room that rounding cannot cross a bound.
INSIDE = 1e-12


@dataclass(frozen=True)
class AugmentedLagrangian:
    """Accelerated projected gradient inside a norm ball, with a multiplier for each entry that passes alpha.

    Parameters
    ----------
    curvature : float
        A typical second derivative of one entry's loss: the first weight of the penalty. Only speed depends on it.
    """

    curvature: float = 1.0
    max_iter = 3000  #: steps, where the user names no number

    def __post_init__(self) -> None:
        check_positive("curvature", self.curvature)

    def minimise(
        self,
        objective: Smooth,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> SolverResult:
        """Return ``argmin F`` inside every constraint, from ``start``; every entry of the result is allowed.

        The value of the sum that a round minimises is, where the problem is convex, a bound of the minimum from
        below, and F at the factors shrunk to alpha one from above: the solver stops when they differ by at most
        ``tol`` times the size of the objective, and a step's first-order decrease is a thousandth of that.
        """
        ball, alpha = _divide(constraints)
        if getattr(objective, "intercept", False):
            raise InvalidInputError(
                "The bounded solver has no place for intercepts: build the objective with intercept=False."
            )
        with single_threaded_blas():
            lagrangian = _Lagrangian(objective, alpha, self.curvature)
            return _rounds(lagrangian, constraints, ball, start, stopping)


def _rounds(
    lagrangian: _Lagrangian,
    constraints: list[Constraint],
    ball: Constraint,
    start: Factors,
    stopping: Stopping,
) -> SolverResult:
    """Minimise and update multipliers by turns until bounds from below and above meet; return the best inside."""
    objective, bounded = lagrangian.objective, np.isfinite(lagrangian.alpha)
    search = Accelerated(lagrangian, projection_of(ball), start)
    factors, best = start, _scaled_inside(start, constraints, lagrangian.alpha)
    lowest = objective.value(best)
    history: list[Iteration] = []
    step_tol, before = LOOSE if bounded else 0.0, np.inf
    while True:
        step_tol = max(step_tol * TIGHTEN, STEP * stopping.tol)
        most = min(len(history) + ROUND, stopping.max_iter) if bounded else stopping.max_iter
        search.begin(factors)
        limits = replace(stopping, max_iter=most, tol=step_tol)
        result = run(search.advance, factors, lagrangian.value, limits, objective.size, history)
        factors, history = result.factors, result.history
        inside = _scaled_inside(factors, constraints, lagrangian.alpha)
        value = objective.value(inside)
        if value <= lowest:
            best, lowest = inside, value
        violation = lagrangian.update(factors)
        met = not bounded or value - result.objective <= stopping.tol * objective.size
        done = result.converged and met and step_tol <= STEP * stopping.tol
        goes_on = result.stop_reason in (CONVERGED, OUT_OF_ITERATIONS, NO_DESCENT)
        if done or not bounded or not goes_on or len(history) >= stopping.max_iter:
            reason = result.stop_reason
            if bounded and goes_on:  # the end of a round is not yet the end
                reason = CONVERGED if done else OUT_OF_ITERATIONS
            return SolverResult(best, lowest, len(history), done, reason, history)
        if violation > ENOUGH * before:
            lagrangian.grow()
        before = violation


class _Lagrangian:
    """F plus the penalties of the entries that passed alpha."""

    def __init__(self, objective: Smooth, alpha: float, curvature: float) -> None:
        self.objective, self.alpha = objective, alpha
        self.weight, self.curvature = FIRST * curvature, curvature
        self.keys = np.zeros(0, dtype=np.int64)  # positions in row-major order, increasing
        self.multipliers = np.zeros(0)
        self._arrange()
        self.counts = counts_of(objective)

    def value(self, factors: Factors) -> float:
        """Return F plus the penalties."""
        total = self.objective.value(factors)
        if not self.keys.size:
            return total
        return total + self._penalty(self._over(factors.row_factors, factors.column_factors))

    def gradient(self, factors: Factors) -> tuple[float, Array, Array]:
        """Return F plus the penalties, and the gradients in U and V."""
        total, gradient = self.objective.gradient(factors)
        in_U, in_V = gradient.row_factors, gradient.column_factors
        if not self.keys.size:
            return total, in_U, in_V
        U, V = factors.row_factors, factors.column_factors
        over = self._over(U, V)
        slopes = self._matrix(self.weight * over)
        return total + self._penalty(over), in_U + slopes @ V, in_V + slopes.T @ U

    def scales(self, factors: Factors) -> Pair:
        """Return the curvature of each row and column for factors of unit size, at least that of one entry."""
        rows, columns = (self.curvature * count for count in self.counts)
        if self.keys.size:
            active = self._over(factors.row_factors, factors.column_factors) != 0
            shape = self.objective.shape
            rows = rows + self.weight * np.bincount(self.rows[active], minlength=shape[0])
            columns = columns + self.weight * np.bincount(self.columns[active], minlength=shape[1])
        return np.maximum(rows, self.curvature), np.maximum(columns, self.curvature)

    def update(self, factors: Factors) -> float:
        """Set the multipliers, take in the entries that passed alpha, and return the largest share of alpha missed."""
        if not np.isfinite(self.alpha):
            return 0.0
        U, V = factors.row_factors, factors.column_factors
        over = self._over(U, V)
        x = self._at(U, V)
        # Entries well inside need no penalty; they come back when they pass alpha again.
        kept = (over != 0) | (np.abs(x) > NEAR * self.alpha)
        missed = float(np.sum((over - self.multipliers / self.weight) ** 2))
        self.keys, self.multipliers = self.keys[kept], self.weight * over[kept]
        self._arrange()
        return float(np.sqrt(missed + self._admit(U, V)))

    def grow(self) -> None:
        """Make the penalty heavier."""
        self.weight = min(self.weight * GROWTH, self.curvature * HEAVIEST)

    def _admit(self, U: Array, V: Array) -> float:
        """Keep the entries beyond alpha, found tile by tile; return how far beyond the new ones are."""
        width = V.shape[0]
        found, squares = [self.keys], 0.0
        for rows, here in self.tiles:
            X = np.abs(U[rows] @ V.T).reshape(-1)
            beyond = self.alpha < X
            beyond[self.keys[here] - rows.start * width] = False
            fresh = np.flatnonzero(beyond)
            if fresh.size:
                squares += float(np.sum((X[fresh] - self.alpha) ** 2))
                found.append(fresh + rows.start * width)
        if len(found) > 1:
            keys = np.sort(np.concatenate(found))
            multipliers = np.zeros(keys.size)
            multipliers[np.searchsorted(keys, self.keys)] = self.multipliers
            self.keys, self.multipliers = keys, multipliers
            self._arrange()
        return squares

    def _arrange(self) -> None:
        """Work out the rows and columns of the kept entries."""
        height, width = self.objective.shape
        rows, columns = np.divmod(self.keys, width)
        self.rows, self.columns = rows.astype(np.intp), columns.astype(np.int32)
        self.offsets = np.searchsorted(rows, np.arange(height + 1))
        step = max(1, CELLS // width)
        starts = range(0, height, step)
        tiles = [slice(first, min(first + step, height)) for first in starts]
        self.tiles = [(t, slice(*self.offsets[[t.start, t.stop]].tolist())) for t in tiles]

    def _over(self, U: Array, V: Array) -> Array:
        """Return by how much ``x + y / weight`` exceeds alpha at the kept entries; 0 inside, negative below."""
        z = self._at(U, V) + self.multipliers / self.weight
        return np.asarray(z - np.clip(z, -self.alpha, self.alpha))

    def _penalty(self, over: Array) -> float:
        """Return the sum of penalties, 0 where every entry is where its multiplier wants it."""
        y = self.multipliers
        return 0.5 * (self.weight * float(np.vdot(over, over)) - float(np.vdot(y, y)) / self.weight)

    def _at(self, U: Array, V: Array) -> Array:
        """Return X at the kept entries."""
        width = V.shape[0]
        z = np.zeros(self.keys.size)
        for rows, here in self.tiles:
            count = here.stop - here.start
            # A product of matrices forms an entry so much faster than one forms it alone.
            if count * FASTER > (rows.stop - rows.start) * width:
                cells = self.keys[here] - rows.start * width
                z[here] = (U[rows] @ V.T).reshape(-1)[cells]
            elif count:
                z[here] = np.einsum("ij,ij->i", U[self.rows[here]], V[self.columns[here]])
        return z

    def _matrix(self, values: Array) -> csr_array:
        """Return the kept entries as a sparse matrix, without those that are 0."""
        some = values != 0
        ends = np.concatenate([[0], np.cumsum(some)])[self.offsets]
        return csr_array((values[some], self.columns[some], ends), shape=self.objective.shape)


def _divide(constraints: list[Constraint]) -> tuple[Constraint, float]:
    """Return the one ball and alpha, infinite where the ball implies it."""
    balls: list[Constraint] = [
        c for c in constraints if not isinstance(c, EntryBound | Unconstrained)
    ]
    for ball in balls:
        if not isinstance(ball, MaxNorm | TraceNorm):
            raise InvalidInputError(
                f"The bounded solver cannot keep {type(ball).__name__}: use MaxNorm or TraceNorm."
            )
    if len(balls) > 1:
        raise InvalidInputError(f"The bounded solver keeps one ball; got {len(balls)}.")
    ball = balls[0] if balls else Unconstrained()
    alpha = min((c.alpha for c in constraints if isinstance(c, EntryBound)), default=np.inf)
    # |x_ij| <= |u_i| |v_j| <= radius
    implied = isinstance(ball, MaxNorm | TraceNorm) and ball.radius <= alpha
    return ball, np.inf if implied else alpha


def _scaled_inside(factors: Factors, constraints: list[Constraint], alpha: float) -> Factors:
    """Shrink the rows of U with an entry beyond alpha, then both factors by what rounding asks for."""
    U, V = factors.row_factors, factors.column_factors
    if np.isfinite(alpha):
        step = max(1, CELLS // V.shape[0])
        starts = range(0, U.shape[0], step)
        largest = np.concatenate([np.max(np.abs(U[i : i + step] @ V.T), axis=1) for i in starts])
        U = U * (alpha / np.maximum(largest, alpha))[:, None]
    most = max([1.0] + [constraint.gauge(U, V) for constraint in constraints])
    scale = float(np.sqrt((1.0 - INSIDE) / most))
    return Factors.of(U * scale, V * scale)
