"""Normal approximations of the rows of one factor, with the other factor fixed.

The posterior of row ``i`` is approximated by a normal around the fitted ``(u_i, a_i)`` with covariance

    H_i^-1                          where the risk is a likelihood (PN, every observed entry of weight 1)
    H_i^-1 (L_i + J_i) H_i^-1       otherwise, for instance where unobserved entries have weight

    H_i = L_i + sum_j w_ij [v_j; 1][v_j; 1]'        L_i the precision of the prior, w_ij the curvature of the risk
    J_i = sum_j over observed g_ij^2 [v_j; 1][v_j; 1]'      g_ij the slope of the observed entries' terms in the risk

A mixture estimates the likelihood of the full table, so that its curvature includes labels that were not observed. The
variance over samples of the observed entries is in ``J_i`` (Huber 1967, "The behavior of maximum likelihood estimates
under nonstandard conditions"); under PN the two forms agree on average. ``J_i`` omits a negative term of relative size
``q``, so that deviations are rather too large than too small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.base import Panel
from tribit.backends.layout import RowLayout
from tribit.backends.objective import Objective
from tribit.model.factors import Factors

Array = NDArray[np.floating[Any]]

#: Numbers in a block of covariances that is unpack_symmetric at a time.
BLOCK = 2**20
#: Norm of a row, relative to the radius of its ball, from which it is on the boundary.
ON_BOUNDARY = 0.999


@dataclass(frozen=True, eq=False)
class RowPosterior:
    """The rows of one factor, and their covariances as packed upper triangles.

    Attributes
    ----------
    vectors : array of shape (n, k) or (n, k + 1)
        ``u_i``, with a 1 for the other side's intercept where there are intercepts.
    packed : array of shape (n, width)
        The covariances of ``(u_i, a_i)``.
    """

    vectors: Array
    packed: Array

    def covariances(self, who: NDArray[np.int64]) -> Array:
        """Return the covariance matrices of some rows."""
        return unpack_symmetric(self.packed[who], self.vectors.shape[1])

    def sample(self, means: Array, draws: np.random.Generator) -> Array:
        """Return a sample of ``(u_i, a_i)`` around its mean, for every row."""
        samples = np.array(means, dtype=np.float64)
        step = max(1, BLOCK // means.shape[1] ** 2)
        for start in range(0, means.shape[0], step):
            here = np.arange(start, min(start + step, means.shape[0]))
            root = np.linalg.cholesky(self.covariances(here))
            noise = draws.standard_normal((here.size, means.shape[1]))
            samples[here] += np.einsum("nab,nb->na", root, noise)
        return samples


def unpack_symmetric(packed: Array, size: int) -> Array:
    """Return symmetric matrices from their upper triangles, by rows."""
    left, right = np.triu_indices(size)
    full = np.empty((packed.shape[0], size, size))
    full[:, left, right] = packed
    full[:, right, left] = packed
    return full


def row_covariances(
    objective: Objective,
    factors: Factors,
    places: object,
    radius: float | None,
    *,
    transposed: bool = False,
) -> RowPosterior:
    """Return the rows of ``factors`` with their covariances.

    Parameters
    ----------
    objective : Objective
        The minimised objective.
    factors : Factors
        The solution, transposed for the columns.
    places : tuple of arrays
        Rows and columns of the observed entries, exchanged for the columns, the weights ``plus`` and ``minus`` that
        the risk gives them, and their own weights.
    radius : float or None
        Squared radius of the ball of each row, if there is one.
    transposed : bool
        Whether the rows are the columns of the objective.
    """
    k = factors.rank
    backend = objective.backend.transposed if transposed else objective.backend
    l2 = objective.ridge.l2 * np.ones((factors.row_factors.shape[0], 1))
    relative = objective.penalty.relative[transposed]
    if relative is not None:
        l2 *= relative[:, None]
    free = k + 1 if objective.intercept else k
    P, Q = (np.asarray(part, dtype=np.float64) for part in objective.product(factors))
    spread = None if _is_likelihood(objective, places) else _spread(objective, P, Q, free, places)
    left, right = np.triu_indices(free)
    packed = np.empty((P.shape[0], left.size))

    def fill(panel: Panel) -> None:
        here = P[panel.rows]
        model = panel.models(here, free, exact=True, value=False)
        ridge = _precisions(objective, here[:, :free], model.gradients, l2[panel.rows], radius)
        spread_here = None if spread is None else unpack_symmetric(spread[panel.rows], free)
        covariances = _covariances(model.matrices(), ridge, spread_here)
        packed[panel.rows] = (covariances[:, left, right] + covariances[:, right, left]) / 2

    for _ in backend.map_panels(fill, Q):
        pass
    vectors = np.ones((P.shape[0], free))
    vectors[:, :k] = P[:, :k]
    return RowPosterior(vectors, packed)


def _covariances(H: Array, ridge: Array, spread: Array | None) -> Array:
    """Return ``H^-1``, or ``H^-1 (L + J) H^-1``, for some rows; the ridge is added to H in place."""
    diagonal = np.arange(ridge.shape[1])
    H[:, diagonal, diagonal] += ridge
    # Scaled to a unit diagonal, for a small condition number.
    scale = 1.0 / np.sqrt(H[:, diagonal, diagonal])
    inverse = np.linalg.inv(H * scale[:, :, None] * scale[:, None, :])
    inverse *= scale[:, :, None] * scale[:, None, :]
    if spread is None:
        return np.asarray(inverse)
    spread[:, diagonal, diagonal] += ridge
    return np.asarray(inverse @ spread @ inverse)


def _precisions(
    objective: Objective, own: Array, gradients: Array, l2: Array, radius: float | None
) -> Array:
    """Return the diagonal of each row's prior precision.

    A ridge is a normal prior whose precision is its weight. A ball is represented by the normal prior with the
    covariance of the uniform distribution in it, ``radius / (k + 2)``, or by the Lagrange multiplier of a row on the
    boundary where that is larger. A bound on intercepts is represented alike, by the variance ``bound^2 / 3``.
    """
    k = own.shape[1] - objective.intercept
    ridge = np.full(own.shape, l2)
    ridge[:, k:] = objective.intercept_ridge.l2
    if radius is not None:
        U = own[:, :k]
        squares = np.einsum("ij,ij->i", U, U)
        outward = -np.einsum("ij,ij->i", U, gradients[:, :k] + l2 * U)
        held = np.sqrt(squares) >= ON_BOUNDARY * np.sqrt(radius)
        force = np.where(held, outward / np.where(held, squares, 1.0), 0.0)
        ridge[:, :k] += np.maximum(force, (k + 2) / radius)[:, None]
    if objective.intercept and np.isfinite(objective.intercept_bound):
        ridge[:, k:] += 3.0 / objective.intercept_bound**2
    return ridge


def _is_likelihood(objective: Objective, places: Any) -> bool:
    """Return whether the risk is the sum of the losses of observed entries, each times its own weight."""
    _, _, plus, minus, own = places
    return objective.risk.unobserved_weight == 0 and all(
        bool(np.all((weights == 0.0) | (weights == own))) for weights in (plus, minus)
    )


def _spread(objective: Objective, P: Array, Q: Array, free: int, places: Any) -> Array:
    """Return packed ``sum_j g_ij^2 q_j q_j'`` over the observed entries of each row.

    An entry of weight w is w entries with the slope ``g_ij / w``.
    """
    rows, columns, plus, minus, own = places
    x = np.einsum("ij,ij->i", P[rows], Q[columns])
    slopes = plus * objective.link.first(x, 1) + minus * objective.link.first(x, -1)
    squares = np.append(slopes**2 / own, 0.0)  # the last one is for the padding of batches
    left, right = np.triu_indices(free)
    packed = np.empty((P.shape[0], left.size))
    for batch in RowLayout(rows, columns, (P.shape[0], Q.shape[0])).batches:
        q = Q[batch.columns][:, :, :free]
        weighted = q * squares[batch.entries][:, :, None]
        packed[batch.rows] = np.matmul(weighted.transpose(0, 2, 1), q)[:, left, right]
    return packed
