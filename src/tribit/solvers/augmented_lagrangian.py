"""Augmented Lagrangian: the exact minimum under a bound on every entry, in factor form.

    min F(U V')  subject to  (U, V) in a ball  and  low <= u_i . v_j <= high for every i, j

most often with ``[-alpha, alpha]``. The paper scales all of X to keep alpha; that is no projection, and it stops far
from the minimum. Here each entry has a multiplier y of its own, 0 at first, and adds

    weight / 2  dist(x + y / weight, [low, high])^2  -  y^2 / (2 weight)

to F. :class:`Lagrangian` is the sum. Each round minimises it inside the ball; then y becomes weight times the amount by
which ``x + y / weight`` is outside (Hestenes, 1969; Powell, 1969; for two-sided bounds Rockafellar, 1973). Entries are
formed tile by tile, and only nonzero multipliers are kept, the largest where there are many, so that memory grows with
the observed entries.

:class:`Accelerated` minimises a round by accelerated projected gradient with backtracking and restarts (O'Donoghue and
Candes, 2015, "Adaptive restart for accelerated gradient schemes"). All rows share a step length, and each row divides
it by a scale of its own, its curvature.

With k large enough (at most d1 + d2 columns) the factors represent every X in a max-norm or trace-norm ball, and the
result is the minimum of a convex problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Smooth
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_field, check_positive
from tribit.errors import InvalidInputError, parameter
from tribit.model.constraints import Constraint, Unconstrained
from tribit.model.factors import Factors
from tribit.solvers.base import Solver, StatedProblem, refuse_shared_unknowns
from tribit.solvers.loop import (
    CONVERGED,
    NO_DESCENT,
    OUT_OF_ITERATIONS,
    UNCHANGED,
    Iteration,
    SolverResult,
    Step,
    Stopping,
    run,
)

Array = NDArray[np.floating[Any]]
Pair = tuple[Array, Array]
Projection = Callable[[Array, Array, Array, Array], Pair]

MAX_HALVINGS = 60  #: most steps of a backtracking line search
ROUNDING = 1e-13  #: share of a value that its rounding may be


class Scaled(Protocol):
    """A function with a value, gradients and a curvature for each row."""

    def value(self, factors: Factors) -> float:
        """Return the value."""
        ...

    def gradient(self, factors: Factors) -> tuple[float, Factors]:
        """Return the value and the gradient, laid out as the factors are."""
        ...

    def scales(self, factors: Factors) -> Scales:
        """Return a positive scale for each row of U and of V, and for the intercepts."""
        ...


class Scales(NamedTuple):
    """The curvature of each unknown, roughly; an infinite one leaves the unknown where it is."""

    rows: Array
    columns: Array
    intercept: float = np.inf
    row_intercepts: Array | float = np.inf
    column_intercepts: Array | float = np.inf


class Accelerated:
    """Accelerated projected gradient on all unknowns, each row in its own scale; the value never rises.

    Parameters
    ----------
    target : Scaled
        The function.
    project : callable
        Brings U and V into their set, given the scales of rows and columns.
    start : Factors
        The first point.
    intercept_bound : float
        Largest absolute value of a row or column intercept.
    """

    def __init__(
        self, target: Scaled, project: Projection, start: Factors, intercept_bound: float = np.inf
    ) -> None:
        self.target, self.project, self.intercept_bound = target, project, intercept_bound
        self.length, self.momentum = 1.0, 1.0  # a step's length is relative to the inverse scales
        self.before: Factors | None = None
        self.begin(start)

    def begin(self, factors: Factors) -> None:
        """Begin a round: other multipliers, other scales, no momentum (kept, it makes multipliers swing)."""
        self.scales = self.target.scales(factors)
        self.known: float | None = None
        self.momentum = 1.0

    def advance(self, factors: Factors) -> Step:
        """Make one step: from beyond the last move, or from the point itself where that would raise the value."""
        value = self.target.value(factors) if self.known is None else self.known
        grown = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self.momentum**2))
        reach = (self.momentum - 1.0) / grown
        if self.before is not None and reach > 0.0:
            base = factors.plus(reach, factors.minus(self.before))
            trial = self._step(base)
            if trial is not None and trial[1] <= value:
                moved, self.known, decrease = trial
                # The move turns back on the momentum: start gathering it anew.
                turned = self._inner(base.minus(moved), moved.minus(factors)) > 0.0
                self.before, self.momentum = factors, 1.0 if turned else grown
                return Step(factors, value, decrease, moved, certain=True)
            self.momentum, grown = 1.0, 0.5 * (1.0 + np.sqrt(5.0))
        trial = self._step(factors)
        if trial is None or trial[1] > value:
            return Step(factors, value, 0.0, factors, stuck=True)
        moved, self.known, decrease = trial
        self.before, self.momentum = factors, grown
        return Step(factors, value, decrease, moved, certain=True)

    def _step(self, base: Factors) -> tuple[Factors, float, float] | None:
        """Return where a step from ``base`` leads, the value there and the decrease; None where every step fails."""
        value, gradient = self.target.gradient(base)
        scales = self.scales
        self.length *= 1.2  # steps may also grow
        for _ in range(MAX_HALVINGS):
            U = base.row_factors - gradient.row_factors * (self.length / scales.rows)[:, None]
            V = (
                base.column_factors
                - gradient.column_factors * (self.length / scales.columns)[:, None]
            )
            U, V = self.project(U, V, scales.rows, scales.columns)
            moved = Factors(
                U,
                V,
                base.intercept - self.length / scales.intercept * gradient.intercept,
                base.row_intercepts - self.length / scales.row_intercepts * gradient.row_intercepts,
                base.column_intercepts
                - self.length / scales.column_intercepts * gradient.column_intercepts,
            ).clip_intercepts(self.intercept_bound)
            move = moved.minus(base)
            model = self._inner(move, move) / self.length
            linear = gradient.dot(move)
            reached = self.target.value(moved)
            # Written so that a NaN is a failure.
            if reached <= value + linear + 0.5 * model + ROUNDING * abs(value):
                return moved, reached, model
            self.length *= 0.5
        self.length = 1.0  # halved again and again, round by round, it would become 0
        return None

    def _inner(self, a: Factors, b: Factors) -> float:
        """Return the inner product in which each row counts by its scale."""
        scales = self.scales
        total = float(
            np.einsum("ij,ij,i->", a.row_factors, b.row_factors, scales.rows)
            + np.einsum("ij,ij,i->", a.column_factors, b.column_factors, scales.columns)
        )
        if np.isfinite(scales.intercept):
            total += a.intercept * b.intercept * scales.intercept
        if np.all(np.isfinite(scales.row_intercepts)):
            total += float(np.sum(a.row_intercepts * b.row_intercepts * scales.row_intercepts))
            total += float(
                np.sum(a.column_intercepts * b.column_intercepts * scales.column_intercepts)
            )
        return total


Interval = tuple[float, float]
Places = tuple[NDArray[np.int64], Array]  # positions in row-major order, and what is there

TILE_CELLS = (
    1 << 16
)  #: entries of X that are looked at together: a tile of rows, which stays in cache
#: Largest number of multipliers: so many for each observed entry, and so many more. Entries without a multiplier still
#: have a penalty.
MULTIPLIERS_PER_ENTRY, MIN_MULTIPLIERS = 4, 1 << 14
#: The penalty's weight, in curvatures of an entry: the first, the largest, and how it grows. Faster growth ends at
#: poorer minima; a smaller limit leaves entries outside where losses are steep, as those of rare likes.
FIRST_WEIGHT, MAX_WEIGHT, WEIGHT_GROWTH = 4.0, 4096.0, 1.25


def tile_rows(shape: tuple[int, int]) -> list[slice]:
    """Return the rows of each tile of a matrix."""
    step = max(1, TILE_CELLS // shape[1])
    return [slice(i, min(i + step, shape[0])) for i in range(0, shape[0], step)]


class Lagrangian:
    """F plus the penalties of all entries; only the multipliers are stored."""

    def __init__(self, objective: Smooth, interval: Interval, curvature: float) -> None:
        self.objective, self.interval = objective, interval
        self.low, self.high = interval
        self.bounded = bool(np.isfinite(interval).any())
        self.weight, self.curvature = FIRST_WEIGHT * curvature, curvature
        self.intercept_bound = objective.intercept_bound
        if self.bounded:
            objective.observations.require_local(
                f"{parameter('alpha')} without a ball that implies it needs a multiplier for each entry at the bound, "
                f"and these are not kept on a cluster: pass a max-norm {parameter('radius')} of at most "
                f"{parameter('alpha')}, or fit on one machine, without a client."
            )
        self.room = MIN_MULTIPLIERS + MULTIPLIERS_PER_ENTRY * len(objective.observations)
        self._keep(np.zeros(0, dtype=np.int64), np.zeros(0))
        self.counts = objective.entry_counts()
        # Penalties come with the first update: from the start they lead to poorer minima.
        self.penalised = False

    def value(self, factors: Factors) -> float:
        """Return F plus the penalties."""
        total = self.objective.value(factors)
        if not self.penalised:
            return total
        return total + self._penalty(sum(tile.squares() for tile in self._tiles(factors)))

    def gradient(self, factors: Factors) -> tuple[float, Factors]:
        """Return F plus the penalties, and the gradient."""
        total, gradient = self.objective.gradient(factors)
        if not self.penalised:
            return total, gradient
        U, V, squares = factors.row_factors, factors.column_factors, 0.0
        in_U, in_V = gradient.row_factors.copy(), np.zeros(V.shape)
        for tile in self._tiles(factors):
            in_U[tile.rows] += self.weight * (tile.over @ V)
            in_V += tile.over.T @ U[tile.rows]
            squares += tile.squares()
        in_V = gradient.column_factors + self.weight * in_V
        return total + self._penalty(squares), replace(
            gradient, row_factors=in_U, column_factors=in_V
        )

    def scales(self, factors: Factors) -> Scales:
        """Return the curvature of each row and column for factors of unit size, at least that of one entry."""
        rows, columns = (self.curvature * count for count in self.counts)
        intercepts = self._intercept_scales(rows, columns)
        if self.penalised:
            for tile in self._tiles(factors):
                outside = tile.over != 0.0
                rows[tile.rows] += self.weight * np.count_nonzero(outside, axis=1)
                columns += self.weight * np.count_nonzero(outside, axis=0)
        rows, columns = (np.maximum(each, self.curvature) for each in (rows, columns))
        return Scales(rows, columns, *intercepts)

    def _intercept_scales(self, rows: Array, columns: Array) -> tuple[Any, ...]:
        """Return the scales of the intercepts, infinite where they are no unknowns; penalties do not depend on them."""
        if not self.objective.intercept:
            return ()
        ridge = self.objective.intercept_ridge.l2
        one = (
            np.inf
            if np.isfinite(self.intercept_bound)
            else max(float(np.sum(rows)), self.curvature)
        )
        least = self.curvature
        return one, np.maximum(rows, least) + ridge, np.maximum(columns, least) + ridge

    def update(self, factors: Factors) -> float:
        """Update the multipliers, and return the distance of the entries from the targets of the old and new ones."""
        if not self.bounded:
            return 0.0
        width, missed, lowest, held = self.objective.shape[1], 0.0, 0.0, 0
        kept: list[Places] = []
        for tile in self._tiles(factors):
            over = tile.over.reshape(-1)
            if self.penalised:
                cells = np.flatnonzero(np.abs(over) > lowest)
                kept.append((cells + tile.rows.start * width, over[cells]))
                held += cells.size
                if held > self.room:
                    kept, lowest = _largest(kept, self.room)
                    held = kept[0][0].size
            over[tile.kept] -= tile.shifts
            missed += tile.squares()
        if kept:
            keys, shifts = (np.concatenate(parts) for parts in zip(*kept, strict=True))
            self._keep(keys, self.weight * shifts)
        self.penalised = True
        return float(np.sqrt(missed))

    def grow(self) -> None:
        """Make the penalty heavier."""
        self.weight = min(self.weight * WEIGHT_GROWTH, self.curvature * MAX_WEIGHT)

    def _keep(self, keys: NDArray[np.int64], multipliers: Array) -> None:
        """Keep multipliers at positions in row-major order, increasing, and find where each tile's begin."""
        self.keys, self.multipliers = keys, multipliers
        self.square = float(np.vdot(multipliers, multipliers))
        height, width = self.objective.shape
        self.blocks = tile_rows((height, width))
        ends = [block.start * width for block in self.blocks] + [height * width]
        self.offsets = np.searchsorted(keys, ends)

    def _tiles(self, factors: Factors) -> Iterator[_Tile]:
        """Form ``x + y / weight`` tile by tile, and yield by how much it is outside the interval."""
        U, V = factors.row_factors, factors.column_factors
        for rows, (a, b) in zip(self.blocks, pairwise(self.offsets), strict=True):
            z = U[rows] @ V.T
            kept = self.keys[a:b] - rows.start * V.shape[0]
            shifts = self.multipliers[a:b] / self.weight
            z.reshape(-1)[kept] += shifts
            z -= np.clip(z, self.low, self.high)
            yield _Tile(rows, z, kept, shifts)

    def _penalty(self, squares: float) -> float:
        """Return the sum of penalties, 0 where every entry is where its multiplier wants it."""
        return 0.5 * (self.weight * squares - self.square / self.weight)


