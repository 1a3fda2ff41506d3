"""The norms of the theorems, for a matrix or its factors.

A matrix is given as an array, as a tuple ``(U, V)`` or any object with ``U`` and ``V`` (a
:class:`~tribit.simulate.LowRankTarget`) for ``U V'``, or as :class:`~tribit.model.factors.Factors`. Factors
are never multiplied to a ``d1 x d2`` array: sums over all entries go by blocks of rows.

The max-norm, ``|X|_max = min { max_i |u_i| max_j |v_j| : U V' = X }`` (Srebro and Shraibman 2005), is exact as a
semidefinite program, for small matrices and with cvxpy; or an interval that shrinks to the norm, for factors of any
size, from the dual form ``|X|_max = max |diag(p)^(1/2) X diag(q)^(1/2)|_*`` over probability vectors
``p`` on the rows and ``q`` on the columns (Lee, Recht, Salakhutdinov, Srebro and Tropp 2010). Every ``p`` and ``q``
give a lower bound, and the singular vectors of the weighted matrix give factors of ``X`` and so an upper bound.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.checks import check_count, check_not_negative
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.model.factors import Factors
from tribit.simulate.sampling import as_distribution

Array: TypeAlias = NDArray[np.float64]

BLOCK_ENTRIES = 1 << 18  # of a block of rows
#: Largest number of rows plus columns of a semidefinite program, which takes seconds.
MAX_PROGRAM_SIDES = 60


def nuclear_norm(X: object) -> float:
    """Return ``|X|_*``, the sum of the singular values.

    Parameters
    ----------
    X : array, tuple (U, V), LowRankTarget or Factors
        The matrix, or its factors: then by two QR decompositions, in time linear in rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import nuclear_norm
    >>> nuclear_norm(np.eye(3))
    3.0
    """
    return float(np.sum(singular_values(as_matrix(X))))


def weighted_frobenius(X: object, M: object = None, *, weights: object = None) -> float:
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

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import weighted_frobenius
    >>> round(weighted_frobenius(2 * np.ones((3, 2))), 6)
    2.0
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
    step = max(1, BLOCK_ENTRIES // matrix.shape[1])
    total = 0.0
    for start in range(0, matrix.shape[0], step):
        rows = slice(start, start + step)
        # Divided by a bound of the entries first: squares of large or small numbers leave float64.
        gap = matrix.block(rows) / size - (other.block(rows) / size if other else 0.0)
        total += float(np.sum(pi.block(rows) * gap**2))
    return float(size * np.sqrt(total))


def relative_error(X: object, M: object, *, weights: object = None) -> float:
    """Return ``|X - M|_Pi / |M|_Pi``: 0 is exact, 1 is as good as a matrix of zeros.

    Parameters
    ----------
    X, M : array, tuple (U, V), LowRankTarget or Factors
        The estimate and the truth.
    weights : None, array of the same shape, or tuple (left, right)
        As in :func:`weighted_frobenius`; None gives ``|X - M|_F / |M|_F``, the error of the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import relative_error
    >>> M = np.ones((3, 2))
    >>> relative_error(M, M), relative_error(0 * M, M)
    (0.0, 1.0)
    """
    size = weighted_frobenius(M, weights=weights)
    if size == 0.0:
        raise InvalidInputError(
            "M is 0 at every entry of positive weight, so no error is relative to it; "
            "use weighted_frobenius."
        )
    return weighted_frobenius(X, M, weights=weights) / size


@dataclass(frozen=True)
class MaxNormInterval:
    """A lower and an upper bound of the max-norm.

    Parameters
    ----------
    lower, upper : float
        ``lower <= |X|_max <= upper``, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import max_norm_interval
    >>> found = max_norm_interval(np.ones((3, 2)))
    >>> round(found.lower, 3), round(found.upper, 3)
    (1.0, 1.0)
    """

    lower: float
    upper: float


class _WeightedFactors(NamedTuple):
    """The result of one pair of weights: the lower bound, and factors of X with their rows' squared norms."""

    trace: float
    rows: Array
    columns: Array


