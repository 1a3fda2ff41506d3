"""The norms in which the theorems are stated, of a matrix or of one kept as its factors.

A matrix is given as an array, as a tuple ``(U, V)`` or any object with ``U`` and ``V`` (a
:class:`~tribit.simulate.LowRankTarget`) for ``U V'``, or as :class:`~tribit.model.factors.Factors`. From factors no
``d1 x d2`` array is made: sums over all entries are taken in blocks of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.factors import Factors
from tribit.simulate.entry_weights import as_distribution

Array: TypeAlias = NDArray[np.float64]

BLOCK = 1 << 18  # entries worked on at once


def nuclear_norm(X: Any) -> float:
    """Return ``|X|_*``, the sum of the singular values.

    Parameters
    ----------
    X : array, tuple (U, V), LowRankTarget or Factors
        The matrix, or its factors: then by two QR decompositions, in time linear in rows and columns.

    Returns
    -------
    float
        The norm.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import nuclear_norm
    >>> nuclear_norm(np.eye(3))
    3.0
    """
    return float(np.sum(singular_values(as_matrix(X))))


def weighted_frobenius(X: Any, M: Any = None, *, weights: Any = None) -> float:
    """Return ``|X - M|_Pi = sqrt(sum_ij pi_ij (X_ij - M_ij)^2)``, the norm of Cai and Zhou (2016).

    With uniform weights it is ``|X - M|_F / sqrt(d1 d2)``, the root of the mean square.

    Parameters
    ----------
    X : array, tuple (U, V), LowRankTarget or Factors
        The matrix.
    M : the same, or None
        Subtracted from ``X`` where given.
    weights : None, array of the same shape, or tuple (left, right)
        ``Pi`` in proportion, as in :mod:`tribit.simulate.sampling`: uniform, a matrix, or one weight for each row and
        one for each column (or a few columns of them).

    Returns
    -------
    float
        The norm.
    """
    matrix = as_matrix(X)
    other = None if M is None else as_matrix(M)
    if other is not None and other.shape != matrix.shape:
        raise InvalidInputError(
            f"X has the shape {matrix.shape} and M has {other.shape}; pass two of the same shape."
        )
    pi = as_distribution(matrix.shape, weights)
    size = max(matrix.largest, other.largest if other else 0.0)
    if size == 0.0:
        return 0.0
    step = max(1, BLOCK // matrix.shape[1])
    total = 0.0
    for start in range(0, matrix.shape[0], step):
        rows = slice(start, start + step)
        # Divided by a bound of the entries first: squares of large or small numbers leave float64.
        gap = matrix.block(rows) / size - (other.block(rows) / size if other else 0.0)
        total += float(np.sum(pi.block(rows) * gap**2))
    return float(size * np.sqrt(total))


def relative_error(X: Any, M: Any, *, weights: Any = None) -> float:
    """Return ``|X - M|_Pi / |M|_Pi``: 0 is exact, 1 is as good as a matrix of zeros.

    Parameters
    ----------
    X, M : array, tuple (U, V), LowRankTarget or Factors
        The estimate and the truth.
    weights : None, array of the same shape, or tuple (left, right)
        As in :func:`weighted_frobenius`; None gives ``|X - M|_F / |M|_F``, the error of the paper.

    Returns
    -------
    float
        The error.
    """
    size = weighted_frobenius(M, weights=weights)
    if size == 0.0:
        raise InvalidInputError(
            "M is 0 at every entry of positive weight, so no error is relative to it; "
            "use weighted_frobenius."
        )
    return weighted_frobenius(X, M, weights=weights) / size


@dataclass(frozen=True, eq=False)
class Matrix:
    """An array, or the product ``left right'`` of two, read in blocks of rows; ``right`` is None for an array."""

    left: Array
    right: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        other = self.left.shape[1] if self.right is None else self.right.shape[0]
        return self.left.shape[0], other

    @property
    def largest(self) -> float:
        """A number no entry exceeds: the largest size, or for factors the longest rows multiplied."""
        if self.right is None:
            return float(np.max(np.abs(self.left)))
        return longest_row(self.left) * longest_row(self.right)

    def block(self, rows: slice) -> Array:
        """Return rows of the matrix."""
        return self.left[rows] if self.right is None else self.left[rows] @ self.right.T

    def factors(self) -> tuple[Array, Array]:
        """Return factors of the matrix; for an array, from its singular value decomposition."""
        if self.right is not None:
            return self.left, self.right
        left, values, right = np.linalg.svd(self.left, full_matrices=False)
        root = np.sqrt(values)
        return left * root, right.T * root


def as_matrix(X: Any, name: str = "X") -> Matrix:
    """Read a matrix or its factors, or say what is wrong with it."""
    if isinstance(X, Factors):
        X = X.augmented()
    elif hasattr(X, "U") and hasattr(X, "V"):
        X = (X.U, X.V)
    if not isinstance(X, tuple):
        return Matrix(_array(name, X))
    if len(X) != 2:
        raise InvalidInputError(
            f"{name} is a tuple of {len(X)}; pass a matrix, or its two factors (U, V)."
        )
    U, V = _array("U", X[0]), _array("V", X[1])
    if U.shape[1] != V.shape[1]:
        raise InvalidInputError(
            f"U has {U.shape[1]} columns and V has {V.shape[1]}; pass factors with equally many."
        )
    return Matrix(U, V)


def singular_values(matrix: Matrix) -> Array:
    """Return the singular values, from factors without forming their product."""
    if matrix.right is None:
        return np.asarray(np.linalg.svd(matrix.left, compute_uv=False))
    product = triangle(matrix.left) @ triangle(matrix.right).T
    return np.asarray(np.linalg.svd(product, compute_uv=False))


def triangle(F: Array) -> Array:
    """Return R of the decomposition ``F = Q R``."""
    return np.asarray(np.linalg.qr(F, mode="r"))


def longest_row(F: Array) -> float:
    """Return the largest Euclidean norm of a row."""
    return float(np.max(np.linalg.norm(F, axis=1)))


def _array(name: str, values: Any) -> Array:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{name} is of type {type(values).__name__} and no array of numbers; pass a dense matrix."
        ) from None
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError(
            f"{name} has the shape {array.shape}; pass a matrix with at least one row and one column."
        )
    wrong = np.argwhere(~np.isfinite(array))
    if wrong.size:
        row, column = (int(place) for place in wrong[0])
        raise InvalidInputError(
            f"{name} is {array[row, column]} at row {row}, column {column}; pass finite numbers."
        )
    return array
