"""Standard errors of measures of held-out entries, with rows as the unit that was drawn.

Entries of one row are alike: a person who is hard to predict is so in all of them, and an error that takes entries for
independent is too small. A measure ``m`` of n entries is, to first order, the true value plus a sum of influences
``psi_e`` of its entries; with rows drawn independently

    se(m)^2 = R / (R - 1) sum_rows ( sum_{e in row} psi_e )^2,     R rows,

which needs no resampling (for the AUC: Obuchowski 1997, "Nonparametric analysis of clustered ROC curve data", after
DeLong, DeLong and Clarke-Pearson 1988). Influences of two models on the same entries subtract, so that the error of a
difference is a paired one. The model is taken as given: what another training set would change is not in these errors;
:func:`tribit.cross_validate` shows some of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from tribit.metrics.entries import Curve, errors, losses

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]

__all__ = ["INFLUENCES", "interval", "standard_error"]


def _of_mean(values: Array) -> Array:
    return np.asarray((values - np.mean(values)) / values.size)


def of_accuracy(curve: Curve, x: Array, labels: NDArray[Any]) -> Array:
    """Return the influence of each entry on the share of right signs."""
    return _of_mean(1.0 - errors(curve, x, labels))


def of_sign_error(curve: Curve, x: Array, labels: NDArray[Any]) -> Array:
    """Return the influence of each entry on the share of wrong signs."""
    return _of_mean(errors(curve, x, labels))


def of_log_loss(curve: Curve, x: Array, labels: NDArray[Any]) -> Array:
    """Return the influence of each entry on the mean of ``-log P(label)``."""
    return _of_mean(losses(curve, x, labels))


def of_auc(curve: Curve, x: Array, labels: NDArray[Any]) -> Array | None:  # noqa: ARG001
    """Return the influence of each entry on the AUC: how a like stands to all dislikes, and a dislike to all likes."""
    like = labels > 0
    n, m = int(np.count_nonzero(like)), int(np.count_nonzero(~like))
    if not n or not m:
        return None
    ranks = rankdata(x)
    above = (ranks[like] - rankdata(x[like])) / m  # share of the dislikes below each like
    below = 1.0 - (ranks[~like] - rankdata(x[~like])) / n
    influence = np.empty(x.size)
    auc = np.mean(above)
    influence[like], influence[~like] = (above - auc) / n, (below - auc) / m
    return influence


#: Influence functions of the measures in ``METRICS`` that have one, by name.
INFLUENCES: dict[str, Callable[[Curve, Array, NDArray[Any]], Array | None]] = {
    "accuracy": of_accuracy,
    "sign_error": of_sign_error,
    "log_loss": of_log_loss,
    "auc": of_auc,
}


def standard_error(influences: Array, rows: Positions) -> float | None:
    """Return the standard error of a sum of influences, given the row of each; None for a single row."""
    _, which = np.unique(rows, return_inverse=True)
    sums = np.bincount(which, influences)
    if sums.size < 2:
        return None
    return float(np.sqrt(sums.size / (sums.size - 1) * np.sum(sums**2)))


def interval(value: float, error: float, level: float, most: float = np.inf) -> tuple[float, float]:
    """Return the normal interval of a measure from 0 to ``most``."""
    z = float(ndtri(0.5 + 0.5 * level))
    return max(value - z * error, 0.0), min(value + z * error, most)
