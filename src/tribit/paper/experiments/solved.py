"""The problem that the paper states, solved: alpha and the ball are kept exactly, and k grows until X stops changing.

    min over X of  F(X)   subject to   |X|_inf <= alpha   and   |X|_max <= alpha sqrt r

The iteration that the paper prints ends elsewhere (:mod:`tribit.paper.experiments.iteration`). Here
:class:`tribit.solvers.bounded.AugmentedLagrangian` minimises over U and V of k columns; each k begins at the factors of
the one before, with small random columns beside them. For the logistic link F is convex in X, so that with
columns enough the end is the minimum itself, unique but for entries that no risk sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Objective
from tribit.model.constraints import EntryBound, MaxNorm
from tribit.model.factors import Factors
from tribit.solvers.bounded import AugmentedLagrangian
from tribit.solvers.loop import Stopping

Array = NDArray[np.floating[Any]]

#: X has stopped changing when more columns change it by at most this share of its norm.
STILL = 0.01
#: Variance of the entries that random columns give to X, as a share of alpha squared.
SMALL = 0.01


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
        """Number of columns of U and V."""
        return int(self.factors.row_factors.shape[1])

    def dense(self) -> Array:
        """Return X."""
        return self.factors.row_factors @ self.factors.column_factors.T


def grown(
    objective: Objective,
    columns: tuple[int, ...],
    *,
    radius: float,
    alpha: float,
    stopping: Stopping,
    generator: np.random.Generator,
) -> list[Stage]:
    """Minimise with each number of columns in turn, until X stops changing.

    Parameters
    ----------
    objective : Objective
        The risk.
    columns : tuple of int
        Increasing numbers of columns. With d1 + d2 the factors stand for every X in the ball, so that numbers above
        half of it become that one, the last.
    radius, alpha : float
        The set ``K_max(alpha, radius)``.
    stopping : Stopping
        When the solver stops, at each number of columns.
    generator : numpy.random.Generator
        Of the random columns.

    Returns
    -------
    list of Stage
        One for each number of columns that was tried, the last one the answer.
    """
    constraints = [MaxNorm(radius), EntryBound(alpha)]
    solver = AugmentedLagrangian(curvature=float(objective.link.second(np.zeros(1), 1)[0]))
    stages: list[Stage] = []
    U, V = (_none(length) for length in objective.shape)
    enough = sum(objective.shape)
    for count in sorted({k if 2 * k <= enough else enough for k in columns}):
        scale = np.sqrt(alpha) * (SMALL / count) ** 0.25
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
        if change is not None and change <= STILL:
            break
    return stages


def _none(length: int) -> Array:
    return np.zeros((length, 0))