@dataclass(frozen=True)
class _Tile:
    """A few rows of X: by how much entries are outside the interval, and which have multipliers."""

    rows: slice
    over: Array  #: how far ``x + y / weight`` is outside: negative below, 0 inside
    kept: NDArray[np.int64]  #: positions with multipliers
    shifts: Array  #: y / weight there

    def squares(self) -> float:
        """Return the sum of squared violations."""
        return float(np.vdot(self.over, self.over))


def _largest(kept: list[Places], room: int) -> tuple[list[Places], float]:
    """Keep half of ``room``, the entries furthest outside, and return how far the next one is."""
    keys, over = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    far, last = np.abs(over), over.size - room // 2 - 1
    lowest = float(np.partition(far, last)[last])
    return [(keys[far > lowest], over[far > lowest])], lowest


#: Tolerance of a step in the last round as a share of ``tol``, the one before the first round, and its factor from a
#: round to the next: for early multipliers, which are poor, an exact minimum would be wasted.
STEP_TOLERANCE, FIRST_STEP_TOLERANCE, TOLERANCE_FACTOR = 1e-4, 1e-3, 0.3
ROUND_STEPS = 20  #: most steps in a round: better multipliers are worth more than a better minimum for poor ones
#: Rounds without a single step that falls, one after another, which end the solver: so many take the penalty from its
#: first weight to the heaviest. On tables of 9 x 7 with a clog-log link up to 4 were followed by further steps.
MAX_STUCK_ROUNDS = 32
MAX_VIOLATION_SHARE = 0.9  #: share of the violation that a round may leave before the penalty grows
#: Room that the last scaling leaves, as a share of a bound, so that rounding cannot cross it.
SCALING_MARGIN = 1e-12
#: Share of the interval by which an entry may miss a bound of 0, across which no scaling moves it.
ZERO_BOUND_SLACK = 1e-3


