"""Augmented Lagrangian: the exact minimum under a bound on every entry, in factor form.

    min F(U V')  subject to  (U, V) in a ball  and  |u_i . v_j| <= alpha for every i, j

Scaling all of X to keep alpha, as the paper does, is no projection, and stops far from the minimum. Here each
entry has a multiplier y of its own, 0 at first, and adds

    weight / 2  dist(x + y / weight, [-alpha, alpha])^2

to F; the sum is minimised inside the ball, y becomes weight times what x + y / weight exceeds alpha by, and so on
(Hestenes, 1969; Powell, 1969; for two-sided bounds Rockafellar, 1973). Entries are formed tile by tile, and only
multipliers other than 0 are kept, the largest where there are many: memory grows with the observed entries. Between
updates :class:`tribit.solvers.accelerated.Accelerated` moves both factors.

With k large enough (at most d1 + d2 columns) the factors can stand for every X in a max-norm or trace-norm ball, and
the result is the minimum of a convex problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
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
Places = tuple[NDArray[np.int64], Array]  # positions in row-major order, and what is there

CELLS = 1 << 17  #: entries of X that are looked at together: a tile of rows, which stays in cache
#: Most multipliers: SHARE for each observed entry and ROOM more. Entries without one still have a penalty.
SHARE, ROOM = 4, 1 << 14
#: A step may gain this share of ``tol`` at the end of the last round, and more at first: early multipliers are poor.
STEP, LOOSE, TIGHTEN = 1e-3, 1e-3, 0.3
ROUND = 20  #: most steps in a round: better multipliers are worth more than a better minimum for poor ones
#: The penalty's weight, in curvatures of an entry: the first and the largest. It grows by GROWTH when a round leaves
#: more than the share ENOUGH of the violation. A heavy weight makes for short steps that look like convergence.
FIRST, HEAVIEST, GROWTH, ENOUGH = 4.0, 32.0, 1.5, 0.5
#: The last scaling leaves so much room that rounding cannot cross a bound.
INSIDE = 1e-12


@dataclass(frozen=True)
class AugmentedLagrangian:
    """Accelerated projected gradient inside a norm ball, with a multiplier for each entry beyond alpha.

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
    """F plus the penalties of all entries, of which only the multipliers are kept."""

    def __init__(self, objective: Smooth, alpha: float, curvature: float) -> None:
        self.objective, self.alpha = objective, alpha
        self.weight, self.curvature = FIRST * curvature, curvature
        self.room = ROOM + SHARE * len(objective.observations.rows)
        self._keep(np.zeros(0, dtype=np.int64), np.zeros(0))
        self.counts = counts_of(objective)
        # Penalties come with the first update: from the start they lead to poorer minima.
        self.penalised = False

    def value(self, factors: Factors) -> float:
        """Return F plus the penalties."""
        total = self.objective.value(factors)
        if not self.penalised:
            return total
        squares = sum(float(np.vdot(tile.over, tile.over)) for tile in self._tiles(factors))
        return total + self._penalty(squares)

    def gradient(self, factors: Factors) -> tuple[float, Array, Array]:
        """Return F plus the penalties, and the gradients in U and V."""
        total, gradient = self.objective.gradient(factors)
        if not self.penalised:
            return total, gradient.row_factors, gradient.column_factors
        U, V, squares = factors.row_factors, factors.column_factors, 0.0
        in_U, in_V = gradient.row_factors.copy(), gradient.column_factors.copy()
        for tile in self._tiles(factors):
            if tile.cells.size:
                slopes = tile.matrix(V.shape[0], self.weight)
                in_U[tile.rows] += slopes @ V
                in_V += slopes.T @ U[tile.rows]
                squares += float(np.vdot(tile.over, tile.over))
        return total + self._penalty(squares), in_U, in_V

    def scales(self, factors: Factors) -> Pair:
        """Return the curvature of each row and column for factors of unit size, at least that of one entry."""
        rows, columns = (self.curvature * count for count in self.counts)
        if self.penalised:
            width = self.objective.shape[1]
            for tile in self._tiles(factors):
                i, j = np.divmod(tile.cells, width)
                count = tile.rows.stop - tile.rows.start
                rows[tile.rows] += self.weight * np.bincount(i, minlength=count)
                columns += self.weight * np.bincount(j, minlength=width)
        return np.maximum(rows, self.curvature), np.maximum(columns, self.curvature)

    def update(self, factors: Factors) -> float:
        """Set the multipliers, and return by how much alpha was missed where they did not ask for it."""
        if not np.isfinite(self.alpha):
            return 0.0
        width, missed, lowest, held = self.objective.shape[1], 0.0, 0.0, 0
        kept: list[Places] = []
        for tile in self._tiles(factors):
            asked = np.zeros((tile.rows.stop - tile.rows.start) * width)
            asked[tile.kept] = tile.shifts
            asked[tile.cells] -= tile.over
            missed += float(np.vdot(asked, asked))
            if self.penalised:
                far = np.abs(tile.over) > lowest
                kept.append((tile.cells[far] + tile.rows.start * width, tile.over[far]))
                held += kept[-1][0].size
                if held > self.room:
                    kept, lowest = _largest(kept, self.room)
                    held = kept[0][0].size
        if kept:
            keys, over = (np.concatenate(parts) for parts in zip(*kept, strict=True))
            self._keep(keys, self.weight * over)
        self.penalised = True
        return float(np.sqrt(missed))

    def grow(self) -> None:
        """Make the penalty heavier."""
        self.weight = min(self.weight * GROWTH, self.curvature * HEAVIEST)

    def _keep(self, keys: NDArray[np.int64], multipliers: Array) -> None:
        """Keep multipliers at positions in row-major order, increasing, and find where each tile's begin."""
        self.keys, self.multipliers = keys, multipliers
        self.square = float(np.vdot(multipliers, multipliers))
        height, width = self.objective.shape
        self.starts = np.append(np.arange(0, height, max(1, CELLS // width)), height)
        self.offsets = np.searchsorted(keys, self.starts * width)

    def _tiles(self, factors: Factors) -> Iterator[_Tile]:
        """Form X tile by tile, and yield the entries where ``x + y / weight`` is beyond alpha."""
        U, V = factors.row_factors, factors.column_factors
        for (first, end), (a, b) in zip(pairwise(self.starts), pairwise(self.offsets), strict=True):
            z = (U[first:end] @ V.T).reshape(-1)
            kept, shifts = self.keys[a:b] - first * V.shape[0], self.multipliers[a:b] / self.weight
            z[kept] += shifts
            cells = np.flatnonzero(np.abs(z) > self.alpha)
            over = z[cells] - np.copysign(self.alpha, z[cells])
            yield _Tile(slice(int(first), int(end)), cells, over, kept, shifts)

    def _penalty(self, squares: float) -> float:
        """Return the sum of penalties, 0 where every entry is where its multiplier wants it."""
        return 0.5 * (self.weight * squares - self.square / self.weight)


@dataclass(frozen=True)
class _Tile:
    """A few rows of X: the entries beyond alpha, by how much, and the entries with multipliers."""

    rows: slice
    cells: NDArray[np.int64]  #: positions in the tile where ``x + y / weight`` is beyond alpha
    over: Array  #: by how much; negative below
    kept: NDArray[np.int64]  #: positions with multipliers
    shifts: Array  #: y / weight there

    def matrix(self, width: int, weight: float) -> csr_array:
        """Return the slopes of the penalties."""
        count = self.rows.stop - self.rows.start
        ends = np.searchsorted(self.cells, np.arange(count + 1) * width)
        return csr_array((weight * self.over, self.cells % width, ends), shape=(count, width))


def _largest(kept: list[Places], room: int) -> tuple[list[Places], float]:
    """Keep half of ``room``, the entries furthest beyond alpha, and return how far the next one is."""
    keys, over = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    far, last = np.abs(over), over.size - room // 2 - 1
    lowest = float(np.partition(far, last)[last])
    return [(keys[far > lowest], over[far > lowest])], lowest


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
    most = max([1.0] + [c.gauge(U, V) for c in constraints if not isinstance(c, EntryBound)])
    scale = float(np.sqrt((1.0 - INSIDE) / most))
    return Factors.of(U * scale, V * scale)
