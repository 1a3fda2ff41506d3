"""Features of cells from which the rates of likes and dislikes are computed, each as if its cell were unobserved."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.backends.threads import ordered_map, single_threaded_blas
from tribit.data.axis import Positions
from tribit.model.column_regression import ColumnRegression
from tribit.model.ridge_solves import TOLERANCE
from tribit.model.zero_one import Ones

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
        fitted = rows < self.n_fitted
        asked = (self.likes, Ones.of(self.liked, rows)), (self.mask, Ones.of(self.seen, rows))
        features = np.empty((4, rows.size, self.seen.shape[1]))

        def scores(part: tuple[ColumnRegression, Ones]) -> Array:
            return part[0].scores(part[1], fitted, tolerance)

        # Sums of rows of tables that are there need no BLAS, and its guard takes longer than one row.
        tabled = self.likes.has_table and self.mask.has_table
        with nullcontext() if tabled else single_threaded_blas():
            found = ordered_map(scores, asked, n_jobs)
            for feature, score, (_, ones), floors in zip(
                features, found, asked, self._floors, strict=False
            ):
                feature[:] = floors[0]
                _put_own(feature, ones, floors[1], fitted)
                feature += np.maximum(score, 0.0, out=score)
                np.log(feature, out=feature)
        own = asked[1][1]
        features[2] = self._log_counts[0]
        _put_own(features[2], own, self._log_counts[1], fitted)
        activity = self._activity(rows)
        features[3] = np.log1p(activity)[:, None]
        features[3, own.rows, own.columns] = np.log1p(activity[own.rows] - 1.0)
        return features

    @cached_property
    def _floors(self) -> tuple[Array, Array]:
        """Floors of the scores of likes and of the mask, each for :func:`_counted` counts."""
        likes, entries = (
            (_counted(counts) + SMOOTHING * counts.mean()) * (FLOOR / self.mask.F.shape[0])
            for counts in self.popularity
        )
        return likes, entries

    @cached_property
    def _log_counts(self) -> Array:
        """``log(1 + n_j)`` for :func:`_counted` counts."""
        return np.log1p(_counted(self.popularity[1]))

    @cached_property
    def _lengths(self) -> tuple[Array, float, float]:
        """Numbers of entries of the rows that are asked about, and the range of those of the fit."""
        counts, known = (np.diff(F.indptr).astype(np.float64) for F in (self.seen, self.mask.F))
        return counts, float(known.min()), float(known.max())

    def _activity(self, rows: Positions) -> Array:
        """Return how many entries rows have; of rows that were not fitted, within the range of those that were.

        The rates say nothing of others, and where all rows of a fit are of nearly one length, its coefficient is large.
        """
        counts, least, most = self._lengths
        asked: Array = counts[rows]
        return np.where(rows < self.n_fitted, asked, np.clip(asked, least, most))


def _counted(counts: Array) -> Array:
    """Return the counts of columns in a row that has no entry there, and in one whose own entry they hold.

    The count of a column has the rows of the fit: an entry of another row is not in it.
    """
    return np.stack([counts, np.maximum(counts - 1.0, 0.0)])


def _put_own(feature: Array, ones: Ones, values: Array, fitted: NDArray[np.bool_]) -> None:
    """Put the values of columns where rows of the fit have entries."""
    kept = fitted[ones.rows]
    columns = ones.columns[kept]
    feature[ones.rows[kept], columns] = values[columns]


def indicators(labels: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the 0/1 matrices of what was liked and of what was observed."""
    liked, seen = (_where(labels, chosen) for chosen in (labels.data > 0, labels.data != 0))
    return liked, seen


def _where(labels: sp.csr_array, chosen: NDArray[np.bool_]) -> sp.csr_array:
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))[chosen]
    ones = np.ones(rows.size)
    return sp.csr_array((ones, (rows, labels.indices[chosen])), shape=labels.shape)
