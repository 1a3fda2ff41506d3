"""Augmented Lagrangian: the exact minimum under a bound on every entry, in factor form.

    min F(U V')  subject to  (U, V) in a ball  and  low <= u_i . v_j <= high for every i, j

most often with ``[-alpha, alpha]``. Scaling all of X to keep alpha, as the paper does, is no projection, and stops far
from the minimum. Here each entry has a multiplier y of its own, 0 at first, and adds

    weight / 2  dist(x + y / weight, [low, high])^2

to F; the sum is minimised inside the ball, y becomes weight times what x + y / weight is outside by, and so on
(Hestenes, 1969; Powell, 1969; for two-sided bounds Rockafellar, 1973). :class:`tribit.solvers.lagrangian.Lagrangian`
is the sum; between updates :class:`tribit.solvers.accelerated.Accelerated` moves both factors.

With k large enough (at most d1 + d2 columns) the factors can stand for every X in a max-norm or trace-norm ball, and
the result is the minimum of a convex problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tribit.backends.smooth import Smooth
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_field, check_positive
from tribit.errors import InvalidInputError
from tribit.model.constraints import Constraint, Unconstrained
from tribit.model.factors import Factors
from tribit.solvers.accelerated import Accelerated, Pair, Projection
from tribit.solvers.capabilities import Solver, Stated, shared_unknowns
from tribit.solvers.lagrangian import Interval, Lagrangian, tile_rows
from tribit.solvers.loop import (
    CONVERGED,
    NO_DESCENT,
    OUT_OF_ITERATIONS,
    UNCHANGED,
    Iteration,
    SolverResult,
    Stopping,
    run,
)

#: Tolerance of a step in the last round as a share of ``tol``, the one before the first round, and its factor from a
#: round to the next: for early multipliers, which are poor, an exact minimum would be wasted.
STEP, LOOSE, TIGHTEN = 1e-4, 1e-3, 0.3
ROUND = 20  #: most steps in a round: better multipliers are worth more than a better minimum for poor ones
#: Rounds without a single step that falls, one after another, which end the solver: so many take the penalty from its
#: first weight to the heaviest. On tables of 9 x 7 with a clog-log link up to 4 were followed by further steps.
STUCK = 32
ENOUGH = 0.9  #: share of the violation that a round may leave before the penalty grows
#: Room that the last scaling leaves, as a share of a bound, so that rounding cannot cross it.
INSIDE = 1e-12
#: Share of the interval by which an entry may miss a bound of 0, across which no scaling moves it.
SLACK = 1e-3


@dataclass(frozen=True)
class AugmentedLagrangian(Solver):
    """Accelerated projected gradient inside a norm ball, with a multiplier for each entry out of bounds.

    Parameters
    ----------
    curvature : float or None
        A typical second derivative of one entry's loss: the first weight of the penalty. Only speed depends on it. None
        for that of the objective's link at 0.
    interval : (float, float)
        Where every entry must be, besides what an ``EntryBound`` asks for; 0 must be in it. A bound that is 0 is kept
        to the share ``tol`` of the interval, at most a thousandth, others exactly.
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

    def refusal(self, model: Stated, constraints: list[Constraint]) -> str | None:
        """Return why it cannot keep the problem: balls without a projection by scales, or two balls."""
        balls = _balls(constraints)
        for ball in balls:
            if ball.project_scaled is None:
                return f"The augmented_lagrangian solver cannot keep {type(ball).__name__}: use MaxNorm or TraceNorm."
        if len(balls) > 1:
            return f"The augmented_lagrangian solver keeps one ball; got {len(balls)}."
        return shared_unknowns("augmented_lagrangian", model)

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
        self.check_kept(objective, constraints)
        ball, interval, width = _divide(constraints, self.interval)
        with single_threaded_blas():
            curvature = objective.curvature if self.curvature is None else self.curvature
            lagrangian = Lagrangian(objective, interval, curvature)
            # Without a ball nothing but the penalties may hold the first round.
            lagrangian.penalised = lagrangian.bounded and not ball.restricts
            slack = min(SLACK, stopping.tol) * width
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
    step_tol, before, stuck = LOOSE if bounded else 0.0, np.inf, 0
    while True:
        step_tol = max(step_tol * TIGHTEN, STEP * stopping.tol)
        most = min(len(history) + ROUND, stopping.max_iter) if bounded else stopping.max_iter
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
        done = result.converged and (met or not bounded) and step_tol <= STEP * stopping.tol
        goes_on = result.stop_reason in (CONVERGED, UNCHANGED, OUT_OF_ITERATIONS, NO_DESCENT)
        ended = stuck == STUCK or len(history) >= stopping.max_iter
        if done or not bounded or not goes_on or ended:
            reason = result.stop_reason
            if bounded and goes_on and stuck < STUCK:  # the end of a round is not yet the end
                reason = CONVERGED if done else OUT_OF_ITERATIONS
            return SolverResult(best, worth[1], len(history), done, reason, history)
        if violation > ENOUGH * before:
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
    sides, missed = _shrunk(factors, interval)
    found = []
    for U, V in sides:
        norms = (c.gauge(U, V) for c in _balls(constraints))
        scale = float(np.sqrt((1.0 - INSIDE) / max(1.0, *norms, 1.0)))
        found.append(replace(factors, row_factors=U * scale, column_factors=V * scale))
    values = [objective.value(each) for each in found]
    cheapest = int(np.argmin(values))
    return found[cheapest], missed, values[cheapest]


def _shrunk(factors: Factors, interval: Interval) -> tuple[list[Pair], float]:
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
