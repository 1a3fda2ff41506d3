"""Alternating Newton's method: rows of U, then rows of V, each inside its own ball.

With V fixed the objective is a sum over the rows of U of smooth convex problems (for a link with log-concave
probabilities). Each row moves to the minimiser of its quadratic model *inside the ball*, cut back along the way
there until the row's own objective falls enough, so that the whole never rises. There is no step to tune.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.constraints import Constraint, EntryBound, MaxNorm, Unconstrained
from tribit.errors import InvalidInputError
from tribit.factors import Factors
from tribit.kernels import Kernel, Panel
from tribit.kernels.common import single_threaded_blas
from tribit.objective import Objective
from tribit.solvers.loop import Point, SolverResult, Stopping, run
from tribit.solvers.rows import minimise_in_balls

Array = NDArray[np.floating[Any]]

#: A row's step is accepted when it gains this share of what its gradient promises (Armijo).
ENOUGH = 1e-4
HALVINGS = 12


@dataclass(frozen=True)
class Newton:
    """Alternating Newton's method with ball-constrained rows (the default solver)."""

    name = "newton"
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

        def sweep(point: Point) -> Point:
            factors, gained, _ = _half(objective, objective.kernel, point.factors, norm)
            back, more, value = _half(objective, transposed, factors.transposed, norm)
            factors = back.transposed
            # The second half knows the risk and the penalty of its own side; the other's is added.
            value += objective.ridge.value(factors.row_factors, factors.row_intercepts)
            if objective.intercept:
                before = objective.penalty(factors)
                factors = factors.centred()
                value += objective.penalty(factors) - before
            return Point(factors, value, gained + more)

        transposed = objective.kernel.transposed
        with single_threaded_blas():
            return run(sweep, Point(start, objective.value(start)), stopping)


def _row_norm(constraints: list[Constraint]) -> float:
    """Return the radius of each row's ball, or say why this solver cannot keep a constraint."""
    radius = min((c.radius for c in constraints if isinstance(c, MaxNorm)), default=np.inf)
    for constraint in constraints:
        if isinstance(constraint, EntryBound):
            # |x_ij| <= |u_i| |v_j| <= radius: the ball already keeps every entry inside.
            if radius <= constraint.alpha:
                continue
            raise InvalidInputError(
                f"The newton solver cannot keep |X| <= alpha = {constraint.alpha:g} with radius = {radius:g}: "
                "pass a radius of at most alpha, which implies it, or solver='projected_gradient'."
            )
        if not isinstance(constraint, MaxNorm | Unconstrained):
            raise InvalidInputError(
                f"The newton solver moves one row at a time and cannot keep {type(constraint).__name__}, which "
                "ties all rows together: use solver='projected_gradient', or a max-norm radius."
            )
    return float(np.sqrt(radius))


def _half(
    objective: Objective, kernel: Kernel, factors: Factors, norm: float
) -> tuple[Factors, float, float]:
    """Move every row; return the factors, half the promised decrease, and the rows' new total."""
    k, l2 = factors.rank, objective.ridge.l2
    free = k + 1 if objective.intercept else k
    P, Q = factors.augmented()
    moved = P.copy()

    def move(panel: Panel) -> tuple[float, float]:
        here = P[panel.rows]
        value, gradient, packed = panel.models(here.astype(kernel.dtype), free)
        old = here[:, :free]
        value += 0.5 * l2 * np.einsum("ij,ij->i", old, old)
        gradient += l2 * old
        direction = (
            minimise_in_balls(gradient, packed, old, l2=l2, k=k, norm=norm) - old
        )
        slope = np.minimum(np.einsum("ij,ij->i", gradient, direction), 0.0)
        new, new_value = _search(panel, kernel, here, direction, value, slope, l2)
        moved[panel.rows] = new
        return -0.5 * float(np.sum(slope)), float(np.sum(new_value))

    gains, totals = zip(*kernel.map(move, kernel.panels(Q)), strict=True)
    changed = replace(
        factors,
        row_factors=moved[:, :k],
        row_intercepts=moved[:, k].copy() if objective.intercept else factors.row_intercepts,
    )
    return changed, float(sum(gains)), float(sum(totals))


def _search(
    panel: Panel,
    kernel: Kernel,
    here: Array,
    direction: Array,
    value: Array,
    slope: Array,
    l2: float,
) -> tuple[Array, Array]:
    """Halve each row's own step until its objective falls enough; a row that never does stays."""
    free = direction.shape[1]
    step = np.ones(here.shape[0])
    # Differences below the rounding error of a row's sum decide nothing.
    noise = np.finfo(kernel.dtype).eps * (np.abs(value) + kernel.shape[1])
    for _ in range(HALVINGS):
        trial = here.copy()
        trial[:, :free] += step[:, None] * direction
        own = trial[:, :free]
        reached = panel.values(trial.astype(kernel.dtype))
        reached += 0.5 * l2 * np.einsum("ij,ij->i", own, own)
        # Written so that a NaN is a failure.
        failed = ~(reached <= value + ENOUGH * step * slope + noise) & (step > 0)
        if not failed.any():
            return trial, reached
        step[failed] *= 0.5
    step[failed] = 0.0
    trial = here.copy()
    trial[:, :free] += step[:, None] * direction
    return trial, np.where(step > 0, reached, value)
