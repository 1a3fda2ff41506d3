"""Calibration on rows that are seen as a whole: intervals that hold on average over rows like these.

    estimate_i = completed_i + w (doubly robust_i - completed_i)

``completed_i`` is the mean of the row with its unseen labels predicted. It has less variance than the doubly robust
estimate, and a bias that depends on the row. Whole rows are rehearsed: some of their cells are hidden, their columns
are fitted on other rows, and their means are estimated. ``w`` is the slope of the errors of ``completed`` on the
correction. The quantile of the standardised errors replaces the normal quantile of the interval (conformal
prediction), so that a row that is exchangeable with the whole rows is covered with the stated probability on average.
The interval holds for no single row that is unlike them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.estimates.doubly_robust import RowSums, prediction_weights
from tribit.estimates.intervals import Curve

__all__ = ["MIN_WHOLE_ROWS", "REHEARSALS", "Calibration", "calibrate", "quantile_of_rows"]

Array = NDArray[np.floating[Any]]

#: Fewest whole rows from which intervals are calibrated, and rehearsals of each.
MIN_WHOLE_ROWS, REHEARSALS = 40, 2


@dataclass(frozen=True, eq=False)
class Calibration:
    """Weight of the correction, and the errors of rehearsals.

    Attributes
    ----------
    weight : float
        Weight ``w`` of the correction, from 0 to 1.
    errors : array
        Standardised errors of the rehearsals in absolute value, sorted.
    n_rows : int
        Number of whole rows.
    """

    weight: float
    errors: Array
    n_rows: int

    def estimates(self, curve: Curve) -> Array:
        """Return the estimates of rows."""
        completed = curve.sums.completed
        return np.asarray(completed + self.weight * (curve.estimates - completed))

    def quantile(self, level: float) -> float:
        """Return the quantile of the errors; infinite where the whole rows are too few for the level."""
        return quantile_of_rows(self.errors, self.n_rows, level)


def quantile_of_rows(errors: Array, n_rows: int, level: float) -> float:
    """Return the conformal quantile of sorted errors, the same number for each of the rows; infinite for few rows."""
    share = np.ceil(level * (n_rows + 1)) / n_rows
    return float(errors[int(np.ceil(share * errors.size)) - 1]) if share <= 1 else np.inf


def calibrate(sums: RowSums, truth: Array, n_rows: int) -> Calibration:
    """Return the calibration by rehearsals of whole rows.

    Parameters
    ----------
    sums : RowSums
        Sums of the rehearsals.
    truth : array of shape (n,)
        Means of their rows.
    n_rows : int
        Number of whole rows.
    """
    curve = Curve.of_rows(sums, prediction_weights(sums))
    correction, missing = curve.estimates - sums.completed, truth - sums.completed
    square = float(correction @ correction)
    weight = float(np.clip(correction @ missing / square, 0.0, 1.0)) if square else 0.0
    errors = np.abs(missing - weight * correction)
    deviations = np.maximum(curve.standard_deviations(truth), np.finfo(float).tiny)
    return Calibration(weight, np.sort(errors / deviations), n_rows)
