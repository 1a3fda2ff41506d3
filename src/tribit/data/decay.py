"""Weights of entries that halve with age."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tribit.checks import check_field, check_positive
from tribit.data.observations import Observations
from tribit.data.times import TIME, days_before
from tribit.data.weights import Floats
from tribit.errors import InvalidInputError, parameter

#: Ages count up to so many half-lives, so that no entry vanishes.
MAX_HALF_LIVES = 30.0
#: Largest magnitude of a time, some 30,000 years.
MAX_MICROSECONDS = 1e18


@dataclass(frozen=True)
class Decay:
    """Weights ``scale 2^(-age / half_life)``, with the age before a latest time.

    Parameters
    ----------
    half_life : float
        Days in which a weight halves.
    latest : float
        Time of the latest entry, in microseconds since 1970.
    scale : float
        Weight of an entry of that time: it gives the entries of the fit the mean weight that they had.

    Examples
    --------
    >>> from tribit import Observations
    >>> from tribit.data.decay import Decay
    >>> seen = Observations([0, 0], [0, 1], [1, -1], (1, 2), times=["2026-03-01", "2026-03-31"])
    >>> Decay.of(seen, 30.0).weigh(seen).weights.round(4).tolist()
    [0.6667, 1.3333]
    """

    half_life: float
    latest: float
    scale: float

    def __post_init__(self) -> None:
        check_field(self, "half_life", check_positive)
        check_field(self, "scale", check_positive)
        if not abs(self.latest) < MAX_MICROSECONDS:
            raise InvalidInputError(f"{parameter('latest', self.latest)} is no time.")

    @classmethod
    def of(cls, observations: Observations, half_life: float) -> Decay:
        """Return the decay before the latest of the entries, with a scale that keeps the sum of their weights."""
        times = observations.require_times("A half-life is about the age of entries")
        decay = cls(half_life, float(times.max().astype(np.int64)), 1.0)
        own = observations.weights_or_ones
        return cls(half_life, decay.latest, float(own.sum() / (own @ decay.factors(observations))))

    def factors(self, observations: Observations) -> Floats:
        """Return the factor of the weight of each entry."""
        times = observations.require_times("A half-life is about the age of entries")
        latest = np.int64(self.latest).astype(TIME)
        ages = days_before(times, latest) / self.half_life
        return self.scale * np.exp2(-np.clip(ages, -MAX_HALF_LIVES, MAX_HALF_LIVES))

    def weigh(self, observations: Observations) -> Observations:
        """Return the entries with their weights times the factors; without times, which the weights stand for."""
        weights = observations.weights_or_ones * self.factors(observations)
        return observations.with_weights(weights).with_times(None)
