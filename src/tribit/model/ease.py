"""EASE: a ridge regression of every column on all others, in closed form, with leave-one-out scores.

For a 0/1 matrix F of users and items, or of rows and columns,

    min over B with diag(B) = 0   |F - F B|^2 + l2 |B|^2,       B = I - P / diag(P),  P = (F'F + l2 I)^-1

(Steck 2019, "Embarrassingly shallow autoencoders for sparse data"). Column j is regressed on the others only, so that
F_ij enters the prediction of entry (i, j) as a target and nowhere else. Ridge regression is linear in its targets, so

    s_ij = (F B)_ij - h_ij F_ij,        h_ij = f_i' P f_i - (P f_i)_j^2 / P_jj

is exactly the prediction of a fit with F_ij = 0; h_ij is the leverage of the target (after Allen 1974, "The
relationship between variable selection and data augmentation and a method for prediction"). Every observed entry is
thus held out at no cost, to choose l2 and to train a model on the scores. A row outside the fit has the scores ``f B``.

Scores need ``P f`` of a row and the diagonal of P. For many rows P is computed once; for few rows, or where a matrix of
columns x columns is too large, ``P f`` is solved for (:mod:`tribit.model.binary_matrices`). Along the smaller side of a
matrix, with m rows or columns, ``F B`` has rank m: :func:`regression_factors` holds it exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.data.axis import Positions
from tribit.errors import InvalidInputError
from tribit.model.binary_matrices import (
    RIGHT_HAND_SIDES,
    TOLERANCE,
    BinaryRows,
    conjugate_gradients,
    gram,
    probed_diagonal,
    ridge_inverse,
)
from tribit.model.factors import Factors

if TYPE_CHECKING:
    from tribit.data.observations import Observations

__all__ = [
    "Ease",
    "choose_l2",
    "fit_ease",
    "regressible",
    "regression_factors",
    "row_blocks",
    "with_regression",
]

Vector = NDArray[np.float64]
#: Scores computed at once.
BLOCK_SCORES = 2**20
#: Most columns for which the inverse is computed: 0.3 GB at this number, and 9 s of one core.
MAX_INVERSE_COLUMNS = 6000
#: Cost of the solution for one row, in units of observations, where that of the inverse is columns^3: measured on
#: MovieLens-100k and on 1M simulated entries, where the inverse is faster from about 100 rows on.
ROW_COST = 600
#: ``l2`` is tried at the mean number of observations of a column times these powers of 2, from the one in the middle.
MIN_POWER, FIRST_POWER, MAX_POWER = -6, 3, 16
#: Number of columns on which ``l2`` is chosen, those with most observations. It is smaller for them, by this power of
#: their share of all observations: l2 of the 512 to 1536 first columns times ``share ** -1.2`` is within 8% of that of
#: all columns, for likes and for the mask, on MovieLens-100k and on 1M simulated entries with 3,706 columns. With 1536
#: columns in the place of 1024 the NDCG of MovieLens-100k differs by less than .0002 (mean of splits 10 to 14).
CHOICE_COLUMNS, SHARE_POWER = 1024, 1.2


class Algebra:
    """Gram matrices, inverses and products by NumPy and SciPy; a subclass computes them on a device."""

    @property
    def most_columns(self) -> int:
        """Most columns for which the inverse is computed."""
        return MAX_INVERSE_COLUMNS

    def gram(self, F: sp.csr_array) -> Any:
        """Return ``F'F``."""
        return gram(F)

    def inverse(self, counts: Any, l2: float) -> Any:
        """Return ``(counts + l2 I)^-1``; the counts may be overwritten."""
        return ridge_inverse(counts, l2)

    def product(self, F: BinaryRows, inverse: Any) -> Vector:
        """Return ``F P``."""
        return F.times(inverse)

    def to_numpy(self, array: object) -> Vector:
        """Return a Gram matrix or an inverse as an array of NumPy."""
        return np.asarray(array)