@dataclass(frozen=True)
class AugmentedLagrangian(Solver):
    """Accelerated projected gradient inside a norm ball, with a multiplier for each entry out of bounds.

    Parameters
    ----------
    curvature : float or None
        A typical second derivative of one entry's loss: the first weight of the penalty. Only speed depends on it. None
        for that of the objective's link at 0.
    interval : (float, float)
        Bounds of every entry, besides those of an ``EntryBound``; 0 must be inside. A bound that is 0 is kept
        to the share ``tol`` of the interval, at most a thousandth, others exactly.

    Examples
    --------
    >>> from tribit import AugmentedLagrangian, BinaryMatrixCompletion
    >>> options = {"rank": 2, "radius": 2.0, "alpha": 1.0, "l2": 0.0, "intercept": False}
    >>> options.update(search=False, solver=AugmentedLagrangian(), random_state=0)
    >>> model = BinaryMatrixCompletion((1, 0, 0), **options)
    >>> model.fit([[1, -1], [-1, 1]]).complete("score").round(2)  # no entry exceeds alpha
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    curvature: float | None = None
    interval: Interval = (-np.inf, np.inf)
    max_iter = 3000
    searchable = False  #: each step visits every entry, and there are hundreds of them

    def __post_init__(self) -> None:
        if self.curvature is not None:
            check_field(self, "curvature", check_positive)
        low, high = self.interval
        if not (low <= 0.0 <= high and low < high):
            raise InvalidInputError(
                f"The interval of entries must hold 0 and more than one number; got {low!r} to {high!r}."
            )

    def refusal(self, model: StatedProblem, constraints: list[Constraint]) -> str | None:
        """Return why it cannot keep the problem: balls without a projection by scales, or two balls."""
        balls = _balls(constraints)
        for ball in balls:
            if ball.project_scaled is None:
                return f"The augmented_lagrangian solver cannot keep {type(ball).__name__}: use MaxNorm or TraceNorm."
        if len(balls) > 1:
            return f"The augmented_lagrangian solver keeps one ball; got {len(balls)}."
        return refuse_shared_unknowns("augmented_lagrangian", model)

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
        below, and F at the factors shrunk to the interval one from above: the solver stops when they differ by at most
        ``tol`` times the size of the objective, and a step's first-order decrease is a ten-thousandth of that.
        """
        self.check_supported(objective, constraints)
        ball, interval, width = _divide(constraints, self.interval)
        with single_threaded_blas():
            curvature = objective.curvature if self.curvature is None else self.curvature
            lagrangian = Lagrangian(objective, interval, curvature)
            # Without a ball nothing but the penalties may hold the first round.
            lagrangian.penalised = lagrangian.bounded and not ball.restricts
            slack = min(ZERO_BOUND_SLACK, stopping.tol) * width
            assert ball.project_scaled is not None
            return _rounds(lagrangian, constraints, ball.project_scaled, start, stopping, slack)