def max_norm(X: object) -> float:
    """Return ``|X|_max`` by a semidefinite program.

    Minimises ``t`` over symmetric ``[[A, X], [X', B]] >= 0`` whose diagonal is at most ``t`` (Srebro, Rennie and
    Jaakkola 2005, *Maximum-margin matrix factorization*).

    Parameters
    ----------
    X : array, tuple (U, V), LowRankTarget or Factors
        The matrix, of at most 60 rows and columns together.

    Returns
    -------
    float
        The norm, to the accuracy of the solver: about 1e-6 of it, or 1e-4 where it reports an inaccurate result.

    Notes
    -----
    It needs cvxpy with a solver for semidefinite programs, not a dependency of this library.
    :func:`max_norm_interval` needs neither.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import max_norm
    >>> round(max_norm(np.array([[1.0, 1.0], [1.0, -1.0]])), 3)
    1.414
    """
    matrix = as_matrix(X)
    d1, d2 = matrix.shape
    if d1 + d2 > MAX_PROGRAM_SIDES:
        raise InvalidInputError(
            f"The semidefinite program of a {d1} x {d2} matrix is too large, {d1 + d2} > {MAX_PROGRAM_SIDES} rows "
            "and columns; use max_norm_interval."
        )
    dense = matrix.block(slice(None))
    size = float(np.max(np.abs(dense)))
    if size == 0.0:
        return 0.0
    cvxpy = _cvxpy()
    whole = cvxpy.Variable((d1 + d2, d1 + d2), PSD=True)
    value = cvxpy.max(cvxpy.diag(whole))
    problem = cvxpy.Problem(cvxpy.Minimize(value), [whole[:d1, d1:] == dense / size])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an inaccurate solution, checked below
        # Clarabel is the most accurate solver of cvxpy.
        problem.solve(solver="CLARABEL" if "CLARABEL" in cvxpy.installed_solvers() else None)
    found = float(problem.value) * size if problem.value is not None else np.nan
    if problem.status != cvxpy.OPTIMAL and not _is_inside(found, matrix):
        raise InvalidInputError(
            f"The semidefinite program of X ended as {problem.status}; use max_norm_interval."
        )
    return found


def max_norm_bound(U: object, V: object) -> float:
    """Return ``max_i |u_i| max_j |v_j|``, an upper bound of ``|U V'|_max`` for these very factors.

    The bound is invariant to the scale of one factor against the other. Other factors of the same product may give
    less: :func:`max_norm_interval` finds the best.

    Parameters
    ----------
    U, V : array of shape (n_rows, rank) and (n_columns, rank)
        The factors.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import max_norm_bound
    >>> max_norm_bound(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]]))
    5.0
    """
    return as_matrix((U, V)).largest


