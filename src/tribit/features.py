"""What a row has touched says who it is: factors made of a part of their own and of what was observed there.

    u_i = p_i + |O_i|^-1/2 sum over observed (i, j) of z_j,     v_j = q_j + |O_j|^-1/2 sum over observed (i, j) of w_i

and row and column intercepts alike, with O the entries that were observed, whatever their labels. All of it is linear
in the unknowns ``(p, z)`` and ``(q, w)``: U = S (p over z) with ``S = [I, D O]``, so that a model with mask features is
a :class:`~tribit.factors.Factors` of more rows than the matrix has, and predictions need U and V alone.

Koren 2008, "Factorization meets the neighborhood" (SVD++, for the rows); Paterek 2007, "Improving regularized
singular value decomposition for collaborative filtering".
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.constraints import Ridge
from tribit.factors import Factors
from tribit.kernels.threads import single_threaded_blas
from tribit.objective import Objective
from tribit.observations import Observations

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class MaskFeatures:
    """The two sparse matrices ``[I, D O]``: from unknowns of rows and features to factors of rows.

    Attributes
    ----------
    rows : sparse array of shape (d1, d1 + d2)
        For U and the row intercepts.
    columns : sparse array of shape (d2, d2 + d1)
        For V and the column intercepts.
    """

    rows: sp.csr_array
    columns: sp.csr_array

    @classmethod
    def of(cls, observations: Observations) -> MaskFeatures:
        """Return the features of a mask; each row of ``D O`` has length 1, or 0 where nothing was observed."""
        seen = observations
        mask = sp.csr_array(
            (np.ones(seen.n_observed), (seen.rows, seen.columns)), shape=observations.shape
        )
        return cls(_beside_identity(mask), _beside_identity(mask.T))

    @cached_property
    def _transposed(self) -> tuple[sp.csr_array, sp.csr_array]:
        return sp.csr_array(self.rows.T), sp.csr_array(self.columns.T)

    def combine(self, parts: Factors) -> Factors:
        """Return the factors of the matrix: ``U = S (p over z)`` and so on."""
        return Factors(
            self.rows @ parts.row_factors,
            self.columns @ parts.column_factors,
            parts.intercept,
            self.rows @ parts.row_intercepts,
            self.columns @ parts.column_intercepts,
        )

    def pull_back(self, gradient: Factors) -> Factors:
        """Return the gradient in the parts, given that in the factors: ``S' dF/dU`` and so on."""
        rows, columns = self._transposed
        return Factors(
            rows @ gradient.row_factors,
            columns @ gradient.column_factors,
            gradient.intercept,
            rows @ gradient.row_intercepts,
            columns @ gradient.column_intercepts,
        )

    def begin(self, factors: Factors) -> Factors:
        """Return parts that combine to the given factors: the features count for nothing yet."""
        d1, d2 = self.rows.shape[0], self.columns.shape[0]
        k = factors.rank
        return replace(
            factors,
            row_factors=np.vstack([factors.row_factors, np.zeros((d2, k))]),
            column_factors=np.vstack([factors.column_factors, np.zeros((d1, k))]),
            row_intercepts=np.concatenate([factors.row_intercepts, np.zeros(d2)]),
            column_intercepts=np.concatenate([factors.column_intercepts, np.zeros(d1)]),
        )


class FeaturedObjective:
    """A risk at the factors that parts combine to, with a ridge on the parts.

        F(p, z, q, w, ...) = L(U, V, a, c, b) + l2 / 2 (|p|^2 + |q|^2) + l2_mask / 2 (|z|^2 + |w|^2)
                             + l2_intercept / 2 (|a_p|^2 + |c_q|^2) + l2_mask / 2 (|a_z|^2 + |c_w|^2)

    where ``a_p`` and ``a_z`` are the row intercepts of rows and of features, and ``c_q`` and ``c_w`` the column's.

    Parameters
    ----------
    objective : Objective
        The risk L; its own ridge weights are those of p, q and the intercepts.
    features : MaskFeatures
        How parts combine.
    l2_mask : float
        Weight of the ridge on what the features bring.
    """

    def __init__(self, objective: Objective, features: MaskFeatures, l2_mask: float) -> None:
        self.objective, self.features = objective, features
        self.ridge = Ridge(l2_mask)
        self.size, self.shape = objective.size, objective.shape

    def in_float64(self) -> FeaturedObjective:
        """Return the same objective in float64 arithmetic."""
        return FeaturedObjective(self.objective.in_float64(), self.features, self.ridge.l2)

    def value(self, parts: Factors) -> float:
        """Return F."""
        with single_threaded_blas():
            risk = self.objective.risk_value(self.features.combine(parts))
        return risk + self._penalty(parts)

    def gradient(self, parts: Factors) -> tuple[float, Factors]:
        """Return F and its gradient in the parts."""
        risk, gradient = self.objective.risk_gradient(self.features.combine(parts))
        total = self.features.pull_back(gradient).plus(1.0, self._weighted(parts))
        return risk + self._penalty(parts), total

    def settle_intercepts(self, parts: Factors) -> Factors:
        """Return the parts as they are: their intercepts have no mean that could move without changing X."""
        return parts

    def scales(self, parts: Factors) -> Factors:
        """Return the curvature of F in each unknown, roughly; see :meth:`tribit.objective.Objective.scales`."""
        squares = MaskFeatures(self.features.rows.power(2), self.features.columns.power(2))
        risk = squares.pull_back(self.objective.curvatures(self.features.combine(parts)))
        ones = Factors(*(np.ones_like(part) for part in dataclasses.astuple(parts)))
        return risk.plus(1.0, self._weighted(ones))

    def _split(self, parts: Factors) -> tuple[list[Array], list[Array], list[Array]]:
        """Return the parts with ridge l2, with l2_intercept and with l2_mask."""
        d1, d2 = self.shape
        own = [parts.row_factors[:d1], parts.column_factors[:d2]]
        intercepts = [parts.row_intercepts[:d1], parts.column_intercepts[:d2]]
        mask = [
            parts.row_factors[d1:],
            parts.column_factors[d2:],
            parts.row_intercepts[d1:],
            parts.column_intercepts[d2:],
        ]
        return own, intercepts, mask

    def _penalty(self, parts: Factors) -> float:
        own, intercepts, mask = self._split(parts)
        return (
            self.objective.ridge.value(*own)
            + self.objective.intercept_ridge.value(*intercepts)
            + self.ridge.value(*mask)
        )

    def _weighted(self, parts: Factors) -> Factors:
        """Return the gradient of the penalty: each part times its weight."""
        d1, d2 = self.shape
        l2, l2_intercept = self.objective.ridge.l2, self.objective.intercept_ridge.l2

        def by_part(first: float, size: int, array: Array) -> Array:
            weights = np.full(array.shape[0], self.ridge.l2)
            weights[:size] = first
            return np.asarray(array * (weights if array.ndim == 1 else weights[:, None]))

        return Factors(
            by_part(l2, d1, parts.row_factors),
            by_part(l2, d2, parts.column_factors),
            0.0,
            by_part(l2_intercept, d1, parts.row_intercepts),
            by_part(l2_intercept, d2, parts.column_intercepts),
        )


def _beside_identity(mask: Any) -> sp.csr_array:
    """Return ``[I, D O]``, the rows of ``D O`` with length 1."""
    mask = sp.csr_array(mask)
    counts = np.diff(mask.indptr)
    scaled = mask.copy()
    scaled.data = mask.data / np.sqrt(np.repeat(counts, counts))
    return sp.csr_array(sp.hstack([sp.eye_array(mask.shape[0], format="csr"), scaled]))
