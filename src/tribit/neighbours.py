"""Rows or columns that are alike: whose scores move together over the other side of the matrix.

Columns j and k are alike where rows that like one like the other. Over the rows of the model the scores
``x_ij = u_i' v_j + a_i + c_j + b``, less the effects of row and column, have the correlation

    v_j' S v_k / sqrt(v_j' S v_j  v_k' S v_k),        S = covariance of the u_i.

It is the cosine of the factors in the geometry of the other side. It does not depend on how the factors are rotated or
scaled, which the plain cosine ``v_j' v_k / |v_j| |v_k|`` does where U is not orthogonal. Rows are compared alike, by
the covariance of the column factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tribit.checks import check_count
from tribit.data.axis import AnyArray, Axes, Positions, as_list
from tribit.errors import InvalidInputError
from tribit.recommend.lists import best_columns

if TYPE_CHECKING:
    from tribit.factor_model import FactorModel

__all__ = ["Neighbours", "similar"]

Array = NDArray[np.floating[Any]]

#: Share of the largest variance of scores below which a row or column has none: float32 factors that the ridge has
#: switched off are 1e-8 and not 0.
NO_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The nearest rows (or columns) of some rows (or columns), the most similar first.

    Attributes
    ----------
    of : array of shape (m,)
        Those asked for: the user's ids where the model has them, else positions.
    nearest : array of shape (m, n)
        Their neighbours, ids or positions alike. Itself is left out; equal ones come in the order of the axis.
    similarities : array of shape (m, n)
        Correlations of the scores, from -1 to 1 (:mod:`tribit.neighbours`); 0 where one of the two has the same score
        everywhere but for effects.
    positions : array of shape (m, n)
        The neighbours as positions.
    """

    of: AnyArray
    nearest: AnyArray
    similarities: NDArray[np.float64]
    positions: Positions

    def __len__(self) -> int:
        return int(self.of.size)


def similar(
    model: FactorModel, *, columns: Any = None, rows: Any = None, n: int = 10
) -> Neighbours:
    """Return the columns (or rows) whose scores agree most with those of the given ones.

    Parameters
    ----------
    model : BinaryMatrixCompletion or another system with factors
        A fitted model.
    columns, rows : array-like, or a single value
        Those to find neighbours of, one of the two: ids where the model has ids, else positions from 0.
    n : int, default=10
        Number of neighbours, at most all others.

    Returns
    -------
    Neighbours

    Examples
    --------
    >>> import numpy as np
    >>> from tribit import BinaryMatrixCompletion, similar
    >>> A = np.array([[1, 1, -1, -1], [1, 1, -1, -1], [-1, -1, 1, 1], [-1, -1, 1, 1]])
    >>> model = BinaryMatrixCompletion(rank=1, l2=0.1, random_state=0).fit(A)
    >>> similar(model, columns=[0, 3], n=1).nearest.tolist()
    [[1], [2]]
    """
    check_is_fitted(model)
    if (columns is None) == (rows is None):
        raise InvalidInputError("Pass either columns or rows, to find others like them.")
    axes = Axes.of_model(model)
    factors = model._factors().astype("float64")
    if rows is not None:
        axes, factors = Axes(axes.columns, axes.rows), factors.transposed
    axis = axes.columns
    if axis.size < 2:
        raise InvalidInputError(
            f"The model has one {axis.name} alone, and none to compare it with."
        )
    n = min(check_count("n", n), axis.size - 1)
    places = axis.find(as_list(columns if rows is None else rows))
    directions = _directions(factors.row_factors, factors.column_factors)
    itself = sp.csr_array(sp.identity(axis.size, dtype=bool, format="csr"))
    positions, similarities = best_columns(
        lambda some: _correlations(directions, some), places, axis.size, n, itself
    )
    return Neighbours(axis.names(places), axis.names(positions), similarities, positions)


def in_geometry(U: Array, V: Array) -> Array:
    """Return ``L' v_j``, ``S = L L'`` the covariance of U but for a factor.

    Their inner products are those of the scores over the rows, less the effects of rows and columns.
    """
    centred = U - np.mean(U, axis=0)
    # The triangle of U = Q R has R' R = U' U, and squares no condition number.
    root = np.asarray(np.linalg.qr(centred, mode="r"))
    return np.asarray(V @ root.T)


def _directions(U: Array, V: Array) -> Array:
    """Return ``L' v_j`` of length one, ``S = L L'`` the covariance of U; 0 for scores that do not vary."""
    directions = in_geometry(U, V)
    norms = np.linalg.norm(directions, axis=1)
    still = norms <= np.sqrt(NO_VARIANCE) * np.max(norms, initial=0.0)
    return np.asarray(np.where(still, 0.0, 1.0 / np.where(still, 1.0, norms))[:, None] * directions)


def _correlations(directions: Array, some: Positions) -> Array:
    # Not a matrix product, whose last bits differ with the number of rows: equal ones would not stay in order.
    total = np.einsum("ik,jk->ij", directions[some], directions, optimize=False)
    return np.asarray(np.clip(total, -1.0, 1.0))
