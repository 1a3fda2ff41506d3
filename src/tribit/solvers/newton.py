"""Alternating Newton's method: rows of U, then rows of V, each inside its own ball.

With V fixed the objective is a sum over the rows of U of smooth problems, convex for a log-concave link. Each row
moves to the minimiser of a quadratic model *inside the ball*. The model's curvature is an upper bound while that
is tight (then the objective cannot rise), else the curvature itself with a search along the way (then each
row's own objective falls). Between sweeps the factors run on in the direction they moved, as long as that lowers the
objective too. There is no step to tune.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends import Kernel, Panel
from tribit.backends.objective import Objective
from tribit.backends.threads import single_threaded_blas
from tribit.errors import InvalidInputError, parameter
from tribit.model.constraints import Constraint, EntryBound, MaxNorm, Unconstrained, clip_rows
from tribit.model.factors import Factors
from tribit.solvers.loop import SolverResult, Step, Stopping, run
from tribit.solvers.rows import minimise_in_balls

Array = NDArray[np.floating[Any]]

#: A row's step is accepted when it gains this share of what its gradient promises (Armijo).
ENOUGH = 1e-4
HALVINGS = 12
#: Mean curvature, as a share of its bound, above which the bound serves as the curvature.
TIGHT = 0.3
#: How far the factors run on beyond a sweep, in lengths of its move: at first, at most, and the growth after
#: each success. A failure halves it and costs half a sweep.
REACH, REACH_LIMIT, REACH_GROWTH = 0.5, 2.0, 1.2


@dataclass(frozen=True)
class Newton:
    """Alternating Newton's method with ball-constrained rows (the default solver)."""

    max_iter = 100  #: sweeps, where the user names no number

    def minimise(
        self,
        objective: Objective,
        constraints: list[Constraint],
        start: Factors,
        stopping: Stopping,
        generator: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> SolverResult:
        """Return ``argmin F(U, V, a, c, b)`` over ``|u_i|^2, |v_j|^2 <= radius``, from ``start``."""
        norm = _row_norm(constraints)
        rows = _Side(objective, objective.kernel, norm)
        columns = _Side(objective, objective.kernel.transposed, norm)
        before: Factors | None = None
        reach, lowest = REACH, np.inf

        def first_half(factors: Factors) -> tuple[Factors, Factors, float, float]:
            others = objective.ridge.value(factors.column_factors)
            others += objective.intercept_ridge.value(factors.column_intercepts)
            moved, gain, value = rows.move(factors, value=True)
            return factors, moved, gain, value + others

        def sweep(factors: Factors) -> Step:
            nonlocal before, reach, lowest
            if before is None:
                origin, moved, gain, value = first_half(factors)
            else:
                further = _beyond(factors, before, reach, norm)
                origin, moved, gain, value = first_half(objective.settle_intercepts(further))
                if value <= lowest:
                    reach = min(reach * REACH_GROWTH, REACH_LIMIT)
                else:
                    reach *= 0.5
                    origin, moved, gain, value = first_half(factors)
            before, lowest = factors, value
            flipped, more, _ = columns.move(moved.transposed, value=False)
            return Step(origin, value, gain + more, objective.settle_intercepts(flipped.transposed))

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


def _row_norm(constraints: list[Constraint]) -> float:
    """Return the radius of each row's ball, or say why this solver cannot keep a constraint."""
    radius = min((c.radius for c in constraints if isinstance(c, MaxNorm)), default=np.inf)
    for constraint in constraints:
        if isinstance(constraint, EntryBound):
            # |x_ij| <= |u_i| |v_j| <= radius: the ball already keeps every entry inside.
            if radius <= constraint.alpha:
                continue
            raise InvalidInputError(
                f"The newton solver cannot keep |X| <= {parameter('alpha')} = {constraint.alpha:g} with "
                f"{parameter('radius')} = {radius:g}: pass a {parameter('radius')} of at most {parameter('alpha')}, "
                f"which implies it, or {parameter('solver', 'projected_gradient')}."
            )
        if not isinstance(constraint, MaxNorm | Unconstrained):
            raise InvalidInputError(
                f"The newton solver moves one row at a time and cannot keep {type(constraint).__name__}, which "
                f"ties all rows together: use {parameter('solver', 'projected_gradient')}, or a max-norm "
                f"{parameter('radius')}."
            )
    return float(np.sqrt(radius))


class _Side:
    """One half of a sweep: the rows of one factor, with the other fixed."""

    def __init__(self, objective: Objective, kernel: Kernel, norm: float) -> None:
        self.objective, self.kernel, self.norm = objective, kernel, norm
        self.intercept = objective.intercept
        self.weights = objective.ridge.l2, objective.intercept_ridge.l2
        self.bound = objective.intercept_bound
        self.multipliers = np.zeros(kernel.shape[0])
        self.tightness = 1.0

    def move(self, factors: Factors, *, value: bool) -> tuple[Factors, float, float]:
        """Move every row; return the factors, the promised gain, and the rows' total before the move.

        While the bound of the curvature is near its mean value the models use it: they lie above the
        objective, so that their minimisers need no search. Later they use the curvature itself.
        """
        k = factors.rank
        free = k + 1 if self.intercept else k
        ridge = np.full(free, self.weights[0])
        ridge[k:] = self.weights[1]
        exact = not (self.kernel.bounded and self.tightness >= TIGHT)
        P, Q = self.objective.product(factors)
        moved = P.copy()

        def task(panel: Panel) -> tuple[float, float, float]:
            here = P[panel.rows]
            old = here[:, :free]
            model = panel.models(
                here.astype(self.kernel.dtype), free, exact=exact, value=value or exact
            )
            values = model.values + 0.5 * old**2 @ ridge
            gradients = model.gradients + ridge * old
            minima = minimise_in_balls(
                gradients,
                model.packed,
                old,
                self.multipliers[panel.rows],
                ridge=ridge,
                k=k,
                norm=self.norm,
                rounding=float(np.finfo(self.kernel.dtype).eps),
                bound=self.bound,
            )
            self.multipliers[panel.rows] = minima.multipliers
            new = here.copy()
            new[:, :free] = minima.minimisers
            if exact:
                new = self._search(panel, here, new, values, gradients, ridge)
            moved[panel.rows] = new
            size = (panel.rows.stop - panel.rows.start) / P.shape[0]
            return float(np.sum(minima.gains)), float(np.sum(values)), size * model.tightness

        gains, values, tightness = zip(*self.kernel.map(task, self.kernel.panels(Q)), strict=True)
        self.tightness = float(sum(tightness))
        intercepts = moved[:, k] if self.intercept else factors.row_intercepts
        changed = replace(factors, row_factors=moved[:, :k], row_intercepts=intercepts)
        return changed, float(sum(gains)), float(sum(values))

    def _search(
        self,
        panel: Panel,
        here: Array,
        target: Array,
        values: Array,
        gradients: Array,
        ridge: Array,
    ) -> Array:
        """Halve each row's own step until its objective falls enough; a row that never does stays."""
        free = gradients.shape[1]
        direction = target - here
        slope = np.minimum(np.einsum("ij,ij->i", gradients, direction[:, :free]), 0.0)
        # Differences below the rounding error of a row's sum decide nothing.
        noise = np.finfo(self.kernel.dtype).eps * (np.abs(values) + self.kernel.shape[1])
        step = np.ones(here.shape[0])
        for _ in range(HALVINGS):
            trial = here + step[:, None] * direction
            own = trial[:, :free]
            reached = panel.values(trial.astype(self.kernel.dtype))
            reached += 0.5 * own**2 @ ridge
            # Written so that a NaN is a failure.
            failed = ~(reached <= values + ENOUGH * step * slope + noise) & (step > 0)
            if not failed.any():
                return trial
            step[failed] *= 0.5
        step[failed] = 0.0
        return np.asarray(here + step[:, None] * direction)
