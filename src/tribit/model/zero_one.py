"""Some rows of a 0/1 matrix by the places of their ones: what one row of a sparse array costs too much for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import Positions

__all__ = ["Ones"]

Vector = NDArray[np.float64]
#: Most ones of a single row whose rows of a matrix are added up in Python, a microsecond each; for more the 50
#: microseconds that SciPy takes to make a sparse array are the smaller part (measured with 1,682 columns).
ADDED_UP = 128


@dataclass(frozen=True, slots=True, eq=False)
class Ones:
    """Rows of a 0/1 matrix.

    Attributes
    ----------
    rows, columns : array of int
        Where the ones are, row after row; rows count from 0 here, whatever they are in the matrix.
    shape : (int, int)
        How many rows these are, and the columns of the matrix.
    """

    rows: NDArray[np.integer[Any]]
    columns: NDArray[np.integer[Any]]
    shape: tuple[int, int]

    @classmethod
    def of(cls, F: sp.csr_array, places: Positions | None = None) -> Ones:
        """Return the rows of a sparse array at some places, by default all of them."""
        if places is None:
            rows = np.repeat(np.arange(F.shape[0]), np.diff(F.indptr))
            return cls(rows, F.indices, F.shape)
        if places.size == 1:
            start, stop = F.indptr[places[0]], F.indptr[places[0] + 1]
            columns = F.indices[start:stop]
            return cls(np.zeros(columns.size, dtype=np.int64), columns, (1, F.shape[1]))
        return cls.of(F[places])

    def part(self, start: int, stop: int) -> Ones:
        """Return the rows from ``start`` on, before ``stop``."""
        stop = min(stop, self.shape[0])
        here = slice(*np.searchsorted(self.rows, (start, stop)).tolist())
        return Ones(self.rows[here] - start, self.columns[here], (stop - start, self.shape[1]))

    def dense(self) -> Vector:
        """Return the rows with their zeros."""
        found = np.zeros(self.shape)
        found[self.rows, self.columns] = 1.0
        return found

    def sums(self, values: Vector) -> Vector:
        """Return the sum over each row of values that are given for its ones."""
        return np.asarray(np.bincount(self.rows, values, minlength=self.shape[0]), dtype=np.float64)

    def times(self, matrix: Vector) -> Vector:
        """Return the product with a matrix.

        The rows of the matrix are added up in the order of the ones, so that the bits of a row are its own.
        """
        if self.shape[0] == 1 and self.columns.size <= ADDED_UP:
            total = np.zeros((1, matrix.shape[1]))
            for column in self.columns.tolist():
                total[0] += matrix[column]
            return total
        ones = np.ones(self.columns.size)
        ends = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        return np.asarray(sp.csr_array((ones, self.columns, ends), shape=self.shape) @ matrix)
