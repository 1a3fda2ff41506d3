"""The max-norm, ``|X|_max = min { max_i |u_i| max_j |v_j| : U V' = X }`` (Srebro and Shraibman 2005).

Two ways: exactly, as a semidefinite program, which needs cvxpy and is for small matrices; and as an interval that
shrinks to the norm, which needs nothing and takes factors of any size.

The interval comes from the dual form ``|X|_max = max |diag(p)^(1/2) X diag(q)^(1/2)|_*`` over probability vectors
``p`` on the rows and ``q`` on the columns (Lee, Recht, Salakhutdinov, Srebro and Tropp 2010). Every ``p`` and ``q``
give a lower bound, and the singular vectors of the weighted matrix give factors of ``X``, so an upper bound.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tribit.checks import check_count, check_not_negative
from tribit.errors import InvalidInputError
from tribit.paper.theory.norms import Array, Matrix, as_matrix, triangle

#: Number of rows and columns together above which a semidefinite program takes many seconds.
LARGEST_PROGRAM = 60


@dataclass(frozen=True)
class MaxNormInterval:
    """Two numbers that hold the max-norm between them.

    Parameters
    ----------
    lower, upper : float
        ``lower <= |X|_max <= upper``, up to rounding.
    """

    lower: float
    upper: float


class _Weighted(NamedTuple):
    """The result of one pair of weights: the lower bound, and factors of X with their rows' squared norms."""

    trace: float
    rows: Array
    columns: Array


def max_norm(X: Any) -> float:
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
        The norm, to the accuracy of the solver: about 1e-6 of it, or 1e-4 where the solver doubts its answer.

    Notes
    -----
    It needs cvxpy with a solver for semidefinite programs, which is no dependency of this library.
    :func:`max_norm_interval` needs nothing.
    """
    matrix = as_matrix(X)
    d1, d2 = matrix.shape
    if d1 + d2 > LARGEST_PROGRAM:
        raise InvalidInputError(
            f"The semidefinite program of a {d1} x {d2} matrix is too large, {d1 + d2} > {LARGEST_PROGRAM} rows "
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
        warnings.simplefilter("ignore")  # of an inaccurate solution, which is looked at below
        # Clarabel is the more exact of the solvers that come with cvxpy.
        problem.solve(solver="CLARABEL" if "CLARABEL" in cvxpy.installed_solvers() else None)
    found = float(problem.value) * size if problem.value is not None else np.nan
    if problem.status != cvxpy.OPTIMAL and not _is_inside(found, matrix):
        raise InvalidInputError(
            f"The semidefinite program of X ended as {problem.status}; use max_norm_interval."
        )
    return found


def max_norm_bound(U: Any, V: Any) -> float:
    """Return ``max_i |u_i| max_j |v_j|``, an upper bound of ``|U V'|_max`` for these very factors.

    Multiplying one factor by a number and dividing the other by it changes nothing. Other factors of the same
    product may give less: :func:`max_norm_interval` finds the best.

    Parameters
    ----------
    U, V : array of shape (n_rows, rank) and (n_columns, rank)
        The factors.

    Returns
    -------
    float
        The bound.
    """
    return as_matrix((U, V)).largest


def max_norm_interval(X: Any, *, tol: float = 1e-3, max_iter: int = 1000) -> MaxNormInterval:
    """Return a lower and an upper bound of ``|X|_max``, as close as asked for.

    Maximises ``|diag(p)^(1/2) X diag(q)^(1/2)|_*`` over probability vectors ``p`` and ``q``: each weight is
    multiplied by the squared length of its row in the factors that belong to the weights.

    Parameters
    ----------
    X : array, tuple (U, V), LowRankTarget or Factors
        The matrix, or factors of it of any size: an iteration takes time linear in rows and columns.
    tol : float, default=1e-3
        Stop when the bounds differ by at most this share of the upper one.
    max_iter : int, default=1000
        Most iterations; the interval holds the norm wherever they stop.

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
    # |X|_inf of factors would take a pass over all entries; the weights find a better bound anyway.
    lower, upper = (matrix.largest, np.inf) if matrix.right is None else (0.0, matrix.largest)
    floor = min(max(1e-3 * tol, 1e-12), 1e-4)
    p, q = _uniform(U.shape[0]), _uniform(V.shape[0])
    for _ in range(max_iter):
        now = _weighted(U, V, p, q)
        lower = max(lower, now.trace)
        upper = min(upper, float(np.sqrt(now.rows.max() * now.columns.max())))
        if upper - lower <= tol * upper:
            break
        p, q = _raised(p * now.rows, floor), _raised(q * now.columns, floor)
    return MaxNormInterval(min(lower, upper), upper)  # rounding may put them the wrong way round


def _weighted(U: Array, V: Array, p: Array, q: Array) -> _Weighted:
    """Return the trace norm of the weighted matrix, and the rows of the factors that attain it."""
    R1, R2 = triangle(np.sqrt(p)[:, None] * U), triangle(np.sqrt(q)[:, None] * V)
    A, values, B = np.linalg.svd(R1 @ R2.T)
    root = np.sqrt(values)
    # With A S B = R1 R2', these two multiply to U V', and no weight is divided by.
    left, right = U @ (R2.T @ B.T / root), V @ (R1.T @ A / root)
    return _Weighted(float(values.sum()), _squares(left), _squares(right))


def _full_rank(matrix: Matrix) -> tuple[Array, Array]:
    """Return factors with as many columns as the matrix has singular values above rounding."""
    U, V = matrix.factors()
    (left, upper), (right, lower) = np.linalg.qr(U), np.linalg.qr(V)
    A, values, B = np.linalg.svd(upper @ lower.T, full_matrices=False)
    kept = values > values.max(initial=0.0) * max(matrix.shape) * np.finfo(np.float64).eps
    root = np.sqrt(values[kept])
    return left @ A[:, kept] * root, right @ B[kept].T * root


def _raised(weights: Array, floor: float) -> Array:
    """Return a probability vector with a little of the uniform one mixed in.

    The dual is concave, so this costs a share ``floor`` of the bound at most, and it keeps the weighted matrix
    of full rank, without which its factors are not factors of X.
    """
    mixed = (1.0 - floor) * weights / weights.sum() + floor / weights.size
    return np.asarray(mixed)


def _uniform(size: int) -> Array:
    return np.full(size, 1.0 / size)


def _squares(F: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", F, F))


def _is_inside(norm: float, matrix: Matrix, slack: float = 1e-4) -> bool:
    """Return whether a number can be the norm: solvers doubt themselves where X has few different rows."""
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
