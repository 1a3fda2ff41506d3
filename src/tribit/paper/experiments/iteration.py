"""The paper's iteration as printed, with the last point it reaches as its answer.

    (U, V) <- (U, V) - step (dF/dU, dF/dV);   rows cut to the ball |u|^2, |v|^2 <= radius;   entries cut to alpha.

The paper cuts the entries by scaling the whole of U and V. That is no projection, and the iteration is no descent:
once an entry meets its bound the risk rises again, and the iteration settles where the gradient is a multiple of
the factors, dF/dU = -m U and dF/dV = -m V: a stationary point of ``F + m / 2 (|U|^2 + |V|^2)``, that is of the risk
with a trace-norm penalty whose weight m is what just keeps the largest entry at alpha.
:class:`tribit.ProjectedGradient` keeps the point of lowest risk instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Objective
from tribit.model.constraints import EntryBound, MaxNorm
from tribit.model.factors import Factors

Array = NDArray[np.floating[Any]]
Pair = tuple[Array, Array]
Scaling = Callable[[Objective, Array, Array, float], Pair]

#: A step that still moves the factors by this share of their norm after so many steps is too long to settle.
TOO_LONG, PATIENCE = 0.2, 50
#: The iteration is at rest where as many steps again change X by at most this share of its norm.
REST = 0.01


@dataclass(frozen=True)
class Settled:
    """The factors at which the iteration ended, and the number of steps."""

    U: Array
    V: Array
    n_iter: int

    @property
    def factors(self) -> Factors:
        """The pair, as the objective takes it."""
        return Factors.of(self.U, self.V)


def scale_whole(objective: Objective, U: Array, V: Array, alpha: float) -> Pair:
    """Scale all of U and V by ``sqrt(alpha / max|X|)`` when ``max|X| > alpha``: the paper's step."""
    return EntryBound(alpha).project(U, V, objective.backend.largest(U, V))


def scale_rows(_: Objective, U: Array, V: Array, alpha: float) -> Pair:
    """Scale only those rows of U and V that make an entry larger than ``alpha``, each by the root of its excess.

    An entry is then at most ``alpha``: its row and its column both have at least its own excess. No projection
    either, but most rows stay where the gradient put them, and the risk falls much further inside the same set.
    """
    X = np.abs(U @ V.T)
    if np.max(X) <= alpha:
        return U, V
    U = U * np.sqrt(alpha / np.maximum(X.max(axis=1), alpha))[:, None]
    V = V * np.sqrt(alpha / np.maximum(X.max(axis=0), alpha))[:, None]
    return U, V


SCALINGS: dict[str, Scaling] = {"whole": scale_whole, "rows": scale_rows}


def iterate(
    objective: Objective,
    start: Pair,
    *,
    radius: float,
    alpha: float,
    step: float,
    scaling: str = "whole",
    max_iter: int,
    tol: float,
) -> Settled:
    """Run the paper's iteration from ``start`` until a step moves the factors by less than ``tol``.

    Parameters
    ----------
    objective : Objective
        The risk.
    start : pair of arrays
        U and V.
    radius, alpha : float
        The set ``K_max(alpha, radius)``.
    step : float
        The paper's tau, which it does not give.
    scaling : {"whole", "rows"}
        How entries are kept within ``alpha``: the paper's way, or row by row.
    max_iter : int
        Most steps.
    tol : float
        The iteration ends when a step moves (U, V) by at most this share of its norm. Small steps also move little
        where much is left to go: :func:`is_at_rest` tells.

    Returns
    -------
    Settled
        The last pair, not the one of lowest risk.
    """
    ball, scale = MaxNorm(radius), SCALINGS[scaling]
    U, V = scale(objective, *ball.project(*start), alpha)
    for iteration in range(1, max_iter + 1):
        _, gradient = objective.gradient(Factors.of(U, V), value=False)
        moved = ball.project(U - step * gradient.row_factors, V - step * gradient.column_factors)
        before = U, V
        U, V = scale(objective, *moved, alpha)
        size, move = _distance(before), _distance((U, V), before)
        if move <= tol * size and size > 0.0:
            break
        # A step beyond all measure overflows, and its rows are cut to 0: no place to rest either.
        if not 0.0 < size < np.inf or (iteration >= PATIENCE and move > TOO_LONG * size):
            break
    return Settled(U, V, iteration)


def is_at_rest(objective: Objective, settled: Settled, **options: Any) -> bool:
    """Say whether as many steps again, with the options of :func:`iterate`, change X by at most a hundredth.

    One step must not move the factors by more either: an iteration that swings is back where it was every other time.
    """
    pair = settled.U, settled.V
    step, further = (
        iterate(objective, pair, **options | {"max_iter": count, "tol": 0.0})
        for count in (1, settled.n_iter)
    )
    X = settled.U @ settled.V.T
    size, move = np.linalg.norm(X), np.linalg.norm(further.U @ further.V.T - X)
    swing = _distance((step.U, step.V), pair) / max(_distance(pair), np.finfo(float).tiny)
    return bool(swing <= REST and size > 0.0 and move <= REST * size)  # a NaN is not at rest


def _distance(a: Pair, b: Pair | None = None) -> float:
    parts = a if b is None else (a[0] - b[0], a[1] - b[1])
    return float(np.sqrt(sum(np.vdot(part, part) for part in parts)))
