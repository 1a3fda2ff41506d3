"""The rows of one factor, the other fixed: each moves to the minimiser of a quadratic model of its own objective.

:func:`half_sweep` moves every row of a factor once. Alternating Newton is two half-sweeps by turns; new rows are folded
in by half-sweeps with the columns fixed (:mod:`tribit.folding`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tribit.backends.balls import solve_ball_constrained_rows

if TYPE_CHECKING:
    from tribit.backends.base import Backend, Panel

Array = NDArray[np.floating[Any]]

#: Armijo constant of the rows' backtracking line searches, and their most halvings.
ENOUGH = 1e-4
HALVINGS = 12
#: Mean curvature, as a share of its bound, above which the bound serves as the curvature.
TIGHT = 0.3


@dataclass(frozen=True)
class RowProblem:
    """The penalty and the constraint of each row ``(u_i, a_i)``, the same for all rows.

    Attributes
    ----------
    k : int
        Number of factors; the ball restricts these.
    intercept : bool
        Whether column k of P is the row's intercept, and free.
    l2, l2_intercept : float
        Weights of the ridge on the factors and on the intercept.
    norm : float
        Radius of the ball, possibly infinite.
    bound : float
        Largest absolute value of the intercept, possibly infinite.
    prior_mean : array of shape (n_rows, free) or None
        Points that the ridge pulls the rows towards, such as what features say of them; None for 0.
    """

    k: int
    intercept: bool = False
    l2: float = 0.0
    l2_intercept: float = 0.0
    norm: float = np.inf
    bound: float = np.inf
    prior_mean: Array | None = None

    @property
    def free(self) -> int:
        """The number of unknowns of a row, the first columns of P."""
        return self.k + self.intercept

    @cached_property
    def ridge(self) -> Array:
        """The weight of the ridge on each unknown of a row."""
        ridge = np.full(self.free, self.l2)
        ridge[self.k :] = self.l2_intercept
        return ridge

    def deviation(self, P: Array, rows: slice | NDArray[np.integer[Any]]) -> Array:
        """Return how far some rows are from their prior means."""
        here = P[:, : self.free]
        return here if self.prior_mean is None else np.asarray(here - self.prior_mean[rows])


@dataclass
class RowState:
    """The warm start that a half-sweep leaves to the next one over the same rows.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    multipliers : array of shape (n_rows,)
        Those of the rows' balls.
    tightness : float
        Mean curvature as a share of its bound.
    """

    n_rows: int
    multipliers: Array = field(init=False)
    tightness: float = 1.0

    def __post_init__(self) -> None:
        self.multipliers = np.zeros(self.n_rows)


class HalfSweep(NamedTuple):
    """The moved rows, what their models promise to gain, and the rows' total objective before the move."""

    P: Array
    gain: float
    value: float


def half_sweep(
    backend: Backend, P: Array, Q: Array, problem: RowProblem, state: RowState, *, value: bool
) -> HalfSweep:
    """Return ``P`` with every row moved to the minimiser of a quadratic model of its own objective, Q fixed.

    While the bound of the curvature is near its mean value the models use it: they lie above the objective, so that
    their minimisers need no search. Otherwise they use the curvature itself, and each row has a backtracking line
    search on its own objective. The value is NaN unless asked for, and ``state`` is brought up to date.
    """
    exact = not (backend.bounded and state.tightness >= TIGHT)
    free, ridge = problem.free, problem.ridge
    rounding = float(np.finfo(backend.dtype).eps)
    moved = P.copy()

    def move(panel: Panel) -> tuple[float, float, float]:
        here = P[panel.rows]
        old = here[:, :free]
        model = panel.models(here.astype(backend.dtype), free, exact=exact, value=value or exact)
        deviation = problem.deviation(here, panel.rows)
        values = model.values + 0.5 * deviation**2 @ ridge
        gradients = model.gradients + ridge * deviation
        minima = solve_ball_constrained_rows(
            gradients,
            model.curvatures,
            old,
            state.multipliers[panel.rows],
            ridge=ridge,
            k=problem.k,
            norm=problem.norm,
            rounding=rounding,
            bound=problem.bound,
        )
        state.multipliers[panel.rows] = minima.multipliers
        new = here.copy()
        new[:, :free] = minima.minimisers
        if exact:
            # Differences below the rounding error of a row's sum decide nothing.
            noise = rounding * (np.abs(values) + backend.shape[1])
            new = _search(panel, problem, here, new, values, gradients, noise, backend.dtype)
        moved[panel.rows] = new
        share = panel.height / P.shape[0]
        return float(np.sum(minima.gains)), float(np.sum(values)), share * model.tightness

    gains, values, tightness = zip(*backend.map_panels(move, Q), strict=True)
    state.tightness = float(sum(tightness))
    return HalfSweep(moved, float(sum(gains)), float(sum(values)))


def _search(
    panel: Panel,
    problem: RowProblem,
    here: Array,
    target: Array,
    values: Array,
    gradients: Array,
    noise: Array,
    dtype: np.dtype[Any],
) -> Array:
    """Backtrack each row's own step until its objective falls enough (Armijo); a row that never does stays."""
    free = gradients.shape[1]
    direction = target - here
    slope = np.minimum(np.einsum("ij,ij->i", gradients, direction[:, :free]), 0.0)
    step = np.ones(here.shape[0])
    for _ in range(HALVINGS):
        trial = here + step[:, None] * direction
        reached = panel.values(trial.astype(dtype))
        reached += 0.5 * problem.deviation(trial, panel.rows) ** 2 @ problem.ridge
        # Written so that a NaN is a failure.
        failed = ~(reached <= values + ENOUGH * step * slope + noise) & (step > 0)
        if not failed.any():
            return trial
        step[failed] *= 0.5
    step[failed] = 0.0
    return np.asarray(here + step[:, None] * direction)
