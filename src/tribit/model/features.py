"""Implicit-feedback features, as in SVD++: factors with a part of their own and a sum over the observed entries.

    u_i = p_i + |O_i|^-1/2 sum over observed (i, j) of z_j,     v_j = q_j + |O_j|^-1/2 sum over observed (i, j) of w_i

and row and column intercepts alike, with O the entries that were observed, whatever their labels. All of it is linear
in the unknowns ``(p, z)`` and ``(q, w)``: U = S (p over z) with ``S = [I, D O]``, so that a model with implicit
features is a :class:`~tribit.model.factors.Factors` of more rows than the matrix has, and predictions need U and V
alone.

Koren 2008, "Factorization meets the neighborhood" (SVD++, for the rows); Paterek 2007, "Improving regularized
singular value decomposition for collaborative filtering".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit._moved import renamed_classes
from tribit.data.observations import Observations
from tribit.model.factors import Factors

Array = NDArray[np.floating[Any]]
__getattr__ = renamed_classes(__name__, MaskFeatures="ImplicitFeatures")


@dataclass(frozen=True, eq=False)
class ImplicitFeatures:
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
    def of(cls, observations: Observations) -> ImplicitFeatures:
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
        """Return parts that combine to the given factors, with the parts of the features at 0."""
        d1, d2 = self.rows.shape[0], self.columns.shape[0]
        k = factors.rank
        return replace(
            factors,
            row_factors=np.vstack([factors.row_factors, np.zeros((d2, k))]),
            column_factors=np.vstack([factors.column_factors, np.zeros((d1, k))]),
            row_intercepts=np.concatenate([factors.row_intercepts, np.zeros(d2)]),
            column_intercepts=np.concatenate([factors.column_intercepts, np.zeros(d1)]),
        )


def _beside_identity(mask: Any) -> sp.csr_array:
    """Return ``[I, D O]``, the rows of ``D O`` with length 1."""
    mask = sp.csr_array(mask)
    counts = np.diff(mask.indptr)
    scaled = mask.copy()
    scaled.data = mask.data / np.sqrt(np.repeat(counts, counts))
    return sp.csr_array(sp.hstack([sp.eye_array(mask.shape[0], format="csr"), scaled]))
