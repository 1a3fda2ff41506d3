"""Measured entries of a real matrix."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tribit.data import ingest
from tribit.data.entries import Entries
from tribit.data.ingest import Checked
from tribit.data.labels import Floats, as_values
from tribit.data.observations import Observations


class Measurements(Entries):
    """The measured entries of a real matrix, in row-major order; immutable.

    Parameters
    ----------
    rows, columns : array of int
        Position of each measured entry; no pair may appear twice.
    values : array of float
        Finite numbers; a measured 0 is a value like any other.
    shape : tuple of two ints
        Numbers of rows and columns of the matrix.
    row_ids, column_ids : array, optional
        The user's own distinct ids, one per row and one per column.

    Examples
    --------
    >>> Measurements.from_matrix([[0.5, float("nan")], [2.0, -1.0]])
    Measurements(2 x 2, 3 measured (75.0%), from -1 to 2)
    """

    __slots__ = ()

    def __init__(
        self,
        rows: npt.ArrayLike,
        columns: npt.ArrayLike,
        values: npt.ArrayLike,
        shape: tuple[int, int],
        row_ids: object = None,
        column_ids: object = None,
    ) -> None:
        pairs = ingest.check_pairs(rows, columns, values, shape, row_ids, column_ids)
        where = "position {}".format
        pairs = pairs._replace(values=as_values(pairs.values, where))
        self._store(ingest.merge_duplicates(pairs, "error", where))

    @classmethod
    def from_matrix(cls, X: object) -> Self:
        """Read a dense matrix, where NaN is unmeasured and 0 is a value, or the stored entries of a sparse one.

        Parameters
        ----------
        X : sparse matrix or array, or array-like, of shape (n_rows, n_columns)
            The values. The index and the columns of a pandas frame become ids, unless they count from 0.
        """
        return cls.from_checked(ingest.measurements_from_matrix(X))

    @property
    def values(self) -> Floats:
        """The measured value of each entry."""
        return self._values

    @property
    def n_measured(self) -> int:
        """Number of measured entries."""
        return len(self)

    def __repr__(self) -> str:
        return (
            f"Measurements({self.shape[0]} x {self.shape[1]}, {self.n_measured} measured "
            f"({100 * self.density:.1f}%), from {self.values.min():g} to {self.values.max():g})"
        )


def as_measurements(X: object) -> Measurements:
    """Return ``X`` itself if it is :class:`Measurements`, likes and dislikes as +1 and -1, else a matrix's values.

    Parameters
    ----------
    X : Measurements, Observations, or a matrix as in :meth:`Measurements.from_matrix`
        The measured values. In a matrix of nothing but +1, -1 and 0 the zeros are unobserved, as everywhere else.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.data.measurements import as_measurements
    >>> as_measurements(np.array([[1.5, np.nan], [0.0, -2.0]])).values
    array([ 1.5,  0. , -2. ])
    """
    if isinstance(X, Measurements):
        return X
    if not isinstance(X, Observations):
        if not _is_signs(X):
            return Measurements.from_matrix(X)
        X = Observations.from_matrix(X, zeros="unobserved")
    return Measurements.from_checked(
        Checked(X.rows, X.columns, X.labels.astype(np.float64), X.axes)
    )


def _is_signs(X: Any) -> bool:
    """Say whether a matrix has only +1, -1, 0 and NaN, a like or dislike among them."""
    values = X.tocoo().data if sp.issparse(X) else np.asarray(X)
    if values.dtype.kind not in "biuf" or not values.size:
        return False
    values = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return bool(np.isin(values, (-1, 0, 1)).all() and np.any(values))
