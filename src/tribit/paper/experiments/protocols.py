"""The three protocols: the printed iteration, the stated problem solved, and balls of growing radius.

The paper's iteration, whose last point is the answer, is

    (U, V) <- (U, V) - step (dF/dU, dF/dV);   rows cut to the ball |u|^2, |v|^2 <= radius;   entries cut to alpha.

The paper cuts the entries by scaling all of U and V. This is not a projection: once an entry meets its bound the risk
rises again. The iteration settles where the gradient is a multiple of the factors, dF/dU = -m U and dF/dV = -m V: a
stationary point of ``F + m / 2 (|U|^2 + |V|^2)``, the risk with a trace-norm penalty whose weight m keeps the largest
entry at alpha. :class:`tribit.ProjectedGradient` keeps the point of lowest risk instead.

The problem that the paper states is

    min over X of  F(X)   subject to   |X|_inf <= alpha   and   |X|_max <= alpha sqrt r

:class:`tribit.solvers.AugmentedLagrangian` minimises over factors of rank k for growing k; each k starts from
the factors of the one before, with small random columns added. For the logistic link F is convex in X, so that large k
give the minimum, unique except for entries that no risk sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Objective
from tribit.model.constraints import EntryBound, MaxNorm
from tribit.model.factors import Factors
from tribit.solvers import Newton
from tribit.solvers.augmented_lagrangian import AugmentedLagrangian
from tribit.solvers.loop import SolverResult, Stopping

Array = NDArray[np.floating[Any]]
Pair = tuple[Array, Array]
Scaling = Callable[[Objective, Array, Array, float], Pair]

#: A step that moves the factors by more than this share of their norm after so many steps is too long.
MAX_MOVE_SHARE, PATIENCE_STEPS = 0.2, 50
#: At rest: as many steps again change X by at most this share of its norm.
REST_SHARE = 0.01
#: X has stopped changing when a larger k changes it by at most this share of its norm.
STILL_SHARE = 0.01
#: Variance of the entries that random columns give to X, as a share of alpha squared.
START_VARIANCE = 0.01


@dataclass(frozen=True)
class Settled:
    """The factors at which the iteration ended, and the number of steps."""

    U: Array
    V: Array
    n_iter: int

    @property
    def factors(self) -> Factors:
        """The pair as :class:`~tribit.model.factors.Factors`."""
        return Factors.of(self.U, self.V)


def scale_whole(objective: Objective, U: Array, V: Array, alpha: float) -> Pair:
    """Scale all of U and V by ``sqrt(alpha / max|X|)`` when ``max|X| > alpha``: the paper's step."""
    return EntryBound(alpha).project(U, V, objective.backend.largest(U, V))


def scale_rows(_: Objective, U: Array, V: Array, alpha: float) -> Pair:
    """Scale only those rows of U and V that make an entry larger than ``alpha``, each by the root of its excess.

    Every entry is then at most ``alpha``. This is not a projection either, but most rows keep their gradient step, and
    the risk falls much further inside the same set.
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
    """Run the paper's iteration from ``start`` and return its last pair, which is not the one of lowest risk.

    The set is ``K_max(alpha, radius)`` and ``step`` the paper's tau, whose value it does not give. The iteration stops
    after ``max_iter`` steps, or when a step moves (U, V) by at most ``tol`` times its norm, which small steps do
    early: see :func:`is_at_rest`.
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
        # A step that is far too long overflows, and its rows are cut to 0.
        if not 0.0 < size < np.inf or (
            iteration >= PATIENCE_STEPS and move > MAX_MOVE_SHARE * size
        ):
            break
    return Settled(U, V, iteration)


def is_at_rest(objective: Objective, settled: Settled, **options: Any) -> bool:
    """Return whether as many steps again, with the options of :func:`iterate`, change X by at most a hundredth.

    One step must not move the factors by more either: an oscillating iteration returns after every second step.
    """
    pair = settled.U, settled.V
    step, further = (
        iterate(objective, pair, **options | {"max_iter": count, "tol": 0.0})
        for count in (1, settled.n_iter)
    )
    X = settled.U @ settled.V.T
    size, move = np.linalg.norm(X), np.linalg.norm(further.U @ further.V.T - X)
    swing = _distance((step.U, step.V), pair) / max(_distance(pair), np.finfo(float).tiny)
    return bool(
        swing <= REST_SHARE and size > 0.0 and move <= REST_SHARE * size
    )  # a NaN is not at rest


def _distance(a: Pair, b: Pair | None = None) -> float:
    parts = a if b is None else (a[0] - b[0], a[1] - b[1])
    return float(np.sqrt(sum(np.vdot(part, part) for part in parts)))


@dataclass(frozen=True)
class Stage:
    """The minimum with k columns, and how far X is from that of the stage before (None for the first)."""

    factors: Factors
    risk: float
    iterations: int
    converged: bool
    change: float | None

    @property
    def columns(self) -> int:
        """Number of latent factors."""
        return int(self.factors.row_factors.shape[1])

    def dense(self) -> Array:
        """Return X."""
        return self.factors.row_factors @ self.factors.column_factors.T


def grow_columns(
    objective: Objective,
    columns: tuple[int, ...],
    *,
    radius: float,
    alpha: float,
    stopping: Stopping,
    generator: np.random.Generator,
) -> list[Stage]:
    """Return the minimum over ``K_max(alpha, radius)`` for each number of latent factors, until X stops changing.

    With d1 + d2 of them the factors represent every X in the ball, so that numbers above half of it become that one.
    """
    constraints = [MaxNorm(radius), EntryBound(alpha)]
    solver = AugmentedLagrangian(curvature=float(objective.link.second(np.zeros(1), 1)[0]))
    stages: list[Stage] = []
    U: Array = np.zeros((objective.shape[0], 0))
    V: Array = np.zeros((objective.shape[1], 0))
    full = sum(objective.shape)
    for count in sorted({k if 2 * k <= full else full for k in columns}):
        scale = np.sqrt(alpha) * (START_VARIANCE / count) ** 0.25
        U, V = (
            np.hstack([part, scale * generator.standard_normal((len(part), count - part.shape[1]))])
            for part in (U, V)
        )
        found = solver.minimise(objective, constraints, Factors.of(U, V), stopping, generator)
        U, V = found.factors.row_factors, found.factors.column_factors
        change = None
        if stages:
            before = stages[-1].dense()
            change = float(np.linalg.norm(U @ V.T - before) / np.linalg.norm(before))
        stages.append(Stage(found.factors, found.objective, found.n_iter, found.converged, change))
        if change is not None and change <= STILL_SHARE:
            break
    return stages


def minimise_in_balls(
    objective: Objective, radii: Sequence[float], start: Factors, stopping: Stopping
) -> Iterator[SolverResult]:
    """Yield the minimiser in each max-norm ball, the last one being the warm start of the next."""
    factors = start
    unused = np.random.Generator(np.random.PCG64(0))
    for radius in radii:
        ball = MaxNorm(radius)
        inside = Factors.of(*ball.project(factors.row_factors, factors.column_factors))
        result = Newton().minimise(objective, [ball], inside, stopping, unused)
        factors = result.factors
        yield result


def small_factors(
    shape: tuple[int, int], rank: int, scale: float, draws: np.random.Generator
) -> Pair:
    """Return normal U and V with entries of deviation ``scale``."""
    U = draws.standard_normal((shape[0], rank)) * scale
    return U, draws.standard_normal((shape[1], rank)) * scale
