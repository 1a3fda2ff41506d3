"""Limited translation: the mean of a completed row moves a doubly robust estimate by at most a few standard errors.

    estimate_i = robust_i + clip(completed_i - robust_i, -c se_i, c se_i)

``robust_i`` is right on average over draws whatever the row is like, ``completed_i`` is more precise for a row that the
model predicts well. ``c`` is the limit with the least mean squared error on whole rows, on which the same design is
replayed (:mod:`tribit.estimates.replay`); a row unlike all others moves by no more than ``c`` standard errors (Efron
and Morris 1972, "Limiting the risk of Bayes and empirical Bayes estimators"). Errors of the replays, divided by the
posterior standard deviation of the completed mean, have the quantile of the interval (conformal prediction), so that a
row that is exchangeable with the whole rows is covered with the stated probability on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.estimates.whole_rows import quantile_of_rows

__all__ = ["RowEstimates", "Translation", "fit_translation"]

Array = NDArray[np.floating[Any]]

#: Limits in standard errors from which one is chosen; infinity is the completed row.
LIMITS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, np.inf)
#: Least standard deviation that is divided by.
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class RowEstimates:
    """Estimates of the means of some rows.

    Attributes
    ----------
    robust, error : array of shape (n,)
        Doubly robust estimates, and their standard errors; infinite where no cell was drawn at random.
    completed, deviation : array of shape (n,)
        Means of the completed rows, and their posterior standard deviations.
    least, most : array of shape (n,)
        The means that the seen cells leave possible.
    """

    robust: Array
    error: Array
    completed: Array
    deviation: Array
    least: Array
    most: Array

    def translated(self, limit: float) -> Array:
        """Return the estimates for a limit."""
        away = self.completed - self.robust
        with np.errstate(invalid="ignore"):
            reach = np.where(np.isfinite(self.error), limit * self.error, np.inf)
        reach = np.where(np.isnan(reach), np.inf, reach)
        return np.clip(self.robust + np.clip(away, -reach, reach), self.least, self.most)


@dataclass(frozen=True, eq=False)
class Translation:
    """A limit, and the errors of replays.

    Attributes
    ----------
    limit : float
        Limit ``c`` in standard errors.
    errors : array
        Standardised errors of the replays in absolute value, sorted.
    n_rows : int
        Number of whole rows.
    """

    limit: float
    errors: Array
    n_rows: int

    def estimates(self, rows: RowEstimates) -> Array:
        """Return the estimates of rows."""
        return rows.translated(self.limit)

    def limits(self, rows: RowEstimates, level: float) -> tuple[Array, Array]:
        """Return the limits of rows."""
        found = self.estimates(rows)
        with np.errstate(invalid="ignore"):  # an infinite quantile of a row that is known
            half = quantile_of_rows(self.errors, self.n_rows, level) * rows.deviation
        half = np.where(rows.deviation > 0, half, 0.0)
        return np.maximum(found - half, rows.least), np.minimum(found + half, rows.most)


def fit_translation(rows: RowEstimates, truth: Array, n_rows: int) -> Translation:
    """Return the limit with the least mean squared error on replays, and their errors.

    Parameters
    ----------
    rows : RowEstimates
        Estimates of the replays.
    truth : array of shape (n,)
        Means of their rows.
    n_rows : int
        Number of whole rows.
    """
    losses = [np.mean((rows.translated(limit) - truth) ** 2) for limit in LIMITS]
    limit = LIMITS[int(np.argmin(losses))]
    errors = np.abs(rows.translated(limit) - truth) / np.maximum(rows.deviation, TINY)
    return Translation(limit, np.sort(errors), n_rows)
