"""Control variates of a dense sum: a quadratic for each class of rows and of columns, near the link's own term.

    h(z)  ~  c(z) = c0 + c1 z + c2 z^2 / 2

The sum of the quadratic over all entries is exact through Gram matrices, ``sum_j c2 (p' q_j)^2 = p' (sum_j c2 q_j q_j')
p``; what it leaves is small, and a sample tells its sum. Far from where it was fitted ``h - c`` falls as fast as a
quadratic, times the weight of the sample, and the estimate would fall for ever in some direction. So beyond an interval
about the fitted ``z``, wider than theirs, ``h`` is continued with the curvature ``c2``, from where its own is smaller:
there ``h - c`` is a line.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.losses import WeightedLoss

Array = NDArray[np.floating[Any]]

#: Variance of ``z`` below which the slope of ``h'`` is more and more the curvature at the mean: there is no other then.
LITTLE = 1e-3
#: Half-width of the interval in which ``h`` is the link's own: at least this, and so many times the largest distance
#: from the mean among the ``z`` that the quadratic was fitted on.
LEAST_WIDE, WIDE = 0.5, 2.0
#: Multiples of that half-width at which the curvature of ``h`` is looked up for where it falls below ``c2``. Beyond the
#: last of them the curvature of a link that has not fallen by then does not fall: the interval has no end.
FARTHER = np.array([1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0])


@dataclass(frozen=True, eq=False)
class ControlVariates:
    """Coefficients for each class of rows and of columns, arrays of shape (n_row_classes, n_column_classes).

    Attributes
    ----------
    constant, linear, square : array
        ``c0``, ``c1`` and ``c2``.
    bend : array
        Mean of ``h''``, at least a little above 0.
    spread : array
        Root mean square of ``h'(z) - c1 - c2 z``.
    low, high : array
        Ends of the interval in which ``h`` is the link's own.
    """

    constant: Array
    linear: Array
    square: Array
    bend: Array
    spread: Array
    low: Array
    high: Array

    @property
    def error(self) -> float:
        """Root mean square over the pairs of classes of how far, in ``z``, the quadratics' derivatives are off."""
        return float(np.sqrt(np.mean((self.spread / self.bend) ** 2)))

    @property
    def transposed(self) -> ControlVariates:
        """The same for the transpose of the matrix."""
        return ControlVariates(*(getattr(self, each.name).T for each in fields(self)))


def fit_controls(loss: WeightedLoss, z: Array) -> ControlVariates:
    """Return the quadratics whose derivatives are nearest to ``h'`` in the least-squares sense.

    Parameters
    ----------
    z : array of shape (n_row_classes, n_column_classes, n)
        A sample of ``z = scale x`` for each pair of classes.
    """
    z = np.asarray(z, dtype=np.float64)
    value, first, second = np.empty_like(z), z.copy(), np.empty_like(z)
    loss.apply(first, value, second, np.empty_like(z))
    mean, bend = z.mean(axis=2), np.maximum(second.mean(axis=2), 1e-12)
    away = z - mean[:, :, None]
    variance, together = np.mean(away**2, axis=2), np.mean(away * first, axis=2)
    # A quadratic that opens downwards would reward large entries that no sample sees.
    square = np.maximum((together + LITTLE * bend) / (variance + LITTLE), 0.0)
    linear = first.mean(axis=2) - square * mean
    left = first - linear[:, :, None] - square[:, :, None] * z
    constant = np.mean(value - (linear[:, :, None] + 0.5 * square[:, :, None] * z) * z, axis=2)
    spread = np.sqrt(np.mean(left**2, axis=2))
    reach = np.maximum(WIDE * np.max(np.abs(away), axis=2), LEAST_WIDE)
    low, high = (_end(loss, mean, side * reach, square) for side in (-1.0, 1.0))
    return ControlVariates(constant, linear, square, bend, spread, low, high)


def _end(loss: WeightedLoss, mean: Array, reach: Array, square: Array) -> Array:
    """Return the first of some places at ``mean + reach`` and farther where ``h''`` is below ``c2``; else infinity."""
    places = mean[:, :, None] + reach[:, :, None] * FARTHER
    first, second = places.copy(), np.empty_like(places)
    loss.apply(first, None, second, np.empty_like(places))
    below = second < square[:, :, None]
    nearest = np.take_along_axis(places, np.argmax(below, axis=2)[:, :, None], axis=2)[:, :, 0]
    return np.where(np.any(below, axis=2), nearest, np.sign(reach) * np.inf)
