"""Calibration: whether, of the entries said to be likes with probability p, the share p are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tribit.checks import check_count
from tribit.data.axis import first_true
from tribit.errors import InvalidInputError

__all__ = ["Reliability", "calibration_error", "reliability"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reliability:
    """Reliability diagram: predicted and observed shares of likes, in bins of rising probability.

    Attributes
    ----------
    predicted : array of shape (n_bins,)
        Mean probability in each bin.
    observed : array of shape (n_bins,)
        Share of likes in each bin.
    counts : array of shape (n_bins,)
        Number of entries in each bin.
    """

    predicted: Floats
    observed: Floats
    counts: NDArray[np.int64]

    @property
    def error(self) -> float:
        """The mean of ``|observed - predicted|`` over the entries."""
        return float(np.average(np.abs(self.observed - self.predicted), weights=self.counts))


def reliability(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = 10) -> Reliability:
    """Sort entries by probability into bins of equal numbers; see :func:`calibration_error`.

    Returns
    -------
    Reliability
        With fewer bins where there are fewer entries, or where equal probabilities, which stay together, fill
        several.
    """
    likely, likes = _checked(probabilities, labels)
    bins = check_count("bins", bins)
    # Cut at values and not at positions: the order of entries that are alike must not matter.
    cuts = np.sort(likely)[np.arange(1, bins) * likely.size // bins]
    _, where = np.unique(np.searchsorted(cuts, likely, side="right"), return_inverse=True)
    counts = np.bincount(where)
    predicted, observed = (np.bincount(where, values) / counts for values in (likely, likes))
    return Reliability(predicted, observed, counts)


def calibration_error(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = 10) -> float:
    """Return the expected calibration error.

        sum_b (n_b / n) |share of likes in bin b - mean probability in bin b|

    over bins of equal numbers of entries (Naeini, Cooper and Hauskrecht 2015, "Obtaining well calibrated
    probabilities using Bayesian binning"; there the bins are of equal width).

    Parameters
    ----------
    probabilities : array-like of shape (n,)
        Probabilities of a like.
    labels : array-like of shape (n,)
        +1 for a like, -1 for a dislike.
    bins : int, default=10
        Number of bins.

    Examples
    --------
    >>> calibration_error([0.5, 0.5, 0.75, 0.75], [1, -1, 1, 1], bins=2)
    0.125
    """
    return reliability(probabilities, labels, bins=bins).error


def _checked(probabilities: Any, labels: Any) -> tuple[Floats, Floats]:
    """Return the probabilities, and 1 for likes and 0 for dislikes."""
    likely, given = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if likely.ndim != 1 or likely.shape != given.shape or not likely.size:
        raise InvalidInputError(
            f"probabilities and labels have the shapes {likely.shape} and {given.shape}; give one label for each "
            "probability, and at least one."
        )
    if (odd := first_true(~((likely >= 0) & (likely <= 1)))) is not None:
        raise InvalidInputError(
            f"position {odd}: the probability {likely[odd]:g} is not between 0 and 1."
        )
    if (odd := first_true((given != 1) & (given != -1))) is not None:
        raise InvalidInputError(
            f"position {odd}: the label {given[odd]} is not +1 (like) or -1 (dislike)."
        )
    return likely, np.where(given > 0, 1.0, 0.0)
