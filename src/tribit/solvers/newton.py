"""Alternating Newton's method: rows of U, then rows of V, each inside its own ball.

With V fixed the objective is a sum over the rows of U of smooth problems, convex for a log-concave link. Each row
moves to the minimiser of a quadratic model *inside the ball*. Where an upper bound of the curvature is tight, the model
uses it, and the objective cannot rise. Otherwise the model uses the curvature itself with a backtracking line search,
and each row's own objective falls. Between sweeps the factors are extrapolated along their last move, as long as that
lowers the objective too. No step length has to be tuned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tribit.backends.balls import RowProblem
from tribit.backends.base import Backend
from tribit.backends.objective import Objective
from tribit.backends.rows import RowState
from tribit.backends.threads import single_threaded_blas
from tribit.errors import parameter
from tribit.model.constraints import Constraint, clip_rows
from tribit.model.factors import Factors
from tribit.solvers.base import Solver, StatedProblem, refuse_shared_unknowns
from tribit.solvers.loop import SolverResult, Step, Stopping, run

#: The sums over the rows of a factor, their penalty and bounds, and the warm start of the next half-sweep.
Side: TypeAlias = tuple[Backend, RowProblem, RowState]
#: Moved factors, the promised gain, and the rows' total before the move.
Moved = tuple[Factors, float, float]

#: Extrapolation beyond a sweep, in lengths of its move: at first, at most, and its growth after each success. A failure
#: halves it and costs half a sweep.
REACH, REACH_LIMIT, REACH_GROWTH = 0.5, 2.0, 1.2


@dataclass(frozen=True)
class Newton(Solver):
    """Alternating Newton's method with ball-constrained rows (the default solver).

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, Newton
    >>> model = BinaryMatrixCompletion(search=False, rank=1, solver=Newton(), random_state=0)
    >>> model.fit([[1, -1], [-1, 1]]).converged_
    True
    """

    max_iter = 100  #: sweeps
    any_arrays = True
    min_rank = 1  #: intercepts alone are sooner found by lbfgs

    def refusal(self, model: StatedProblem, constraints: list[Constraint]) -> str | None:
        """Return why it cannot keep the problem: a set that the balls of single rows do not imply."""
        radius = min((c.row_radius for c in constraints), default=np.inf)
        for constraint in constraints:
            if constraint.inner_radius >= radius:
                continue
            if constraint.inner_radius > 0.0:
                return (
                    f"The newton solver cannot keep {constraint} with {parameter('radius')} = {radius:g}: pass a "
                    f"max-norm {parameter('radius')} of at most {constraint.inner_radius:g}, which implies it, or "
                    f"{parameter('solver', 'augmented_lagrangian')}."
                )
            return (
                f"The newton solver moves one row at a time and cannot keep {type(constraint).__name__}, which "
                f"ties all rows together: use {parameter('solver', 'augmented_lagrangian')}, or a max-norm "
                f"{parameter('radius')}."
            )
        return refuse_shared_unknowns("newton", model)

    def minimise(
        self,
        objective: Objective,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> SolverResult:
        """Return ``argmin F(U, V, a, c, b)`` over ``|u_i|^2, |v_j|^2 <= radius``, from ``start``."""
        self.check_supported(objective, constraints)
        norm = float(np.sqrt(min((c.row_radius for c in constraints), default=np.inf)))
        problem = RowProblem(
            start.rank,
            objective.intercept,
            objective.ridge.l2,
            objective.intercept_ridge.l2,
            norm,
            objective.intercept_bound,
        )
        backends = objective.backend, objective.backend.transposed
        rows, columns = (
            (backend, replace(problem, relative_l2=each), RowState(backend.shape[0]))
            for backend, each in zip(backends, objective.penalty.relative, strict=True)
        )
        before: Factors | None = None
        reach, lowest = REACH, np.inf

        def move(side: Side, factors: Factors, *, value: bool) -> Moved:
            backend, problem, state = side
            P, Q = objective.product(factors)
            half = backend.half_sweep(P, Q, problem, state, value=value)
            k = problem.k
            intercepts = half.P[:, k] if problem.intercept else factors.row_intercepts
            moved = replace(factors, row_factors=half.P[:, :k], row_intercepts=intercepts)
            return moved, half.gain, half.value

        def first_half(factors: Factors) -> tuple[Factors, Factors, float, float]:
            others = objective.penalty.of_columns(factors)
            moved, gain, value = move(rows, factors, value=True)
            return factors, moved, gain, value + others

        def sweep(factors: Factors) -> Step:
            nonlocal before, reach, lowest
            if before is None:
                origin, moved, gain, value = first_half(factors)
            else:
                further = _beyond(factors, before, reach, norm)
                origin, moved, gain, value = first_half(objective.normalise_intercepts(further))
                if value <= lowest:
                    reach = min(reach * REACH_GROWTH, REACH_LIMIT)
                else:
                    reach *= 0.5
                    origin, moved, gain, value = first_half(factors)
            before, lowest = factors, value
            flipped, more, _ = move(columns, moved.transposed, value=False)
            return Step(
                origin, value, gain + more, objective.normalise_intercepts(flipped.transposed)
            )

        with single_threaded_blas():
            return run(sweep, start, objective.value, stopping, objective.size)


def _beyond(factors: Factors, before: Factors, reach: float, norm: float) -> Factors:
    """Return ``factors + reach (factors - before)``, the rows cut back to their balls."""
    moved = factors.plus(reach, factors.minus(before))
    if not np.isfinite(norm):
        return moved
    return replace(
        moved,
        row_factors=clip_rows(moved.row_factors, norm),
        column_factors=clip_rows(moved.column_factors, norm),
    )