class Ease:
    """A fitted regression of every column on all others.

    Parameters
    ----------
    F : sparse array
        The 0/1 matrix of the fit.
    l2 : float
        Weight of the ridge.
    diagonal : array
        The diagonal of P.
    inverse : array, optional
        P, an array of the algebra, where it has been computed.
    algebra : Algebra, optional
        Arithmetic of P; NumPy by default.
    """

    def __init__(
        self,
        F: sp.csr_array,
        l2: float,
        diagonal: Vector,
        inverse: object = None,
        algebra: Algebra | None = None,
    ) -> None:
        self.F, self.l2, self.diagonal = F, l2, diagonal
        self.algebra = Algebra() if algebra is None else algebra
        self._inverse = inverse
        self._solved = 0
        self._lock = threading.Lock()

    @property
    def has_table(self) -> bool:
        """Whether P has been computed."""
        return self._inverse is not None

    @property
    def inverse(self) -> Vector:
        """P, computed on first use."""
        return self.algebra.to_numpy(self._table())

    def _table(self) -> Any:
        """Return P as an array of the algebra."""
        with self._lock:
            if self._inverse is None:
                self._inverse = self.algebra.inverse(self.algebra.gram(self.F), self.l2)
            return self._inverse

    def scores(
        self,
        F: sp.csr_array | BinaryRows,
        fitted: NDArray[np.bool_] | None = None,
        tolerance: float = TOLERANCE,
    ) -> Vector:
        """Return ``s_ij`` of some rows for every column; with P computed, a row has the same bits in any batch.

        Parameters
        ----------
        F : sparse array or BinaryRows
            The rows.
        fitted : array of bool, optional
            Whether each is a row of the fit, by default all; ``h_ij`` is 0 for the others.
        tolerance : float
            Tolerance of the iterations, where P is not computed.
        """
        ones = F if isinstance(F, BinaryRows) else BinaryRows.of(F)
        product = self._product(ones, tolerance)
        at = product[ones.rows, ones.columns]
        own = ones.sums(at)[ones.rows] - at**2 / self.diagonal[ones.columns]
        if fitted is not None:
            own *= fitted[ones.rows]
        scores = np.divide(product, -self.diagonal, out=product)
        scores[ones.rows, ones.columns] += 1.0 - own
        return scores

    def _product(self, F: BinaryRows, tolerance: float) -> Vector:
        """Return ``F P``."""
        if self._uses_inverse(F.shape[0]):
            return self.algebra.product(F, self._table())
        found = np.empty(F.shape)
        for start in range(0, F.shape[0], RIGHT_HAND_SIDES):
            part = np.ascontiguousarray(F.part(start, start + RIGHT_HAND_SIDES).dense().T)
            try:
                solved = conjugate_gradients(self.F, self.l2, part, tolerance)
            except InvalidInputError:  # a ridge that is too small for iterations
                if F.shape[1] > self.algebra.most_columns:
                    raise
                return self.algebra.product(F, self._table())
            found[start : start + RIGHT_HAND_SIDES] = solved.T
        return found

    def _uses_inverse(self, n_rows: int) -> bool:
        """Return whether P is computed, or the rows solved so far have cost as much as P would."""
        if self._inverse is not None:
            return True
        n = self.F.shape[1]
        with self._lock:
            self._solved += n_rows
            return bool(
                n <= self.algebra.most_columns and self._solved * self.F.nnz * ROW_COST > n**3
            )

    def __getstate__(self) -> dict[str, Any]:
        # P follows from the rest and is by far the largest; a lock cannot be copied.
        return {"F": self.F, "l2": self.l2, "diagonal": self.diagonal}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def fit_ease(
    F: sp.csr_array,
    l2: float | None = None,
    rows: Positions | None = None,
    draws: np.random.Generator | None = None,
    algebra: Algebra | None = None,
) -> Ease:
    """Return the regression of every column of a 0/1 matrix on all others.

    Parameters
    ----------
    F : sparse array
        The matrix.
    l2 : float, optional
        Weight of the ridge; chosen by :func:`choose_l2` by default.
    rows : array of int, optional
        Rows on which it is chosen; all by default.
    draws : Generator, optional
        Random signs that estimate the diagonal of P where there are more columns than the algebra inverts.
    algebra : Algebra, optional
        Arithmetic of P; NumPy by default.
    """
    algebra = Algebra() if algebra is None else algebra
    exact = F.shape[1] <= algebra.most_columns or draws is None
    counts = algebra.gram(F) if exact else None
    if l2 is None:
        known = counts if isinstance(counts, np.ndarray) else None
        l2 = choose_l2(F, np.arange(F.shape[0]) if rows is None else rows, known, algebra)
    if counts is None:
        assert draws is not None
        return Ease(F, l2, probed_diagonal(F, l2, draws), algebra=algebra)
    inverse = algebra.inverse(counts, l2)
    diagonal = np.array(algebra.to_numpy(inverse.diagonal()))
    return Ease(F, l2, diagonal, inverse, algebra)


