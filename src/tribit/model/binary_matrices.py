"""Linear algebra of sparse 0/1 matrices: products of single rows, and solutions of ``(F'F + l2 I) Z = R``.

The dense inverse takes columns^3 operations and columns^2 numbers. Conjugate gradients (Hestenes and Stiefel 1952) need
products with F and its transpose only, and a few vectors for each right-hand side. With ``l2 > 0`` the matrix is
positive definite; at the ridges that held-out entries choose, its condition number ``1 + |F|^2 / l2`` is a few hundred.
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
#: Most ones of a single row for which rows of a matrix are added in Python, at a microsecond each. A sparse array of
#: SciPy, at 50 microseconds, is faster for more (measured with 1,682 columns).
MAX_ROWS_ADDED_IN_PYTHON = 128

#: Columns of a matrix whose rows are added at once: so many of 4,000 rows fit a core's cache, and sums take half the
#: time. Copies of them pay where each row is added so often, on average.
SLAB, MIN_ADDED_PER_COPIED = 64, 4


@dataclass(frozen=True, slots=True, eq=False)
class BinaryRows:
    """Rows of a 0/1 matrix by the positions of their ones, faster for single rows than a sparse array.

    Attributes
    ----------
    rows, columns : array of int
        Positions of the ones, row after row. Rows are numbered from 0, whatever their positions in the matrix.
    shape : (int, int)
        Number of these rows, and of the columns of the matrix.
    """

    rows: NDArray[np.integer[Any]]
    columns: NDArray[np.integer[Any]]
    shape: tuple[int, int]

    @classmethod
    def of(cls, F: sp.csr_array, places: Positions | None = None) -> BinaryRows:
        """Return the rows of a sparse array at some positions, by default all."""
        if places is None:
            rows = np.repeat(np.arange(F.shape[0]), np.diff(F.indptr))
            return cls(rows, F.indices, F.shape)
        if places.size == 1:
            start, stop = F.indptr[places[0]], F.indptr[places[0] + 1]
            columns = F.indices[start:stop]
            return cls(np.zeros(columns.size, dtype=np.int64), columns, (1, F.shape[1]))
        return cls.of(F[places])

    def part(self, start: int, stop: int) -> BinaryRows:
        """Return the rows from ``start`` to ``stop - 1``."""
        stop = min(stop, self.shape[0])
        here = slice(*np.searchsorted(self.rows, (start, stop)).tolist())
        return BinaryRows(
            self.rows[here] - start, self.columns[here], (stop - start, self.shape[1])
        )

    def dense(self) -> Vector:
        """Return the rows as a dense array."""
        found = np.zeros(self.shape)
        found[self.rows, self.columns] = 1.0
        return found

    def sums(self, values: Vector) -> Vector:
        """Return the sums over each row of values at its ones."""
        return np.asarray(np.bincount(self.rows, values, minlength=self.shape[0]), dtype=np.float64)

    def times(self, matrix: Vector) -> Vector:
        """Return the product with a matrix.

        Its rows are added in the order of the ones, so that a row has the same bits beside any other rows.
        """
        if self.shape[0] == 1 and self.columns.size <= MAX_ROWS_ADDED_IN_PYTHON:
            total = np.zeros((1, matrix.shape[1]))
            for column in self.columns.tolist():
                total[0] += matrix[column]
            return total
        ones = np.ones(self.columns.size)
        ends = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        rows = sp.csr_array((ones, self.columns, ends), shape=self.shape)
        if self.columns.size < MIN_ADDED_PER_COPIED * matrix.shape[0]:
            return np.asarray(rows @ matrix)
        found = np.empty((self.shape[0], matrix.shape[1]))
        for start in range(0, matrix.shape[1], SLAB):
            inside = slice(start, start + SLAB)
            found[:, inside] = rows @ np.ascontiguousarray(matrix[:, inside])
        return found


#: Residual relative to the right-hand side at which the iterations stop, usually after 30 to 50. Scores then agree with
#: those of the inverse to about 1e-11.
TOLERANCE = 1e-12
#: Most iterations: ten times the number for the ridges that are chosen, in case a user sets a smaller one.
MAX_ITERATIONS = 500
#: Number of random sign vectors for the diagonal of the inverse, and the tolerance of their solutions. On 1M simulated
#: entries with 3,706 columns the root mean square error of the estimate is 1% (7% at worst), whatever the tolerance.
PROBES, PROBE_TOLERANCE = 64, 1e-4
#: Right-hand sides solved together: the time for each falls until about 8, and memory grows.
RIGHT_HAND_SIDES = 16
#: Cost of one pair of observations of a row, in multiplications of dense matrices: measured on MovieLens-100k and on 1M
#: simulated entries. Rows of a dense product and columns of a sparse one at once, and most rows whose counts are exact
#: in single precision.
PAIR_COST, DENSE_ROWS, SPARSE_COLUMNS, EXACT_COUNTS = 400, 1024, 256, 2**24
#: Columns that are mirrored at once: a square block of them fits a core's cache.
MIRROR_BLOCK = 256


def gram(F: sp.csr_array) -> Vector:
    """Return the dense ``F'F`` of a 0/1 matrix: counts, whose bits do not depend on the order of summation.

    Products of the columns with most observations are dense, and all others sparse.
    """
    n_rows, n = F.shape
    is_exact = n_rows <= EXACT_COUNTS
    # Sparse products take as many pairs for a column as its rows have observations.
    pairs = np.asarray(F.T @ np.diff(F.indptr).astype(np.float64))
    order = np.argsort(-pairs, kind="stable")
    cost = PAIR_COST * np.append(np.cumsum(pairs[order[::-1]])[::-1], 0.0)
    cost += float(n_rows) * np.arange(n + 1.0) ** 2
    n_dense = int(np.argmin(cost)) if is_exact else 0
    ones = F.astype(np.float32) if is_exact else F
    dense, rare = np.sort(order[:n_dense]), np.sort(order[n_dense:])
    found = np.empty((n, n))
    by_column = sp.csr_array(ones.T)
    for start in range(0, rare.size, SPARSE_COLUMNS):
        part = rare[start : start + SPARSE_COLUMNS]
        found[part] = (by_column[part] @ ones).toarray()
    if n_dense:
        found[np.ix_(dense, rare)] = found[np.ix_(rare, dense)].T
        found[np.ix_(dense, dense)] = _dense_gram(sp.csr_array(ones[:, dense]))
    return found


def _dense_gram(F: sp.csr_array) -> NDArray[np.float32]:
    """Return ``F'F`` by dense products in single precision."""
    n_rows, n = F.shape
    lower = np.zeros((n, n), dtype=np.float32, order="F")
    for start in range(0, n_rows, DENSE_ROWS):
        part = F[start : start + DENSE_ROWS].toarray()
        lower = blas.ssyrk(1.0, part.T, beta=1.0, c=lower, lower=1, overwrite_c=1)
    return _mirror_upper(lower.T)


