"""Every column from all others, in closed form, and each entry as if it had not been observed.

For a 0/1 matrix F, with one row of observations in each row,

    min over B with diag(B) = 0   |F - F B|^2 + l2 |B|^2,       B = I - P / diag(P),  P = (F'F + l2 I)^-1

(Steck 2019, "Embarrassingly shallow autoencoders for sparse data"). Column j is regressed on the others only, so F_ij
enters the prediction of entry (i, j) as a target and nowhere else; as ridge regression is linear in its targets,

    s_ij = (F B)_ij - h_ij F_ij,        h_ij = f_i' P f_i - (P f_i)_j^2 / P_jj

is exactly what a fit with F_ij = 0 would say of it, h_ij being the weight of the target in its own prediction (after
Allen 1974, "The relationship between variable selection and data augmentation and a method for prediction"). So
every observed entry is a held-out one at no cost, for the choice of l2 and for whoever learns from the scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lapack

from tribit.data.axis import Positions

__all__ = ["ColumnRegression", "choose_l2", "regress_columns", "row_blocks"]

Vector = NDArray[np.float64]
#: Scores in memory at once.
BLOCK = 2**20
#: ``l2`` is tried at these powers of 2 of the mean number of observations of a column, from the one in the middle.
LOWEST, FIRST, HIGHEST = -6, 3, 16


@dataclass(frozen=True, eq=False)
class ColumnRegression:
    """A fitted regression of every column on all others: ``P`` above, and the weight of its ridge."""

    inverse: Vector
    l2: float

    def held_out(self, F: sp.csr_array) -> Vector:
        """Return ``s_ij`` of rows that the regression was fitted on, for every column; bits of a row are its own."""
        diagonal = self.inverse.diagonal()
        product = F @ self.inverse
        rows = np.repeat(np.arange(F.shape[0]), np.diff(F.indptr))
        at = product[rows, F.indices]
        own = np.bincount(rows, at, minlength=F.shape[0])
        scores = np.divide(product, -diagonal, out=product)
        scores[rows, F.indices] += 1.0 - (own[rows] - at**2 / diagonal[F.indices])
        return np.asarray(scores)


def regress_columns(F: sp.csr_array, l2: float) -> ColumnRegression:
    """Return the regression of every column of a 0/1 matrix on all others."""
    return ColumnRegression(_inverse((F.T @ F).toarray(), l2), l2)


def choose_l2(F: sp.csr_array, rows: Positions) -> float:
    """Return the ridge with the least squared error of held-out entries, over the given rows and all columns.

    Powers of 2 are tried downhill from a first guess; the parabola through the best and its neighbours, in log l2,
    gives the last digits.
    """
    gram = (F.T @ F).toarray()
    unit = F.nnz / F.shape[1]
    errors: dict[int, float] = {}

    def error(power: int) -> float:
        if power not in errors:
            l2 = unit * 2.0**power
            errors[power] = _error(ColumnRegression(_inverse(gram, l2), l2), F, rows)
        return errors[power]

    best = FIRST
    for step in (1, -1):
        while LOWEST < best < HIGHEST and error(best + step) < error(best):
            best += step
    below, above = errors.get(best - 1), errors.get(best + 1)
    if below is None or above is None:
        return float(unit * 2.0**best)
    bend = below - 2 * errors[best] + above
    shift = 0.5 * (below - above) / bend if bend > 0 else 0.0
    return float(unit * 2.0 ** (best + shift))


def row_blocks(rows: Positions, n_columns: int) -> Iterator[Positions]:
    """Return the rows in parts small enough for their scores."""
    step = max(1, BLOCK // n_columns)
    return (rows[start : start + step] for start in range(0, rows.size, step))


def _error(regression: ColumnRegression, F: sp.csr_array, rows: Positions) -> float:
    total = 0.0
    for block in row_blocks(rows, F.shape[1]):
        part = F[block]
        residual = regression.held_out(part)
        residual[np.repeat(np.arange(block.size), np.diff(part.indptr)), part.indices] -= 1.0
        total += float(np.vdot(residual, residual))
    return total


def _inverse(gram: Vector, l2: float) -> Vector:
    """Return ``(gram + l2 I)^-1`` by Cholesky, which l2 > 0 makes safe."""
    shifted = gram.astype(np.float64)
    shifted[np.diag_indices_from(shifted)] += l2
    factor, _ = lapack.dpotrf(shifted, lower=1, overwrite_a=1)
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    lower = np.tril(inverse)
    return np.ascontiguousarray(lower + np.tril(inverse, -1).T)