def choose_l2(
    F: sp.csr_array,
    rows: Positions,
    counts: Vector | None = None,
    algebra: Algebra | None = None,
) -> float:
    """Return the ridge with the least leave-one-out squared error over the given rows.

    Powers of 2 are tried from a first guess until the error rises; a parabola in log l2 through the best and its
    neighbours refines it. A matrix with more than ``CHOICE_COLUMNS`` columns is represented by those with most
    observations, at a ridge that is smaller by a power of their share. ``counts`` is ``F'F``, where it is known.
    """
    unit, share = F.nnz / F.shape[1], 1.0
    if F.shape[1] > CHOICE_COLUMNS:
        often = np.bincount(F.indices, minlength=F.shape[1])
        most = np.sort(np.argsort(-often, kind="stable")[:CHOICE_COLUMNS])
        share = often[most].sum() / F.nnz
        F = sp.csr_array(F[:, most])
        counts = None if counts is None else counts[np.ix_(most, most)]
    if counts is None:
        by = Algebra() if algebra is None else algebra
        counts = by.to_numpy(by.gram(F)).astype(np.float64, copy=False)
    known, part = counts, F[rows]
    errors: dict[int, float] = {}

    def error(power: int) -> float:
        if power not in errors:
            l2 = unit * share**SHARE_POWER * 2.0**power
            inverse = ridge_inverse(known.copy(), l2)
            errors[power] = _error(Ease(F, l2, inverse.diagonal(), inverse), part)
        return errors[power]

    best = FIRST_POWER
    for step in (1, -1):
        while MIN_POWER < best < MAX_POWER and error(best + step) < error(best):
            best += step
    below, above = errors.get(best - 1), errors.get(best + 1)
    if below is None or above is None:
        return float(unit * 2.0**best)
    bend = below - 2 * errors[best] + above
    shift = 0.5 * (below - above) / bend if bend > 0 else 0.0
    return float(unit * 2.0 ** (best + shift))


def row_blocks(rows: Positions, n_columns: int) -> Iterator[Positions]:
    """Return blocks of rows whose scores fit into memory."""
    step = max(1, BLOCK_SCORES // n_columns)
    return (rows[start : start + step] for start in range(0, rows.size, step))


def _error(regression: Ease, F: sp.csr_array) -> float:
    total = 0.0
    for block in row_blocks(np.arange(F.shape[0]), F.shape[1]):
        part = BinaryRows.of(F, block)
        residual = regression.scores(part)
        residual[part.rows, part.columns] -= 1.0
        total += float(np.vdot(residual, residual))
    return total


#: Most rows or columns of the smaller side, and most cells: the factors have as many columns and numbers.
MAX_REGRESSED_ROWS, MAX_REGRESSION_CELLS = 512, 2**24


def regressible(shape: tuple[int, int]) -> bool:
    """Return whether a matrix is small enough on one side for the factors of its regression."""
    m, n = min(shape), max(shape)
    return 2 <= m <= MAX_REGRESSED_ROWS and m * n <= MAX_REGRESSION_CELLS


def regression_factors(observations: Observations) -> Factors:
    """Return factors of ``F B`` along the smaller side.

    F is 1 where entries were observed, likes or dislikes. The regression is negative where dislikes were.
    """
    observations = observations.here()  # no more than MAX_REGRESSION_CELLS, as the factors have
    d1, d2 = observations.shape
    F = sp.csr_array(
        (np.ones(observations.n_observed), (observations.rows, observations.columns)),
        shape=(d1, d2),
    )
    if d1 < d2:
        F = sp.csr_array(F.T)
    P = fit_ease(F, choose_l2(F, np.arange(F.shape[0]))).inverse
    B = -P / P.diagonal()
    np.fill_diagonal(B, 0.0)
    if observations.n_dislikes:
        B = -B
    found = Factors.of(F.toarray(), np.ascontiguousarray(B.T))
    return found if d1 >= d2 else found.transposed


def with_regression(factors: Factors, regression: Factors, weight: float) -> Factors:
    """Return factors of ``X`` plus a weight times a regression.

    Of unknowns with implicit features those of the rows themselves grow.
    """
    root = np.sqrt(weight)

    def beside(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        wide = np.zeros((old.shape[0], new.shape[1]))
        wide[: new.shape[0]] = root * new
        return np.hstack([old, wide])

    return replace(
        factors,
        row_factors=beside(factors.row_factors, regression.row_factors),
        column_factors=beside(factors.column_factors, regression.column_factors),
    )
