"""The regression of every row on all others (or every column), as factors that are added to a model of one label.

    X  +  weight S,      S = F B,   B = argmin over diag(B) = 0 of  |F - F B|^2 + l2 |B|^2,     F = 1[observed]

(Steck 2019, "Embarrassingly shallow autoencoders for sparse data"; :mod:`tribit.model.column_regression`). Along the
smaller side of a matrix, with m rows or columns, S has rank m: m more columns of the factors hold it exactly. It tells
what low-rank factors do not, that two rows go together whatever the rest does: in a table of votes, two members of one
chamber.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from tribit.data.observations import Observations
from tribit.model.column_regression import choose_l2, regress_columns
from tribit.model.factors import Factors

#: Most rows or columns of the smaller side, and most cells: the factors have as many columns and numbers.
MOST_REGRESSED, MOST_NUMBERS = 256, 2**24


def regressible(shape: tuple[int, int], rank: int) -> bool:
    """Return whether a matrix is small enough on one side, and a model with that many more columns still has a rank."""
    m, n = min(shape), max(shape)
    return 2 <= m <= MOST_REGRESSED and m * n <= MOST_NUMBERS and m + rank <= n


def regression_factors(observations: Observations) -> Factors:
    """Return S of the entries that were observed, whatever their label, negative for dislikes."""
    observations = observations.here()  # no more than MOST_NUMBERS, as the factors have
    d1, d2 = observations.shape
    F = sp.csr_array(
        (np.ones(observations.n_observed), (observations.rows, observations.columns)),
        shape=(d1, d2),
    )
    if d1 < d2:
        F = sp.csr_array(F.T)
    P = regress_columns(F, choose_l2(F, np.arange(F.shape[0]))).inverse
    B = -P / P.diagonal()
    np.fill_diagonal(B, 0.0)
    if observations.n_dislikes:
        B = -B
    found = Factors.of(F.toarray(), np.ascontiguousarray(B.T))
    return found if d1 >= d2 else found.transposed


def with_regression(factors: Factors, regression: Factors, weight: float) -> Factors:
    """Return factors of ``X + weight S``; of unknowns with implicit features those of the rows themselves grow."""
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
