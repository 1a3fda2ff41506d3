"""Some rows of a 0/1 matrix by the places of their ones: what one row of a sparse array costs too much for.

Solutions of ``(F'F + l2 I) Z = R`` for a sparse 0/1 matrix F: the dense inverse, or iterations without any table.

The inverse costs columns^3 operations and keeps columns^2 numbers. Conjugate gradients (Hestenes and Stiefel 1952) need
products with F and its transpose only: memory is that of F and of a few vectors for each right-hand side. With
``l2 > 0`` the matrix is positive definite, and its condition number ``1 + |F|^2 / l2`` is a few hundred at the ridges
that held-out entries ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from tribit.data.axis import Positions
from tribit.errors import InvalidInputError

__all__ = [
    "TOLERANCE",
    "BinaryRows",
    "conjugate_gradients",
    "gram",
    "probed_diagonal",
    "ridge_inverse",
]

Vector = NDArray[np.float64]
#: Most ones of a single row whose rows of a matrix are added up in Python, a microsecond each; for more the 50
#: microseconds that SciPy takes to make a sparse array are the smaller part (measured with 1,682 columns).
MAX_ROWS_ADDED_IN_PYTHON = 128


@dataclass(frozen=True, slots=True, eq=False)
class BinaryRows:
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
    def of(cls, F: sp.csr_array, places: Positions | None = None) -> BinaryRows:
        """Return the rows of a sparse array at some places, by default all of them."""
        if places is None:
            rows = np.repeat(np.arange(F.shape[0]), np.diff(F.indptr))
            return cls(rows, F.indices, F.shape)
        if places.size == 1:
            start, stop = F.indptr[places[0]], F.indptr[places[0] + 1]
            columns = F.indices[start:stop]
            return cls(np.zeros(columns.size, dtype=np.int64), columns, (1, F.shape[1]))
        return cls.of(F[places])

    def part(self, start: int, stop: int) -> BinaryRows:
        """Return the rows from ``start`` on, before ``stop``."""
        stop = min(stop, self.shape[0])
        here = slice(*np.searchsorted(self.rows, (start, stop)).tolist())
        return BinaryRows(
            self.rows[here] - start, self.columns[here], (stop - start, self.shape[1])
        )

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
        if self.shape[0] == 1 and self.columns.size <= MAX_ROWS_ADDED_IN_PYTHON:
            total = np.zeros((1, matrix.shape[1]))
            for column in self.columns.tolist():
                total[0] += matrix[column]
            return total
        ones = np.ones(self.columns.size)
        ends = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        return np.asarray(sp.csr_array((ones, self.columns, ends), shape=self.shape) @ matrix)


#: Residual at which iterations end, as a share of the right-hand side: scores then agree with those of the inverse to
#: about 1e-11, which is far less than two columns of a list differ by. It takes 30 to 50 iterations where we measured.
TOLERANCE = 1e-12
#: Most iterations: ten times what the ridges that are chosen need, for a ridge that a user sets.
MAX_ITERATIONS = 500
#: Random signs for the diagonal of the inverse, and the residual of their solutions. On 1M drawn entries with 3,706
#: columns the estimate is off by 1% (root mean square; 7% at worst), of which the tolerance has no part.
PROBES, PROBE_TOLERANCE = 64, 1e-4
#: Right-hand sides solved together: the cost of each falls until about 8, and memory grows.
RIGHT_HAND_SIDES = 16
#: Cost of one pair of observations of a row, in multiplications of dense matrices: measured on MovieLens-100k and on 1M
#: drawn entries. Rows of a dense product at once, and most rows whose counts single precision holds exactly.
PAIR_COST, DENSE_ROWS, EXACT_COUNTS = 400, 1024, 2**24
#: Columns of the inverse that are mirrored at once: a square of them fits a core's cache.
MIRROR_BLOCK = 256


def gram(F: sp.csr_array) -> Vector:
    """Return ``F'F`` of a 0/1 matrix, dense: counts, so that any order of summation gives the same bits."""
    n_rows, n = F.shape
    pairs = float(np.sum(np.diff(F.indptr).astype(np.float64) ** 2))
    if n_rows > EXACT_COUNTS or PAIR_COST * pairs < float(n_rows) * n * n:
        return np.asarray((F.T @ F).toarray(), dtype=np.float64, order="C")
    lower = np.zeros((n, n), dtype=np.float32, order="F")
    single = F.astype(np.float32)
    for start in range(0, n_rows, DENSE_ROWS):
        part = single[start : start + DENSE_ROWS].toarray()
        lower = blas.ssyrk(1.0, part.T, beta=1.0, c=lower, lower=1, overwrite_c=1)
    return _mirror_upper(lower.T.astype(np.float64, order="C"))


