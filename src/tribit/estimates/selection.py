"""The probability ``q_ij`` that a cell is seen: uniform within a row, given, or by a model of rows and columns.

    logit q_ij = t_i + c_j,    sum over j of q_ij = number of seen cells of row i

The effects ``c_j`` of the columns are fitted to the mask of other rows (:func:`tribit.propensity.row_column`), and the
level ``t_i`` of a row solves the equation. Labels do not enter: intervals assume that whether a cell is seen does not
depend on its label, given the row and the column. The effects have errors, which make intervals wider: those of
``c_j`` have the variance ``1 / (sum_i q_ij (1 - q_ij) + 1)`` by the curvature of the penalised likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, logit

from tribit.data.observations import Observations
from tribit.propensity.fits import row_column

__all__ = ["Probabilities", "Selection", "given", "modelled", "uniform"]

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]


class Probabilities(NamedTuple):
    """Probabilities of cells to be seen.

    Attributes
    ----------
    q : array of shape (n, d2)
        Probabilities.
    errors : array of shape (n, d2) or float
        Variances of their log-odds; 0 where they are known.
    """

    q: Array
    errors: Array | float = 0.0


#: Probabilities of the cells of some rows; None where they are uniform within each row.
Selection: TypeAlias = Callable[[Positions], Probabilities | None]

#: Weight of the penalty on the effects of rows and columns.
PENALTY = 1.0
#: Smallest modelled probability, as a share of the seen share of the row; it bounds the weights.
FLOOR_SHARE = 0.1
#: Rows whose probabilities are in memory at a time.
BLOCK_ROWS = 1024
#: Steps of Newton's method for the level of a row.
LEVEL_STEPS = 30


def uniform(_: Positions) -> None:
    """Return that the cells of a row have the same probability."""


def given(q: Array) -> Selection:
    """Return probabilities that are known."""
    return lambda rows: Probabilities(q[rows])


def modelled(labels: sp.csr_array, folds: Positions, informative: NDArray[np.bool_]) -> Selection:
    """Return probabilities by a model of the mask, cross-fitted by folds of rows.

    Parameters
    ----------
    labels : sparse array of shape (d1, d2)
        The seen cells.
    folds : array of shape (d1,)
        The fold of each row.
    informative : array of shape (d1,)
        Rows whose masks show what is selected: those with seen and unseen cells.
    """
    n, m = labels.shape
    seen = np.diff(labels.indptr)
    floors = FLOOR_SHARE * np.maximum(seen, 1)[:, None] / m
    effects, errors = np.zeros((2, int(folds.max()) + 1, m))
    for fold in range(len(effects)):
        others = np.flatnonzero(informative & (folds != fold))
        if others.size:
            part = labels[others]
            places = part.nonzero()
            mask = Observations.from_pairs(
                places[0], places[1], np.ones(part.nnz), shape=(others.size, m)
            )
            model = row_column(mask, l2=PENALTY)
            effects[fold] = model.factors.column_intercepts
            curvature = np.zeros(m)
            for start in range(0, others.size, BLOCK_ROWS):
                q = model.probability_of_rows(slice(start, start + BLOCK_ROWS))
                curvature += (q * (1 - q)).sum(axis=0)
            errors[fold] = 1 / (curvature + PENALTY)
    levels = np.zeros(n)
    for fold in range(len(effects)):
        here = np.flatnonzero(informative & (folds == fold))
        counts, place = np.unique(seen[here], return_inverse=True)
        levels[here] = _levels(effects[fold], counts)[place]

    def probabilities(rows: Positions) -> Probabilities:
        q = expit(levels[rows, None] + effects[folds[rows]])
        return Probabilities(np.maximum(q, floors[rows]), errors[folds[rows]])

    return probabilities


def _levels(effects: Array, counts: Positions) -> Array:
    """Return the levels at which the probabilities of a row sum to each number of seen cells."""
    found: Array = logit(counts / effects.size) - effects.mean()
    for _ in range(LEVEL_STEPS):
        q = expit(found[:, None] + effects)
        slope = np.maximum((q * (1 - q)).sum(axis=1), np.finfo(float).tiny)
        found = found - np.clip((q.sum(axis=1) - counts) / slope, -1.0, 1.0)
    return found
