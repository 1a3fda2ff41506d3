"""Confidence intervals of means by inverting a score test along tilted predictions.

    p_j(u) = f(logit p_j + u),    theta(u) = sum_j a_j p_j(u)
    { theta(u) : |estimate - theta(u)| <= z sqrt(phi V(u)) },
    V(u) = sum_j a_j^2 (1 - q_j) / q_j [p_j(u) (1 - p_j(u)) + (r_j(u) - r(u))^2],    r_j(u) = p_j(u) - lambda p_j

``V(u)`` is the variance of the estimate over draws of cells in a row with probabilities ``p_j(u)``, and ``r(u)`` the
mean of ``r_j(u)``. The variance belongs to the mean that is tested, and not to the estimate, as in the interval of
Wilson (1927): for ``lambda = 0`` and uniform draws it is Wilson's with finite-population correction. ``phi`` is the
ratio of the variance of the row's residuals to ``V``, shrunk to the ratio of all rows. The limits stay within the
values that the seen cells leave possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri

from tribit.estimates.doubly_robust import NODE_PROBABILITIES, NODES, RowSums

__all__ = ["Curve", "difference_limits", "normal_quantile", "simultaneous_quantile"]

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]

#: Largest tilt in log-odds, and halvings of the range in which a limit is sought.
MAX_TILT, HALVINGS = 16.0, 40
#: Largest normal variable in the distribution of a range.
MAX_NORMAL = 9.0
#: Least variance that is divided by.
TINY = np.finfo(np.float64).tiny
#: Least ratio of variances of all rows, and least share of that in a row's own.
MIN_COMMON_RATIO, MIN_SHARE_OF_COMMON = 0.75, 0.5
#: Least variance of ratios between rows, and what is added to the variances that weight it.
MIN_VARIANCE_OF_RATIOS, WEIGHT_VARIANCE = 0.01, 0.05


@dataclass(frozen=True, eq=False)
class Curve:
    """Means and variances of sets of rows along the tilt ``u``, which is common to the rows of a set.

    Attributes
    ----------
    sums : RowSums
        Sums of the rows.
    weights : array of shape (n,)
        Weights ``lambda`` of the predictions.
    ratios : array of shape (n,)
        Ratios ``phi`` of the variances.
    sets : array of shape (n,)
        The set of each row, from 0.
    shares : array of shape (n,)
        Weight of each row in its set, which sum to 1.
    n_sets : int
        Number of sets; the mean of one without rows is 0.
    """

    sums: RowSums
    weights: Array
    ratios: Array
    sets: Positions
    shares: Array
    n_sets: int

    @classmethod
    def of_rows(cls, sums: RowSums, weights: Array, ratios: Array | None = None) -> Curve:
        """Return the curve with each row as a set; by default with the estimated ratios."""
        n = len(sums.seen)
        curve = cls(sums, weights, np.ones(n), np.arange(n), np.ones(n), n)
        ratios = curve._variance_ratios() if ratios is None else ratios
        return cls(sums, weights, ratios, curve.sets, curve.shares, n)

    def of_sets(self, rows: Positions, sets: Positions, shares: Array, n_sets: int) -> Curve:
        """Return the curve of sets of some of the rows."""
        return Curve(
            self.sums.take(rows), self.weights[rows], self.ratios[rows], sets, shares, n_sets
        )

    @property
    def estimates(self) -> Array:
        """The estimates of the sets."""
        return self._totals(self.shares * self.sums.estimates(self.weights))

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest mean of each set that the seen cells leave possible."""
        low = self._totals(self.shares * self.sums.known_likes)
        return low, low + self._totals(self.shares * (1 - self.sums.known))

    def limits(self, z: Array | float, estimates: Array | None = None) -> tuple[Array, Array]:
        """Return the limits of each set for a quantile ``z`` of the standardised error."""
        least, most = self.bounds
        found = np.clip(self.estimates if estimates is None else estimates, least, most)
        at = self._root(lambda mean, _: mean - found)

        def below(mean: Array, variance: Array) -> Array:
            return mean - found + z * np.sqrt(np.maximum(variance, TINY))

        def above(mean: Array, variance: Array) -> Array:
            return mean - found - z * np.sqrt(np.maximum(variance, TINY))

        low = self._means(self._root(below, high=at))
        high = self._means(self._root(above, low=at))
        return np.clip(low, least, found), np.clip(high, found, most)

    def standard_deviations(self, means: Array) -> Array:
        """Return the standard deviations of the estimates if these were the means."""
        tilts = self._root(lambda mean, _: mean - means)
        return np.sqrt(self._at(tilts)[1])

    def _at(self, tilts: Array) -> tuple[Array, Array]:
        """Return the means and the variances of the sets at a tilt for each."""
        means, variances = self._of_rows(tilts[self.sets])
        spread = self.shares**2 * self.ratios * variances
        return self._totals(self.shares * means), self._totals(spread)

    def _means(self, tilts: Array) -> Array:
        return self._at(tilts)[0]

    def _of_rows(self, tilts: Array) -> tuple[Array, Array]:
        """Return the mean and the variance of each row at its tilt."""
        p = expit(NODES + tilts[:, None])
        r = p - self.weights[:, None] * NODE_PROBABILITIES
        sums = self.sums
        r = r - (sums.mass * r).sum(axis=1, keepdims=True)
        variances = (sums.noise * (p * (1 - p) + r * r)).sum(axis=1)
        finite = sums.cells / np.maximum(sums.cells - 1, 1)
        return (sums.mass * p).sum(axis=1), finite * variances

    def _root(self, function: Any, low: Array | None = None, high: Array | None = None) -> Array:
        """Return the tilt of each set at which an increasing function of mean and variance changes its sign."""
        low = np.full(self.n_sets, -MAX_TILT) if low is None else low
        high = np.full(self.n_sets, MAX_TILT) if high is None else high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            is_above = function(*self._at(middle)) > 0
            low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
        return (low + high) / 2

    def _totals(self, values: Array) -> Array:
        return np.bincount(self.sets, values, self.n_sets).astype(np.float64)

    def _variance_ratios(self) -> Array:
        """Return the ratio of the residual variance to ``V`` of each row, shrunk to that of all rows."""
        sums = self.sums
        found = np.ones(len(sums.seen))
        used = sums.is_compared & ((self.weights > 0) | sums.is_unequal)
        if not used.any():
            return found
        tilts = self._root(lambda mean, _: mean - sums.estimates(self.weights))
        variances = self._of_rows(tilts)[1]
        n, cells = sums.seen, sums.cells
        # V at the estimate is below its mean: exactly by this factor where it is theta (1 - theta).
        variances = variances * (1 + (cells - n) / (np.maximum(n - 1, 1) * cells))
        own = (sums.residual_variances(self.weights) / np.maximum(variances, TINY))[used]
        error = self._errors_of_ratios(tilts, variances)[used]
        common = max(float(np.average(own, weights=n[used] - 1)), MIN_COMMON_RATIO)
        excess = np.average((own - common) ** 2 - error, weights=1 / (error + WEIGHT_VARIANCE))
        between = max(MIN_VARIANCE_OF_RATIOS, float(excess))
        shrunk = common + between / (between + error) * (own - common)
        found[used] = np.maximum(shrunk, MIN_SHARE_OF_COMMON * common)
        return found

    def _errors_of_ratios(self, tilts: Array, variances: Array) -> Array:
        """Return the variances of the ratios of single rows, by the fourth moments of residuals."""
        p = expit(NODES + tilts[:, None])
        r = p - self.weights[:, None] * NODE_PROBABILITIES
        r = r - (self.sums.mass * r).sum(axis=1, keepdims=True)
        noise = p * (1 - p)
        fourth = noise * (1 - 3 * noise) + 4 * r * noise * (1 - 2 * p) + 6 * r**2 * noise + r**4
        share = self.sums.noise_of_noise * fourth
        relative = share.sum(axis=1) / np.maximum(variances, TINY) ** 2
        unseen = 1 - self.sums.seen / self.sums.cells
        return np.asarray(np.maximum((relative - 1 / np.maximum(self.sums.seen, 1)) * unseen, TINY))