def ridge_inverse(gram: Vector, l2: float) -> Vector:
    """Return ``(gram + l2 I)^-1`` by Cholesky, which l2 > 0 makes safe; the memory of ``gram`` is used for it.

    ``gram`` is symmetric and in C order: LAPACK reads it as its own transpose, and no copy is made.
    """
    gram[np.diag_indices_from(gram)] += l2
    factor, _ = lapack.dpotrf(gram.T, lower=1, overwrite_a=1)
    lower, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    return _mirror_upper(np.ascontiguousarray(lower.T))


def conjugate_gradients(
    F: sp.csr_array, l2: float, R: Vector, tolerance: float = TOLERANCE
) -> Vector:
    """Return ``(F'F + l2 I)^-1 R``; the residual of each column of R is at most ``tolerance`` times its own length."""
    back = F.T
    Z, residual, direction = np.zeros_like(R), R.copy(), R.copy()
    squares = _dots(R, R)
    goal = tolerance**2 * squares
    for _ in range(MAX_ITERATIONS):
        going = squares > goal
        if not going.any():
            return Z
        image = back @ (F @ direction)
        image += l2 * direction
        # A column that has arrived, or that is zero, stays where it is: no other decides how often it moves.
        step = np.divide(squares, _dots(direction, image), out=np.zeros_like(squares), where=going)
        Z += step * direction
        residual -= step * image
        after = _dots(residual, residual)
        direction *= np.divide(after, squares, out=np.zeros_like(squares), where=going)
        direction += residual
        squares = after
    raise InvalidInputError(
        f"l2={l2:g} is so small for {F.shape[1]} columns that the regression was not solved in {MAX_ITERATIONS} "
        "iterations; set a larger l2, or leave it to be chosen."
    )


def probed_diagonal(F: sp.csr_array, l2: float, draws: np.random.Generator) -> Vector:
    """Return an estimate of the diagonal of ``(F'F + l2 I)^-1``: the mean of ``z * (P z)`` over random signs z.

    (Hutchinson 1990; Bekas, Kokiopoulou and Saad 2007, "An estimator for the diagonal of a matrix".) The variance for
    one sign is the sum of squares of the rest of the row of P. It is brought into the bounds that the diagonal has,
    ``1 / (G_jj + l2) <= P_jj <= 1 / l2``.
    """
    n = F.shape[1]
    total = np.zeros(n)
    for _ in range(0, PROBES, RIGHT_HAND_SIDES):
        signs: Vector = np.where(draws.random((n, RIGHT_HAND_SIDES)) < 0.5, -1.0, 1.0)
        solved = conjugate_gradients(F, l2, signs, PROBE_TOLERANCE)
        total += np.einsum("ij,ij->i", signs, solved)
    least = 1.0 / (np.asarray(F.sum(axis=0), dtype=np.float64) + l2)
    return np.clip(total / PROBES, least, 1.0 / l2)


def _dots(A: Vector, B: Vector) -> Vector:
    return np.asarray(np.einsum("ij,ij->j", A, B))


def _mirror_upper(upper: Vector) -> Vector:
    """Return a symmetric matrix of which the upper triangle is given, in its place."""
    for start in range(0, len(upper), MIRROR_BLOCK):
        stop = start + MIRROR_BLOCK
        square = upper[start:stop, start:stop]
        square[:] = np.triu(square) + np.triu(square, 1).T
        upper[stop:, start:stop] = upper[start:stop, stop:].T
    return upper
