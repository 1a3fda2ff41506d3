"""Similar rows or columns: those whose scores correlate over the other side of the matrix.

Over the rows of the model the scores of columns j and k, ``x_ij = u_i' v_j + a_i + c_j + b`` less the effects of row
and column, have the correlation

    v_j' S v_k / sqrt(v_j' S v_j  v_k' S v_k),        S = covariance of the u_i.

It is the cosine of the factors in the geometry of the other side. It does not depend on rotation or scale of the
factors; the plain cosine ``v_j' v_k / |v_j| |v_k|`` does, unless U is orthogonal. Rows are compared alike, by the
covariance of the column factors.

The factors of a column with few entries are mostly noise. Where the entries are given, the correlation is shrunk
towards 0 by the numbers of entries n of both columns,

    similarity = correlation sqrt(n_j / (n_j + EVIDENCE)  n_k / (n_k + EVIDENCE)),

the attenuation of a correlation by measurement errors (Spearman 1904, "The proof and measurement of association between
two things"), for a share n / (n + EVIDENCE) of signal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.answers import Answer, check_headings
from tribit.checks import check_count
from tribit.data.axis import AnyArray, Axes, Positions, as_list
from tribit.data.observations import read_mask
from tribit.errors import InvalidInputError
from tribit.model.scores import HasScores, Scores, as_scores
from tribit.ranking.best_columns import best_columns

__all__ = ["Neighbours", "similar"]

Array = NDArray[np.floating[Any]]

#: Variance of scores, relative to the largest, below which a row or column has none: in float32 the ridge shrinks
#: unused factors to 1e-8 and not to 0.
NO_VARIANCE = 1e-12
#: Number of entries at which half the variance of a factor is signal. On MovieLens-100k (training entries of splits 10
#: and 11) the ten nearest of films with 100 entries or more share 6% more of their genres than at 0, as much as from 1
#: to 10, and have 140 entries in the median and not 70.
EVIDENCE = 5.0


@dataclass(frozen=True, eq=False, repr=False)
class Neighbours(Answer):
    """The nearest rows (or columns) of some rows (or columns), the most similar first.

    Attributes
    ----------
    of : array of shape (m,)
        The compared rows (or columns): the user's ids where the model has them, else positions.
    nearest : array of shape (m, n)
        Their neighbours, ids or positions alike, without itself; ties are in the order of the axis.
    similarities : array of shape (m, n)
        Correlations of the scores, from -1 to 1, shrunk towards 0 where there are few entries (see the module); 0 where
        the scores of one do not vary but for effects.
    positions : array of shape (m, n)
        The neighbours as positions.
    name : str
        Heading of the neighbours in a table.

    Examples
    --------
    >>> from tribit import BinaryMatrixCompletion, similar
    >>> table = [[1, 1, 0, -1], [1, 0, -1, -1], [0, -1, 1, 1], [-1, -1, 1, 0]]
    >>> model = BinaryMatrixCompletion(search=False, rank=1, l2=0.1, random_state=0).fit(table)
    >>> near = similar(model, rows=0, n=1)
    >>> near.of, near.nearest
    (array([0]), array([[1]]))
    """

    of: AnyArray
    nearest: AnyArray
    similarities: NDArray[np.float64]
    positions: Positions
    name: str = "column"

    def __len__(self) -> int:
        return int(self.of.size)

    def table(self) -> dict[str, AnyArray]:
        """Return a row for each pair: the row (or column), its neighbour and the similarity."""
        check_headings([self.name], ["of", "similarity"])
        return {
            "of": np.repeat(self.of, self.nearest.shape[1]),
            self.name: self.nearest.ravel(),
            "similarity": self.similarities.ravel(),
        }


def similar(
    model: HasScores | Scores,
    *,
    columns: object = None,
    rows: object = None,
    n: int = 10,
    seen: object = None,
) -> Neighbours:
    """Return the columns (or rows) whose scores agree most with those of the given ones.

    Parameters
    ----------
    model : BinaryMatrixCompletion, another system with factors, or Scores
        A fitted model.
    columns, rows : array-like, or a single value
        Those to find neighbours of, one of the two: ids where the model has ids, else positions from 0.
    n : int, default=10
        Number of neighbours, at most all others.
    seen : Observations, sparse matrix or array, optional
        The entries of the fit, by which rows (or columns) with few entries rank lower. Without it all rank alike.

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
    if (columns is None) == (rows is None):
        raise InvalidInputError("Pass either columns or rows, to find others like them.")
    scores = as_scores(model)
    axes, factors = scores.axes, scores.factors.astype("float64")
    known = None
    if seen is not None:
        known = axes.mask(read_mask(model, seen), "seen has")
    if rows is not None:
        known = None if known is None else known.T.tocsr()
        axes, factors = Axes(axes.columns, axes.rows), factors.transposed
    axis = axes.columns
    if axis.size < 2:
        raise InvalidInputError(
            f"The model has a single {axis.name}, and no other to compare it with."
        )
    n = min(check_count("n", n), axis.size - 1)
    places = axis.find(as_list(columns if rows is None else rows))
    directions = _directions(factors.row_factors, factors.column_factors)
    if known is not None:
        counts = np.bincount(known.indices, minlength=axis.size)
        directions *= np.sqrt(counts / (counts + EVIDENCE))[:, None]
    itself = sp.csr_array(sp.identity(axis.size, dtype=bool, format="csr"))
    positions, similarities = best_columns(
        lambda some: _correlations(directions, some), places, axis.size, n, itself
    )
    return Neighbours(axis.names(places), axis.names(positions), similarities, positions, axis.name)


def in_geometry(U: Array, V: Array) -> Array:
    """Return ``L' v_j``, ``S = L L'`` the covariance of U but for a factor.

    Their inner products are those of the scores over the rows, less the effects of rows and columns.
    """
    centred = U - np.mean(U, axis=0)
    # U = Q R has R' R = U' U, without squaring the condition number.
    root = np.asarray(np.linalg.qr(centred, mode="r"))
    return np.asarray(V @ root.T)


def _directions(U: Array, V: Array) -> Array:
    """Return ``L' v_j`` of length one, ``S = L L'`` the covariance of U; 0 for scores without variance."""
    directions = in_geometry(U, V)
    norms = np.linalg.norm(directions, axis=1)
    still = norms <= np.sqrt(NO_VARIANCE) * np.max(norms, initial=0.0)
    return np.asarray(np.where(still, 0.0, 1.0 / np.where(still, 1.0, norms))[:, None] * directions)


def _correlations(directions: Array, some: Positions) -> Array:
    # Not a matrix product, whose last bits depend on the number of rows, which would break ties differently.
    total = np.einsum("ik,jk->ij", directions[some], directions, optimize=False)
    return np.asarray(np.clip(total, -1.0, 1.0))
