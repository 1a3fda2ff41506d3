"""Real values at some entries of a matrix: what least squares and norm minimisation are fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tribit.data import frames
from tribit.data.ids import AnyArray, Positions
from tribit.data.ingest import check_shape
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Measurements:
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

    rows: Positions
    columns: Positions
    values: Values
    shape: tuple[int, int]
    row_ids: AnyArray | None = None
    column_ids: AnyArray | None = None

    def __post_init__(self) -> None:
        given = np.asarray(self.values)
        if np.iscomplexobj(given):
            raise InvalidInputError("Complex data not supported: values must be real numbers.")
        values = given.astype(np.float64)
        if values.ndim != 1:
            raise InvalidInputError(
                f"values must be one row of numbers; got the shape {values.shape}."
            )
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            raise InvalidInputError(
                f"The value at position {wrong[0]} is {values[wrong[0]]!r}; measured values must be finite."
            )
        # The checks of positions, ids, shape and repeats are those of likes and dislikes.
        seen = Observations.from_pairs(
            self.rows,
            self.columns,
            np.ones(values.size, dtype=np.int8),
            shape=self.shape,
            row_ids=self.row_ids,
            column_ids=self.column_ids,
        )
        order = np.lexsort((np.asarray(self.columns), np.asarray(self.rows)))
        values = values[order]
        values.flags.writeable = False
        for name, value in (
            ("rows", seen.rows),
            ("columns", seen.columns),
            ("values", values),
            ("shape", seen.shape),
            ("row_ids", seen.row_ids),
            ("column_ids", seen.column_ids),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_matrix(cls, X: Any) -> Self:
        """Read a dense matrix, where NaN is unmeasured and 0 is a value, or the stored entries of a sparse one.

        Parameters
        ----------
        X : sparse matrix or array, or array-like, of shape (n_rows, n_columns)
            The values. The index and the columns of a pandas frame become ids, unless they count from 0.
        """
        row_ids, column_ids = frames.labels_of(X)
        check_shape(X.shape if sp.issparse(X) else np.shape(X))
        if sp.issparse(X):
            stored = X.tocoo()
            rows, columns, values, shape = stored.row, stored.col, stored.data, X.shape
        else:
            dense = np.asarray(X)
            dense = dense if np.iscomplexobj(dense) else dense.astype(np.float64)
            rows, columns = np.nonzero(~np.isnan(dense))
            values, shape = dense[rows, columns], dense.shape
        if not len(values):
            raise InvalidInputError("X has no measured entry; give it a value that is not NaN.")
        return cls(rows, columns, values, shape, row_ids, column_ids)

    @property
    def n_measured(self) -> int:
        """How many entries were measured."""
        return int(self.values.size)

    @property
    def density(self) -> float:
        """The share of the entries that were measured."""
        return self.n_measured / (self.shape[0] * self.shape[1])

    def to_sparse(self) -> sp.csr_array:
        """Return the measured entries as a sparse matrix; a measured 0 is stored."""
        return sp.csr_array((self.values, (self.rows, self.columns)), shape=self.shape)

    def __repr__(self) -> str:
        return (
            f"Measurements({self.shape[0]} x {self.shape[1]}, {self.n_measured} measured "
            f"({100 * self.density:.1f}%), from {self.values.min():g} to {self.values.max():g})"
        )


def as_measurements(X: Any) -> Measurements:
    """Return ``X`` itself if it is :class:`Measurements`, likes and dislikes as +1 and -1, else a matrix's values.

    Parameters
    ----------
    X : Measurements, Observations, or a matrix as in :meth:`Measurements.from_matrix`
        What was measured. In a matrix of nothing but +1, -1 and 0 the zeros are unobserved, as everywhere else.
    """
    if isinstance(X, Measurements):
        return X
    if not isinstance(X, Observations):
        if not _is_signs(X):
            return Measurements.from_matrix(X)
        X = Observations.from_matrix(X)
    return Measurements(
        X.rows, X.columns, X.labels.astype(np.float64), X.shape, X.row_ids, X.column_ids
    )


def _is_signs(X: Any) -> bool:
    """Say whether a matrix has only +1, -1, 0 and NaN, a like or dislike among them."""
    values = X.tocoo().data if sp.issparse(X) else np.asarray(X)
    if values.dtype.kind not in "biuf" or not values.size:
        return False
    values = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return bool(np.isin(values, (-1, 0, 1)).all() and np.any(values))
