"""Slopes of each column on the features of rows, for rows that have features and no entries.

A map from features to factors answers such a row by ``x_ij = g_i' C_j`` with ``g_i = (1, features)`` and C_j what the
factors of column j make of the map. The column's own entries may say more of how it meets the features:

    x_ij = g_i' (C_j + d_j)

with ``d_j`` learned in :mod:`tribit.folding.feature_regression`. To the factors these are further columns, ``g_i``
beside ``d_j``; ``g_i`` is 0 for rows with entries, so that their predictions stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Positions
from tribit.model.factors import Factors

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Slopes:
    """Regressions of the columns on the features of rows without entries; columns' features by symmetry.

    Attributes
    ----------
    features : array of shape (n_rows, 1 + n_features)
        ``g_i``, 0 for rows with entries.
    own : array of shape (n_columns, 1 + n_features)
        ``d_j``, 0 for columns that came after the fit.
    """

    features: Array
    own: Array

    def with_rows(self, features: Array) -> Slopes:
        """Return the slopes with further rows."""
        return replace(self, features=np.vstack([self.features, features]).astype(self.own.dtype))

    def with_columns(self, n_new: int) -> Slopes:
        """Return the slopes with further columns, of which nothing is known beyond their factors."""
        new = np.zeros((n_new, self.own.shape[1]), dtype=self.own.dtype)
        return replace(self, own=np.vstack([self.own, new]))

    def without(self, rows: Positions) -> Slopes:
        """Return the slopes where some rows have entries now."""
        features = self.features.copy()
        features[rows] = 0.0
        return replace(self, features=features)


#: Of the features of rows and of those of columns.
BothSlopes = tuple[Slopes | None, Slopes | None]


def with_slopes(factors: Factors, slopes: BothSlopes) -> Factors:
    """Return the factors with the columns of the slopes beside them."""
    rows, columns = [factors.row_factors], [factors.column_factors]
    for side, each in enumerate(slopes):
        if each is not None:
            (columns if side else rows).append(each.features)
            (rows if side else columns).append(each.own)
    return replace(factors, row_factors=np.hstack(rows), column_factors=np.hstack(columns))
