"""The ridge penalty of the unknowns: one weight for all factors, or more for rows and columns with more entries.

    l2 / 2 (sum_i r_i |u_i|^2 + sum_j s_j |v_j|^2) + l2_intercept / 2 (|a|^2 + |c|^2)
    + sum over blocks of features of l2_block / 2 |z|^2,          r_i = (n_i / n)^l2_power

where n_i is the number (or total weight) of the entries of row i, at least 1, and n its mean over the rows of the fit
that have any; s_j alike. A row of n entries has the penalty ``l2`` at every power. At power 1 it is one for each entry
(Zhou, Wilkinson, Schreiber and Pan 2008, "Large-scale parallel collaborative filtering for the Netflix prize"), below
it a smoothed weighted trace norm of X (Srebro and Salakhutdinov 2010, "Collaborative filtering in a non-uniform world:
learning with the weighted trace norm"). Biases and coefficients of features keep one penalty: with a power they were
no better on four of six tables of votes, ratings and evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.arrays import dot, is_numpy, match_device
from tribit.model.constraints import Ridge
from tribit.model.factors import Factors
from tribit.model.features import Features

Array = NDArray[np.floating[Any]]
#: Weights of the ridge of rows and of columns, relative to ``l2``; None for 1.
RelativeWeights: TypeAlias = tuple[Array | None, Array | None]


def relative_l2(power: float, totals: NDArray[np.number[Any]], mean: float) -> Array | None:
    """Return ``r_i`` of rows with these totals of entries; None where it is 1 for all."""
    if not power:
        return None
    return np.asarray((np.maximum(totals, 1) / max(mean, 1.0)) ** power, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Penalty:
    """The penalty of a model's unknowns.

    Attributes
    ----------
    ridge, intercept_ridge : Ridge
        Those of the factors and of the intercepts of rows and columns.
    features : Features
        The design, with the ridges of its features; the identity without any.
    shared : bool
        Whether the design has features.
    relative : (array or None, array or None)
        ``r_i`` and ``s_j``; None for 1.
    """

    ridge: Ridge
    intercept_ridge: Ridge
    features: Features
    shared: bool = False
    relative: RelativeWeights = (None, None)
    #: Cache of the weights by the type of arrays; those of NumPy are under None.
    _kept: dict[Any, Factors] = field(init=False, default_factory=dict, repr=False)

    @property
    def is_uniform(self) -> bool:
        """Whether all unknowns of a kind have one weight, so that no array as long as the unknowns is needed."""
        return not self.shared and all(each is None for each in self.relative)

    def value(self, unknowns: Factors) -> float:
        """Return the penalty."""
        if not self.is_uniform:
            return 0.5 * unknowns.dot(self.gradient(unknowns))
        return self.ridge.value(
            unknowns.row_factors, unknowns.column_factors
        ) + self.intercept_ridge.value(unknowns.row_intercepts, unknowns.column_intercepts)

    def of_columns(self, unknowns: Factors) -> float:
        """Return the penalty of the columns alone."""
        V, c = unknowns.column_factors, unknowns.column_intercepts
        if self.is_uniform:
            return self.ridge.value(V) + self.intercept_ridge.value(c)
        weights = self.weights(unknowns)
        return 0.5 * (dot(V, weights.column_factors * V) + dot(c, weights.column_intercepts * c))

    def gradient(self, unknowns: Factors) -> Factors:
        """Return the gradient: each unknown times its weight."""
        pairs = zip(unknowns.arrays, self.weights(unknowns).arrays, strict=True)
        U, V, a, c = (part * weight for part, weight in pairs)
        return Factors(U, V, 0.0, a, c)

    def weights(self, unknowns: Factors) -> Factors:
        """Return the weight of each unknown, one column for all latent factors, where the unknowns are."""
        beside = unknowns.row_factors
        kind = None if is_numpy(beside) else beside.dtype
        if kind not in self._kept:
            self._kept[kind] = self._weights().map_arrays(lambda each: match_device(each, beside))
        return self._kept[kind]

    def _weights(self) -> Factors:
        found = self.features.ridge(self.ridge.l2, self.intercept_ridge.l2)
        for factors, relative in zip(found.arrays[:2], self.relative, strict=True):
            if relative is not None:
                factors[: relative.size] *= relative[:, None]
        return found
