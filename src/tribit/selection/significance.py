"""Significance of differences between candidates, after the calibration that the model will have.

Candidates are compared after calibration, since an overconfident model would otherwise lose to a worse one that is not.
The calibrator of each held-out entry is fitted to the other folds of held-out entries, to avoid overfitting.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.metrics.entries import Array, Curve, known_probabilities
from tribit.model.calibration import AUTO_CALIBRATOR, Identity, cross_fit_probabilities
from tribit.model.links import Link
from tribit.model.spec import AUTO

#: Least number of held-out entries of the rarer label, where the data have as many: with fewer, scores and calibrators
#: are too noisy.
MIN_HELD_OUT_PER_CLASS = 20
#: Standard errors of the paired difference by which a more complex family must win: the first number on many held-out
#: entries, up to the second more on few, half of that at the third. Each family has the best of its candidates, and on
#: little data the smallest of many scores is often luck: with the first number alone 4 of 20 tables of noise, 30 x 20,
#: were given more than intercepts.
MIN_STANDARD_ERRORS, EXTRA_STANDARD_ERRORS, EXTRA_HALVED_AT = 0.5, 1.5, 1000
#: Share of the score by which it must win too: of two nearly equal models the simpler is chosen.
MIN_RELATIVE_GAIN = 5e-4
#: Seed of the folds of held-out entries: the same for every candidate, so that differences are paired.
CALIBRATION_SEED = 0


def one_sided(labels: NDArray[Any]) -> bool:
    """Return whether one label is too rare among these entries for an estimate."""
    likes = int(np.count_nonzero(np.asarray(labels) > 0))
    return min(likes, labels.size - likes) < MIN_HELD_OUT_PER_CLASS


def chosen_calibrator(calibration: str | None, labels: NDArray[Any]) -> str:
    """Return the name of the calibrator that a parameter asks for on some labels.

    Parameters
    ----------
    calibration : str or None
        The parameter of :class:`tribit.BinaryMatrixCompletion`; None for the link.
    labels : array of shape (n,)
        The held-out labels; of too few of a kind the link stays as it is.
    """
    if calibration in (None, Identity.name) or one_sided(labels):
        return Identity.name
    return AUTO_CALIBRATOR if calibration == AUTO else str(calibration)


def cross_fitted_curve(
    calibration: str | None, link: Link, x: Array, labels: NDArray[Any], weights: Array
) -> Curve:
    """Return the curve of the calibrator, fitted for each entry to the other folds of held-out entries."""
    name = chosen_calibrator(calibration, labels)
    if name == Identity.name:
        return link
    found = cross_fit_probabilities(
        x, labels, weights, link=link, names=[name], random_state=CALIBRATION_SEED
    )
    return known_probabilities(found[name])


def is_clear(gain: float, error: float, n: int, score: float) -> bool:
    """Return whether a mean gain over ``n`` entries is clearly above its error and worth a more complex model."""
    clearly = MIN_STANDARD_ERRORS + EXTRA_STANDARD_ERRORS / (1.0 + n / EXTRA_HALVED_AT)
    return gain > max(clearly * error, MIN_RELATIVE_GAIN * abs(score))


def mean_difference(losses: Array, others: Array, weights: Array) -> tuple[float, float]:
    """Return the weighted mean of ``losses - others``, entry by entry, and its standard error."""
    share, difference = weights / np.sum(weights), losses - others
    mean = float(share @ difference)
    return mean, float(np.sqrt(np.sum(share**2 * (difference - mean) ** 2)))