def normal_quantile(level: float) -> float:
    """Return the quantile ``z`` of a two-sided interval."""
    return float(ndtri((1 + level) / 2))


def simultaneous_quantile(level: float, n: int) -> float:
    """Return the quantile for all differences of ``n`` independent estimates at once (Tukey and Kramer).

    It is that of the range of ``n`` normal variables over ``sqrt(2)``: ``n E[(F(x) - F(x - range))^(n - 1)]`` is the
    distribution of the range, ``F`` the normal distribution.
    """
    if n < 2:
        return 0.0
    x, step = np.linspace(-MAX_NORMAL, MAX_NORMAL, 4001, retstep=True)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)

    def excess(width: float) -> float:
        inside = ndtr(x) - ndtr(x - width)
        return float(n * step * (density * inside ** (n - 1)).sum()) - level

    return float(brentq(excess, 0.0, 2 * MAX_NORMAL) / np.sqrt(2))


def difference_limits(
    first: tuple[Array, Array, Array], second: tuple[Array, Array, Array]
) -> tuple[Array, Array]:
    """Return the limits of the difference of independent estimates, each given with its limits.

    The distances from the estimates to their limits add up as standard errors do (Newcombe 1998, "Interval estimation
    for the difference between independent proportions").
    """
    (one, one_low, one_high), (two, two_low, two_high) = first, second
    difference = one - two
    return (
        difference - np.hypot(one - one_low, two_high - two),
        difference + np.hypot(one_high - one, two - two_low),
    )
