"""Sensitivity of means to labels that decide themselves whether a cell is seen: bounds by an odds ratio.

    1 / G  <=  odds of +1 in an unseen cell / odds of +1 in a seen cell like it  <=  G

For a label of two values the same number is the odds ratio of being seen, -1 against +1, so that no probability of
being seen is needed. With the labels of seen cells at log-odds ``x_j``, those of unseen cells are between
``x_j - log G`` and ``x_j + log G``, and the mean of a set is between sharp bounds. At ``G = 1`` whether a cell is seen
does not depend on its label; as G grows, the bounds tend to those of Manski (1990), where unseen labels are all -1 or
all +1.

Bounds have an error, as the labels of seen cells are a sample: alone they cover the mean in half of the draws only.
They are composed with the interval:

    mean(v) = known + sum over unseen cells of a_j f(x_j + v),
    lower(G) = mean(v_low - log G)   where mean(v_low) = lower,        upper(G) = mean(v_high + log G)

Hence the limits at ``G = 1`` are those of the interval, and they cover the mean as often as these do. As the bounds
become wide, ``lower`` and ``upper`` become the limits of one-sided intervals: the mean cannot be near both bounds.
``x_j`` are the log-odds of the predictions with their weight, ``p + lambda (p_j - p)``: where predictions explain
nothing all cells of a row are alike, which gives the widest bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from tribit.estimates.doubly_robust import NODE_PROBABILITIES
from tribit.estimates.intervals import Curve, normal_quantile

__all__ = ["Sides", "Unseen", "reaching", "turning_points"]

Array = NDArray[np.floating[Any]]
Limits: TypeAlias = tuple[Array, Array]

#: Largest tilt in log-odds, and halvings of the range in which one is sought.
MAX_TILT, HALVINGS = 40.0, 60
#: Largest logarithm of an odds ratio.
MAX_LOG_RATIO = 30.0
#: Logarithms of the odds ratios at which differences are computed to find where they turn.
LOG_RATIOS = np.linspace(0.0, np.log(1e4), 201)


class Sides(NamedTuple):
    """Means and limits if unseen labels are at either end of the range that an odds ratio allows.

    Attributes
    ----------
    mean_low, low : array
        Estimates and lower limits with the fewest +1.
    mean_high, high : array
        Estimates and upper limits with the most +1.
    """

    mean_low: Array
    low: Array
    mean_high: Array
    high: Array


@dataclass(frozen=True, eq=False)
class Unseen:
    """The unseen cells of sets of rows.

    Attributes
    ----------
    known : array of shape (g,)
        What seen cells add to the mean of each set.
    log_odds, mass : array of shape (n, number of nodes)
        Log-odds of +1 among the unseen cells of each row, as a histogram, and their weights in the mean of its set.
    sets : array of shape (n,)
        The set of each row.
    empty, guess : array of shape (g,)
        Share of rows without seen cells, whose mean may be anything, and what their predictions add to the estimate.
    """

    known: Array
    log_odds: Array
    mass: Array
    sets: NDArray[np.integer[Any]]
    empty: Array
    guess: Array

    @classmethod
    def of(cls, curve: Curve, free: Array, exact: Array, empty: Array, guess: Array) -> Unseen:
        """Return the unseen cells of the sets of a curve.

        Parameters
        ----------
        curve : Curve
            Partly seen rows.
        free, empty : array of shape (g,)
            Shares of these rows and of rows without seen cells in each set.
        exact, guess : array of shape (g,)
            What whole rows, and the predictions of rows without seen cells, add to the mean.
        """
        sums, shares = curve.sums, curve.shares * free[curve.sets]
        centre = sums.population[:, None]
        p = centre + curve.weights[:, None] * (NODE_PROBABILITIES - centre)
        known = exact + np.bincount(curve.sets, shares * sums.known_likes, curve.n_sets)
        return cls(
            known,
            logit(np.clip(p, NODE_PROBABILITIES[0], NODE_PROBABILITIES[-1])),
            sums.unseen * shares[:, None],
            curve.sets,
            empty,
            guess,
        )

    def take(self, places: NDArray[np.integer[Any]]) -> Unseen:
        """Return the unseen cells of some sets, each once."""
        to = np.full(self.known.size, -1)
        to[places] = np.arange(places.size)
        rows = np.flatnonzero(to[self.sets] >= 0)
        return Unseen(
            self.known[places],
            self.log_odds[rows],
            self.mass[rows],
            to[self.sets[rows]],
            self.empty[places],
            self.guess[places],
        )

    def means(self, tilts: Array) -> Array:
        """Return the means of the sets, without rows that have no seen cells, for a tilt of each."""
        p = expit(self.log_odds + tilts[self.sets, None])
        return self.known + self._totals((self.mass * p).sum(axis=1))

    def tilts(self, means: Array) -> Array:
        """Return the tilts at which the sets have these means."""
        low = np.full(self.known.size, -MAX_TILT)
        high = -low
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            is_above = self.means(middle) > means
            low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
        return np.asarray((low + high) / 2)

    def sides(
        self, mean: Array, limits: Limits, one_sided: Limits | None = None, level: float = 1.0
    ) -> Callable[[Array | float], Sides]:
        """Return a function of the odds ratio (one for all sets, or for each): means and limits.

        Parameters
        ----------
        mean : array of shape (g,)
            Estimates at the odds ratio 1.
        limits : pair of arrays of shape (g,)
            Their limits at the odds ratio 1.
        one_sided : pair of arrays of shape (g,), optional
            Limits of a one-sided interval of the same level, to which the others tend.
        level : float
            The level.
        """
        low, high = limits
        at_mean = self.tilts(mean - self.guess)
        at_low, at_high = self.tilts(low), self.tilts(high - self.empty)
        nearer_low, nearer_high = (
            (at_low, at_high)
            if one_sided is None
            else (self.tilts(one_sided[0]), self.tilts(one_sided[1] - self.empty))
        )

        def at(ratio: Array | float) -> Sides:
            shift = np.log(ratio)
            mean_low = np.minimum(self.means(at_mean - shift) + self.guess, mean)
            mean_high = np.maximum(self.means(at_mean + shift) + self.guess, mean)
            to = (
                0.0
                if one_sided is None
                else _share_of_one_sided(mean_high - mean_low, high - self.empty - low, level)
            )
            down = self.means(at_low + to * (nearer_low - at_low) - shift)
            up = self.means(at_high + to * (nearer_high - at_high) + shift) + self.empty
            is_shifted = shift > 0
            return Sides(
                mean_low,
                np.where(is_shifted, np.minimum(down, low), low),
                mean_high,
                np.where(is_shifted, np.maximum(up, high), high),
            )

        return at

    def _totals(self, values: Array) -> Array:
        return np.bincount(self.sets, values, self.known.size).astype(np.float64)


def _share_of_one_sided(width: Array, interval: Array, level: float) -> Array:
    """Return how far limits are from those of a two-sided interval to those of a one-sided one.

    The mean cannot be near both ends of wide bounds. The quantile ``c`` of Imbens and Manski (2004, "Confidence
    intervals for partially identified parameters") solves ``F(c + width / deviation) - F(-c) = level``, with the normal
    distribution ``F``.
    """
    two_sided, one_sided = normal_quantile(level), normal_quantile(2 * level - 1)
    deviations = np.maximum(interval / (2 * two_sided), np.finfo(np.float64).tiny)
    low, high = np.full(width.size, one_sided), np.full(width.size, two_sided)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_enough = ndtr(middle + width / deviations) - ndtr(-middle) >= level
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return np.asarray((two_sided - high) / (two_sided - one_sided))


def reaching(sides: Callable[[Array | float], Sides], threshold: float) -> Array:
    """Return the odds ratio at which the limits of each set reach a threshold; 1 if they do there, inf for none."""

    def margin(ratio: Array | float) -> Array:
        found = sides(ratio)
        return np.asarray(np.maximum(found.low - threshold, threshold - found.high))

    low, high = np.zeros((2, margin(1.0).size))
    high += MAX_LOG_RATIO
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_apart = margin(np.exp(middle)) > 0
        low, high = np.where(is_apart, middle, low), np.where(is_apart, high, middle)
    found = np.where(margin(np.inf) >= 0, np.inf, np.exp(high))
    return np.asarray(np.where(margin(1.0) <= 0, 1.0, found))


def turning_points(margin: Callable[[float], Array]) -> Array:
    """Return the odds ratios at which decreasing margins become 0: 1 where they begin there, inf where they never do.

    A margin is interpolated between odds ratios that are 5 percent apart.
    """
    values = np.array([margin(float(np.exp(each))) for each in LOG_RATIOS])
    is_turned = values <= 0
    after = np.clip(is_turned.argmax(axis=0), 1, None)
    columns = np.arange(values.shape[1])
    one, two = values[after - 1, columns], values[after, columns]
    with np.errstate(invalid="ignore", divide="ignore"):
        place = LOG_RATIOS[after - 1] + one / (one - two) * (
            LOG_RATIOS[after] - LOG_RATIOS[after - 1]
        )
    found = np.where(is_turned.any(axis=0), np.exp(place), np.inf)
    return np.where(is_turned[0], 1.0, found)