def _rounds(
    lagrangian: Lagrangian,
    constraints: list[Constraint],
    project: Projection,
    start: Factors,
    stopping: Stopping,
    slack: float,
) -> SolverResult:
    """Minimise and update multipliers by turns until bounds from below and above meet; return the best inside."""
    objective, bounded = lagrangian.objective, lagrangian.bounded
    # A search in float32 finds its way, and the numbers that decide and that are reported are float64.
    exact = objective.in_float64()
    search = Accelerated(lagrangian, project, start, lagrangian.intercept_bound)
    best, missed, value = _inside(start, constraints, lagrangian.interval, exact)
    factors, worth = start, (max(missed, slack), value)
    history: list[Iteration] = []
    step_tol, before, stuck = FIRST_STEP_TOLERANCE if bounded else 0.0, np.inf, 0
    while True:
        step_tol = max(step_tol * TOLERANCE_FACTOR, STEP_TOLERANCE * stopping.tol)
        most = min(len(history) + ROUND_STEPS, stopping.max_iter) if bounded else stopping.max_iter
        search.begin(factors)
        limits = replace(stopping, max_iter=most, tol=step_tol)
        result = run(search.advance, factors, lagrangian.value, limits, objective.size, history)
        still = result.stop_reason == NO_DESCENT and result.factors is factors
        stuck = stuck + 1 if still else 0
        factors, history = result.factors, result.history
        inside, missed, value = _inside(factors, constraints, lagrangian.interval, exact)
        # Among factors that miss a bound by more than the slack the nearest are the best.
        if (max(missed, slack), value) <= worth:
            best, worth = inside, (max(missed, slack), value)
        violation = lagrangian.update(factors)
        met = value - result.objective <= stopping.tol * objective.size and missed <= slack
        done = (
            result.converged and (met or not bounded) and step_tol <= STEP_TOLERANCE * stopping.tol
        )
        goes_on = result.stop_reason in (CONVERGED, UNCHANGED, OUT_OF_ITERATIONS, NO_DESCENT)
        ended = stuck == MAX_STUCK_ROUNDS or len(history) >= stopping.max_iter
        if done or not bounded or not goes_on or ended:
            reason = result.stop_reason
            if (
                bounded and goes_on and stuck < MAX_STUCK_ROUNDS
            ):  # the end of a round is not yet the end
                reason = CONVERGED if done else OUT_OF_ITERATIONS
            return SolverResult(best, worth[1], len(history), done, reason, history)
        if violation > MAX_VIOLATION_SHARE * before:
            lagrangian.grow()
        before = violation