def max_norm_interval(X: object, *, tol: float = 1e-3, max_iter: int = 1000) -> MaxNormInterval:
    """Return a lower and an upper bound of ``|X|_max`` within ``tol``.

    Maximises ``|diag(p)^(1/2) X diag(q)^(1/2)|_*`` over probability vectors ``p`` and ``q``: each weight is
    multiplied by the squared length of its row in the factors that belong to the weights.

    Parameters
    ----------
    X : array, tuple (U, V), LowRankTarget or Factors
        The matrix, or factors of it of any size: an iteration takes time linear in rows and columns.
    tol : float, default=1e-3
        Stop when the bounds differ by at most this share of the upper one.
    max_iter : int, default=1000
        Largest number of iterations; the bounds hold after any number.

    Returns
    -------
    MaxNormInterval
        ``lower`` is at least ``|X|_inf`` of an array, ``upper`` at most :func:`max_norm_bound` of factors.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.paper.theory import max_norm_interval
    >>> round(max_norm_interval(np.array([[1.0, 1.0], [1.0, -1.0]])).upper, 6)
    1.414214
    """
    matrix, tol = as_matrix(X), check_not_negative("tol", tol)
    max_iter = check_count("max_iter", max_iter)
    U, V = _full_rank(matrix)
    if not U.shape[1]:
        return MaxNormInterval(0.0, 0.0)
    # |X|_inf of factors needs a pass over all entries; the weights give a better bound.
    lower, upper = (matrix.largest, np.inf) if matrix.right is None else (0.0, matrix.largest)
    floor = min(max(1e-3 * tol, 1e-12), 1e-4)
    p, q = (np.full(len(F), 1.0 / len(F)) for F in (U, V))
    for _ in range(max_iter):
        now = _weighted_factors(U, V, p, q)
        lower = max(lower, now.trace)
        upper = min(upper, float(np.sqrt(now.rows.max() * now.columns.max())))
        if upper - lower <= tol * upper:
            break
        p, q = _mix_with_uniform(p * now.rows, floor), _mix_with_uniform(q * now.columns, floor)
    return MaxNormInterval(min(lower, upper), upper)  # rounding may exchange them


def _weighted_factors(U: Array, V: Array, p: Array, q: Array) -> _WeightedFactors:
    """Return the trace norm of the weighted matrix, and the rows of the factors that attain it."""
    R1, R2 = triangle(np.sqrt(p)[:, None] * U), triangle(np.sqrt(q)[:, None] * V)
    A, values, B = np.linalg.svd(R1 @ R2.T)
    root = np.sqrt(values)
    # With A S B = R1 R2' the product of these is U V', without a division by weights.
    left, right = U @ (R2.T @ B.T / root), V @ (R1.T @ A / root)
    return _WeightedFactors(float(values.sum()), _squared_lengths(left), _squared_lengths(right))


def _full_rank(matrix: Matrix) -> tuple[Array, Array]:
    """Return factors with as many columns as the matrix has singular values above rounding."""
    U, V = matrix.factors()
    (left, upper), (right, lower) = np.linalg.qr(U), np.linalg.qr(V)
    A, values, B = np.linalg.svd(upper @ lower.T, full_matrices=False)
    kept = values > values.max(initial=0.0) * max(matrix.shape) * np.finfo(np.float64).eps
    root = np.sqrt(values[kept])
    return left @ A[:, kept] * root, right @ B[kept].T * root


def _mix_with_uniform(weights: Array, floor: float) -> Array:
    """Return a probability vector with a little of the uniform one mixed in.

    The dual is concave, so this costs a share ``floor`` of the bound at most, and it keeps the weighted matrix
    of full rank, without which its factors are not factors of X.
    """
    mixed = (1.0 - floor) * weights / weights.sum() + floor / weights.size
    return np.asarray(mixed)


def _squared_lengths(F: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", F, F))


def _is_inside(norm: float, matrix: Matrix, slack: float = 1e-4) -> bool:
    """Return whether a number can be the norm: solvers report inaccurate results where X has few different rows."""
    X = matrix.left if matrix.right is None else (matrix.left, matrix.right)
    interval = max_norm_interval(X, tol=slack)
    return (1.0 - slack) * interval.lower <= norm <= (1.0 + slack) * interval.upper


def _cvxpy() -> Any:
    try:
        import cvxpy  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InvalidInputError(
            "max_norm needs cvxpy with a solver such as Clarabel: install them with pip install cvxpy, "
            "or use max_norm_interval."
        ) from None
    return cvxpy


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
        """An upper bound of the entries: the largest size, or the product of the longest rows of the factors."""
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


def as_matrix(X: object, name: str = "X") -> Matrix:
    """Read a matrix or its factors, and refuse anything else."""
    if isinstance(X, Factors):
        X = X.product_factors()
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


def _array(name: str, values: object) -> Array:
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
