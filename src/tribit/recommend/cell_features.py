"""Features of cells from which the rates of likes and dislikes are computed, each as if its cell were unobserved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.threads import ordered_map, single_threaded_blas
from tribit.data.axis import Positions
from tribit.model.column_regression import ColumnRegression
from tribit.model.ridge_solves import TOLERANCE

__all__ = ["CellFeatures", "indicators"]

Array = NDArray[np.float64]
#: Floor of the scores before their logarithm, as a share of the mean of the column, and how many entries are added to
#: those of a column there, as a share of the mean number.
FLOOR, SMOOTHING = 0.1, 0.1


@dataclass(frozen=True, eq=False)
class CellFeatures:
    """Regressions that were fitted on some rows, and the rows that are asked about, which may be others.

    Attributes
    ----------
    likes, mask : ColumnRegression
        Every column on all others, of the likes and of the mask.
    liked, seen : sparse array
        The 0/1 matrices of the rows that are asked about.
    n_fitted : int
        How many of these, the first, are the rows of the fit.
    """

    likes: ColumnRegression
    mask: ColumnRegression
    liked: sp.csr_array
    seen: sp.csr_array
    n_fitted: int

    @classmethod
    def fitted(
        cls,
        labels: sp.csr_array,
        regress: Callable[[tuple[int, sp.csr_array]], ColumnRegression],
        n_jobs: int,
    ) -> CellFeatures:
        """Return the features of the rows of a fit; ``regress`` is called with 0 and the likes, 1 and the mask."""
        liked, seen = indicators(labels)
        with single_threaded_blas():
            likes, mask = ordered_map(regress, enumerate((liked, seen)), n_jobs)
        return cls(likes, mask, liked, seen, labels.shape[0])

    @cached_property
    def popularity(self) -> tuple[Array, Array]:
        """Numbers of likes and of entries of each column in the rows of the fit."""
        likes, entries = (
            np.bincount(F.indices, minlength=F.shape[1]).astype(np.float64)
            for F in (self.likes.F, self.mask.F)
        )
        return likes, entries

    def of(self, rows: Positions, n_jobs: int = 1, tolerance: float = TOLERANCE) -> Array:
        """Return the four features of some rows, an array of shape (4, n_rows, n_columns).

        ``log(max(s, 0) + floor)`` of the likes and of the mask, ``log(1 + n_j)`` and ``log(1 + n_i)``. The floor is a
        share of the column's mean, so that a row of which nothing or little is known has the order of popularity.
        """
        fitted = np.asarray(rows) < self.n_fitted
        asked = (self.likes, self.liked[rows]), (self.mask, self.seen[rows])
        features = np.empty((4, len(fitted), self.seen.shape[1]))

        def scores(part: tuple[ColumnRegression, sp.csr_array]) -> Array:
            return part[0].scores(part[1], fitted, tolerance)

        with single_threaded_blas():
            found = ordered_map(scores, asked, n_jobs)
            for feature, score, (regression, F), counts in zip(
                features, found, asked, self.popularity, strict=False
            ):
                # The count of a column has the rows of the fit: an entry of another row is not in it.
                feature[:] = counts - F.toarray() * fitted[:, None]
                feature += SMOOTHING * counts.mean()
                feature *= FLOOR / regression.F.shape[0]
                feature += np.maximum(score, 0.0)
                np.log(feature, out=feature)
        own = asked[1][1].toarray()
        np.log1p(self.popularity[1] - own * fitted[:, None], out=features[2])
        np.log1p(self._activity(rows)[:, None] - own, out=features[3])
        return features

    def _activity(self, rows: Positions) -> Array:
        """Return how many entries rows have; of rows that were not fitted, within the range of those that were.

        The rates say nothing of others, and where all rows of a fit are of nearly one length, its coefficient is large.
        """
        counts, known = (np.diff(F.indptr).astype(np.float64) for F in (self.seen, self.mask.F))
        new = np.asarray(rows) >= self.n_fitted
        asked: Array = counts[rows]
        asked[new] = np.clip(asked[new], known.min(), known.max())
        return asked


def indicators(labels: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the 0/1 matrices of what was liked and of what was observed."""
    liked, seen = (_where(labels, chosen) for chosen in (labels.data > 0, labels.data != 0))
    return liked, seen


def _where(labels: sp.csr_array, chosen: NDArray[np.bool_]) -> sp.csr_array:
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))[chosen]
    ones = np.ones(rows.size)
    return sp.csr_array((ones, (rows, labels.indices[chosen])), shape=labels.shape)
