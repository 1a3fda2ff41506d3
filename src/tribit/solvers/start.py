"""Initial factors: the directions of steepest descent of the risk from a constant matrix.

At ``X = b`` the gradient of the risk is a sparse matrix of corrections plus a constant. Its leading singular vectors,
by a few rounds of subspace iteration, cost less than a sweep and save several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import namespace, to_numpy
from tribit.backends.objective import Objective
from tribit.backends.threads import single_threaded_blas
from tribit.data.observations import ByLabel, Observations, ValuesOf
from tribit.model.constraints import START, Constraint
from tribit.model.factors import Factors

Array = NDArray[np.floating[Any]]

#: Extra columns and rounds of the subspace iteration: enough for a start, far from enough for an SVD.
EXTRA_VECTORS, SUBSPACE_ITERATIONS = 4, 2
#: Mean squared row norm of the first factors, as a share of what the ball allows and of what a probability of
#: 0.9 asks for.
START_SHARE, START_PROBABILITY = 0.3, 0.9


def spectral_start(
    objective: Objective,
    constraints: list[Constraint],
    rank: int,
    intercept: float,
    generator: np.random.Generator,
) -> Factors:
    """Return factors along the leading singular vectors of ``-dF/dX`` at ``X = intercept``, inside every constraint."""
    if rank == 0:
        rows, columns = (np.zeros((size, 0)) for size in objective.shape)
        return Factors.of(rows, columns, intercept)
    room = min([objective.link.level(START_PROBABILITY), *(c.row_radius for c in constraints)])
    shape = objective.shape
    width = min(rank + EXTRA_VECTORS, *shape)
    with single_threaded_blas():
        left, right = _leading(objective, intercept, generator.standard_normal((shape[1], width)))
        sides = []
        for side, size in zip((left, right), shape, strict=True):
            factor = np.zeros((size, rank))
            factor[:, : side.shape[1]] = side[:, :rank]
            square = float(np.sum(factor**2)) / size
            factor *= np.sqrt(START_SHARE * room / square) if square > 0 else 0.0
            # A little of every direction, also where the gradient has none: at 0 nothing moves.
            noise = generator.standard_normal((size, rank)) * np.sqrt(
                START * START_SHARE * room / rank
            )
            sides.append(factor + START * noise)
        U, V = sides
        for constraint in constraints:
            U, V = constraint.project(U, V)
    return Factors.of(U, V, intercept)


def _leading(objective: Objective, level: float, V: Array) -> tuple[Array, Array]:
    """Return left and right singular vectors of the negative gradient, times the roots of their values."""
    seen, risk, link = objective.observations, objective.risk, objective.link
    x = np.array([level])
    likes, dislikes = link.first(x, 1)[0], link.first(x, -1)[0]
    everywhere = -(risk.nu * likes + risk.pu * dislikes)

    def steepest(plus: Array, minus: Array) -> Array:
        return np.asarray(-(plus * likes + minus * dislikes))

    def corrections(entries: Observations, _: None) -> Array:
        return steepest(*entries.risk_weights(risk))

    values: ValuesOf = corrections
    if risk.by_label and seen.weights is None:
        values = ByLabel(*steepest(*risk.label_weights()).tolist())
    G, transposed = objective.backend.matrix(seen, values)
    V = objective.backend.to_device(V)
    xp = namespace(V)
    for _ in range(SUBSPACE_ITERATIONS):
        U = xp.linalg.qr(G @ V + everywhere * xp.sum(V, axis=0))[0]
        V = xp.linalg.qr(transposed @ U + everywhere * xp.sum(U, axis=0))[0]
    a, values, b = xp.linalg.svd(U.T @ (G @ V + everywhere * xp.sum(V, axis=0)))
    roots = xp.sqrt(values)
    return to_numpy(U @ a * roots), to_numpy(V @ b.T * roots)