def ridge_inverse(gram: Vector, l2: float) -> Vector:
    """Return ``(gram + l2 I)^-1`` by Cholesky's method, for l2 > 0; ``gram`` is overwritten.

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
        # A column that has converged, or is zero, does not change: its bits do not depend on the others.
        step = np.divide(squares, _dots(direction, image), out=np.zeros_like(squares), where=going)
        Z += step * direction
        residual -= step * image
        after = _dots(residual, residual)
        direction *= np.divide(after, squares, out=np.zeros_like(squares), where=going)
        direction += residual
        squares = after
    raise InvalidInputError(
        f"l2={l2:g} is so small for {F.shape[1]} columns that the regression did not converge in {MAX_ITERATIONS} "
        "iterations; set a larger l2, or leave it out so that it is chosen."
    )


def probed_diagonal(F: sp.csr_array, l2: float, draws: np.random.Generator) -> Vector:
    """Return an estimate of the diagonal of ``(F'F + l2 I)^-1``: the mean of ``z * (P z)`` over random signs z.

    (Hutchinson 1990; Bekas, Kokiopoulou and Saad 2007, "An estimator for the diagonal of a matrix".) The variance for
    one sign is the sum of squares of the rest of the row of P. The estimate is clipped to the bounds of the diagonal,
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


def _mirror_upper(upper: NDArray[Any]) -> NDArray[Any]:
    """Copy the upper triangle of a matrix to the lower one in place, and return it."""
    for start in range(0, len(upper), MIRROR_BLOCK):
        stop = start + MIRROR_BLOCK
        square = upper[start:stop, start:stop]
        square[:] = np.triu(square) + np.triu(square, 1).T
        upper[stop:, start:stop] = upper[start:stop, stop:].T
    return upper
