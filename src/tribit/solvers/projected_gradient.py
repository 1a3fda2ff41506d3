"""The paper's algorithm: a gradient step on both factors, rows projected to the ball, X scaled to alpha.

U_1 = U - tau dF/dU,  V_1 = V - tau dF/dV;  project (U_1, V_1);  if max|X| > alpha scale both factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Objective
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_field, check_positive, check_switch
from tribit.model.constraints import START, Constraint
from tribit.model.factors import Factors
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian
from tribit.solvers.base import Solver, StatedProblem, refuse_shared_unknowns
from tribit.solvers.loop import (
    ABOVE_MINIMUM,
    CALLED_OFF,
    DIVERGED,
    INTERRUPTED,
    OUT_OF_TIME,
    UNCHANGED,
    Iteration,
    SolverResult,
    Step,
    Stopping,
    run,
)

Array = NDArray[np.floating[Any]]

#: Relative change of X below which the rank stops growing.
RANK_TOLERANCE = 0.01
#: Reasons to stop that end a fit whatever the rank.
ENDS = (CALLED_OFF, DIVERGED, INTERRUPTED, OUT_OF_TIME, UNCHANGED)
MAX_HALVINGS = 120  #: most steps of a backtracking line search
#: Square of a move, as a share of the factors' own, below which the move is rounding.
ROUNDING_MOVE = 1e-24
MIN_CURVATURE = (
    1e-300  #: least curvature that is divided by: an unknown on which nothing depends has none
)
#: Armijo constant of the backtracking line search.
ARMIJO = 0.1
#: Steps of the exact solver that judges where a scaling has ended: where it is far above the minimum, a few suffice.
PROBE_STEPS = 200


@dataclass(frozen=True)
class ProjectedGradient(Solver):
    """Projected gradient descent on both factors at once (the paper's solver).

    Parameters
    ----------
    step : float or None
        The fixed step ``tau``; None finds one by backtracking, anew at every iteration.
    grow : bool
        The paper's rank: start from one column and double their number, keeping those there are and appending small
        random ones, until X stops changing, whatever the rank of the start. ``max_iter`` is for each number of columns;
        there are at most as many as rows or columns of the matrix, whichever are more.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, ProjectedGradient
    >>> options = {"rank": 1, "radius": 2.0, "intercept": False, "search": False, "random_state": 0}
    >>> model = BinaryMatrixCompletion((1, 0, 0), solver=ProjectedGradient(), **options)
    >>> model.fit([[1, -1], [-1, 1]]).converged_
    True
    """

    step: float | None = None
    grow: bool = False
    max_iter = 2000

    def __post_init__(self) -> None:
        if self.step is not None:
            check_field(self, "step", check_positive)
        check_field(self, "grow", check_switch)

    def refusal(self, model: StatedProblem, constraints: list[Constraint]) -> str | None:  # noqa: ARG002
        """Return why it cannot keep the problem: no constraint is a reason, as each has a projection."""
        return refuse_shared_unknowns("projected_gradient", model)

    def minimise(
        self,
        objective: Objective,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,
    ) -> SolverResult:
        """Return a stationary point of F over the constraints, from ``start``.

        A set that has no projection (a bound on entries that the ball does not imply) is kept by scaling, and the
        iteration can rest at points that are not stationary: :class:`~tribit.solvers.AugmentedLagrangian`
        tries from there, and if it gains more than ``tol`` the result is not converged.
        """
        self.check_supported(objective, constraints)
        with single_threaded_blas():
            result = self._minimise(objective, constraints, start, stopping, generator)
        exact = all(constraint.nearest for constraint in constraints)
        if exact or not result.converged:
            return result
        judge = AugmentedLagrangian()
        if judge.refusal(objective, constraints) is not None:
            return result
        limits = Stopping(PROBE_STEPS, stopping.tol, stopping.max_time)
        lower = judge.minimise(objective, constraints, result.factors, limits, generator)
        if lower.stop_reason == INTERRUPTED:
            return replace(result, converged=False, stop_reason=INTERRUPTED)
        if lower.objective >= result.objective - stopping.tol * objective.size:
            return result
        return replace(result, converged=False, stop_reason=ABOVE_MINIMUM)

    def _minimise(
        self,
        objective: Objective,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,
    ) -> SolverResult:
        """Iterate with all columns, or with more and more of them."""
        if not self.grow:
            return self._descend(objective, constraints, start, stopping)
        # One column of a pair inside a bound on entries need not be inside it.
        first = _project(objective, constraints, start.truncate(1))
        result = self._descend(objective, constraints, first, stopping)
        most = max(objective.shape)
        while result.stop_reason not in ENDS and result.factors.rank < most:
            before = result.factors
            extra = min(before.rank, most - before.rank)
            wider = _project(objective, constraints, _append(before, extra, generator))
            limits = replace(stopping, max_iter=stopping.max_iter + result.n_iter)
            result = self._descend(objective, constraints, wider, limits, result.history)
            if _distance(result.factors, before) <= RANK_TOLERANCE * _norm(before):
                break
        return result

    def _descend(
        self,
        objective: Objective,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        earlier: Sequence[Iteration] = (),
    ) -> SolverResult:
        fixed = self.step
        # The last accepted step, doubled, is the first guess of the next search.
        step = fixed or 1.0
        known: float | None = (
            None  # the objective of the accepted trial, which the next iteration starts from
        )
        # Scaling X to keep a bound on entries is no projection: there only the length of a step measures convergence.
        exact = all(constraint.nearest for constraint in constraints)

        def scaled_decrease(factors: Factors, gradient: Factors) -> float:
            """Return the first-order decrease of a step that is as long in each unknown as its curvature asks for.

            One unknown of large curvature makes every step short; this one measures the possible gain of the others.
            """
            if not exact:
                return 0.0
            moved = _project(objective, constraints, _scaled_step(objective, factors, gradient))
            change = factors.minus(moved)
            pairs = (
                (gradient.row_factors, change.row_factors),
                (gradient.column_factors, change.column_factors),
                (gradient.row_intercepts, change.row_intercepts + change.intercept),
                (gradient.column_intercepts, change.column_intercepts),
            )
            return sum(float(np.vdot(slope, move)) for slope, move in pairs)

        def advance(factors: Factors) -> Step:
            nonlocal step, known
            value, gradient = objective.gradient(factors, value=known is None)
            value = value if known is None else known
            if fixed is not None:
                moved = _project(objective, constraints, _step(factors, gradient, fixed))
                decrease = _squared_distance(moved, factors) / fixed
                return Step(
                    factors, value, max(decrease, scaled_decrease(factors, gradient)), moved
                )
            step *= 2.0
            for halving in range(MAX_HALVINGS):
                moved = _project(objective, constraints, _step(factors, gradient, step))
                decrease = _squared_distance(moved, factors) / step
                known = objective.value(moved)
                # Written so that a NaN is a failure, as is a step too short to change the objective.
                if known < value - ARMIJO * decrease:
                    return Step(
                        factors, value, max(decrease, scaled_decrease(factors, gradient)), moved
                    )
                if halving == 0 and decrease * step <= ROUNDING_MOVE * _squared_size(factors):
                    return Step(factors, value, 0.0, factors)  # nothing moves: a stationary point
                step *= 0.5
            return Step(factors, value, 0.0, factors, stuck=True)

        return run(advance, start, objective.value, stopping, objective.size, earlier)


def _step(factors: Factors, gradient: Factors, step: float) -> Factors:
    """Move against the gradient. The one intercept follows by centring: its own step would be far shorter."""
    return factors.plus(-step, replace(gradient, intercept=0.0))


def _scaled_step(objective: Objective, factors: Factors, gradient: Factors) -> Factors:
    """Move each unknown against the gradient by its inverse curvature; the one intercept follows by centring."""
    scales = objective.scales(factors)

    def over(part: Array, scale: Array) -> Array:
        return np.asarray(part / np.maximum(scale, MIN_CURVATURE))

    return factors.plus(
        -1.0,
        Factors(
            over(gradient.row_factors, scales.row_factors),
            over(gradient.column_factors, scales.column_factors),
            0.0,
            over(gradient.row_intercepts, scales.row_intercepts),
            over(gradient.column_intercepts, scales.column_intercepts),
        ),
    )


def _project(objective: Objective, constraints: list[Constraint], factors: Factors) -> Factors:
    """Bring the factors inside each constraint in turn, and the intercepts where they belong."""
    U, V = factors.row_factors, factors.column_factors
    for constraint in constraints:
        U, V = constraint.project_knowing(U, V, objective.backend.largest)
    return objective.normalise_intercepts(replace(factors, row_factors=U, column_factors=V))


def _squared_distance(a: Factors, b: Factors) -> float:
    d = a.minus(b)
    rows, columns = d.row_intercepts.size, d.column_intercepts.size
    # Centring hid this much of the move of row and column intercepts in the one number.
    shared = d.intercept**2 * rows * columns / (rows + columns)
    return shared + sum(float(np.vdot(part, part)) for part in d.arrays)


def _squared_size(factors: Factors) -> float:
    U, V = factors.row_factors, factors.column_factors
    return float(np.vdot(U, U) + np.vdot(V, V))


def _append(factors: Factors, extra: int, generator: np.random.Generator) -> Factors:
    """Append small random columns, a tenth of the size of those there are; a row of zeros stays one."""
    sides = []
    for side in (factors.row_factors, factors.column_factors):
        scale = START * float(np.sqrt(np.mean(side**2))) or START
        noise = scale * generator.standard_normal((side.shape[0], extra))
        sides.append(np.hstack([side, noise * np.any(side, axis=1, keepdims=True)]))
    return replace(factors, row_factors=sides[0], column_factors=sides[1])


def _norm(factors: Factors) -> float:
    """Return ``|U V'|_F`` from the k x k products alone."""
    U, V = factors.row_factors, factors.column_factors
    return float(np.sqrt(max(np.sum((U.T @ U) * (V.T @ V)), 0.0)))


def _distance(a: Factors, b: Factors) -> float:
    """Return ``|U_a V_a' - U_b V_b'|_F`` without forming either product."""
    both = Factors.of(
        np.hstack([a.row_factors, b.row_factors]), np.hstack([a.column_factors, -b.column_factors])
    )
    return _norm(both)