def _balls(constraints: list[Constraint]) -> list[Constraint]:
    """Return the constraints that no multipliers of entries keep."""
    return [c for c in constraints if c.restricts and not c.entrywise]


def _divide(
    constraints: list[Constraint], interval: Interval
) -> tuple[Constraint, Interval, float]:
    """Return the one ball, the interval of entries, infinite where the ball implies it, and how wide both leave it."""
    ball = next(iter(_balls(constraints)), Unconstrained())
    alpha = min((c.entry_bound for c in constraints if c.entrywise), default=np.inf)
    low, high = max(interval[0], -alpha), min(interval[1], alpha)
    reach = ball.entry_bound
    width = min(reach, high) - max(-reach, low)
    implied = (-np.inf if -reach >= low else low, np.inf if reach <= high else high)
    return ball, implied, width if np.isfinite(width) else 1.0


def _inside(
    factors: Factors, constraints: list[Constraint], interval: Interval, objective: Smooth
) -> tuple[Factors, float, float]:
    """Shrink rows or columns with an entry outside, whichever costs less, into every bound.

    Also return by how much an entry is outside still, which can be only where a bound is 0, and the objective.
    """
    sides, missed = _shrink_to_interval(factors, interval)
    found = []
    for U, V in sides:
        norms = (c.gauge(U, V) for c in _balls(constraints))
        scale = float(np.sqrt((1.0 - SCALING_MARGIN) / max(1.0, *norms, 1.0)))
        found.append(replace(factors, row_factors=U * scale, column_factors=V * scale))
    values = [objective.value(each) for each in found]
    cheapest = int(np.argmin(values))
    return found[cheapest], missed, values[cheapest]


def _shrink_to_interval(factors: Factors, interval: Interval) -> tuple[list[Pair], float]:
    """Return factors with long rows of U shrunk, and with long rows of V, and how far a bound of 0 is missed."""
    U, V, (low, high), missed = factors.row_factors, factors.column_factors, interval, 0.0
    if not np.isfinite(interval).any():
        return [(U, V)], 0.0
    rows, columns = np.ones(U.shape[0]), np.ones(V.shape[0])
    for here in tile_rows((U.shape[0], V.shape[0])):
        X = U[here] @ V.T
        for bound, signed in ((-low, -X), (high, X)):
            if bound == 0.0:
                missed = max(missed, float(np.max(signed)))
            elif np.isfinite(bound):
                allowed = bound / np.maximum(signed, bound)
                rows[here] = np.minimum(rows[here], np.min(allowed, axis=1))
                columns = np.minimum(columns, np.min(allowed, axis=0))
    return [(U * rows[:, None], V), (U, V * columns[:, None])], missed
