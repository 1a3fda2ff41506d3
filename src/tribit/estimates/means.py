"""Means of the rows of a table, or of groups of rows, as an answer: intervals, ranks and differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.answers import Answer, check_headings
from tribit.checks import check_between
from tribit.data.axis import AnyArray
from tribit.errors import InvalidInputError, parameter
from tribit.estimates.intervals import difference_limits, normal_quantile, simultaneous_quantile
from tribit.estimates.sensitivity import Sides, Unseen, reaching, turning_points

__all__ = ["Means"]

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Means(Answer):
    """Means with confidence intervals.

    Attributes
    ----------
    ids : array
        Ids of the rows or groups.
    mean, lower, upper : array
        Estimates and limits.
    seen : array of int
        Numbers of seen cells.
    effective : array
        Effective numbers of seen cells (Kish): as many drawn with equal probabilities are worth the same.
    plain : array
        Shares of +1 among the seen cells, without any correction; NaN where none is seen.
    basis : array of str
        "complete" (every cell is seen), "predictions" (doubly robust with predictions), "plain" (without predictions),
        "whole rows" (calibrated on these), or "none" (no cell is seen: the limits are 0 and 1).
    level : float
        Level of the intervals.
    limits_at : callable, optional
        The limits for a quantile of the standardised error.
    quantile : callable
        The quantile for a level.
    unseen : Unseen, optional
        The unseen cells, for bounds on their labels (:mod:`tribit.estimates.sensitivity`).
    name : str
        Heading of the ids.
    further : dict
        Further columns of the table.

    Examples
    --------
    >>> from tribit import Observations
    >>> from tribit.estimates import estimate_means
    >>> seen = Observations.from_matrix([[1, 1, -1, 0], [1, 0, -1, -1], [1, 1, 1, 1]])
    >>> means = estimate_means(seen, random_state=0)
    >>> [float(each[2]) for each in (means.mean, means.lower, means.upper)]  # a complete row
    [1.0, 1.0, 1.0]
    """

    ids: AnyArray
    mean: Array
    lower: Array
    upper: Array
    seen: NDArray[np.int64]
    effective: Array
    plain: Array
    basis: AnyArray
    level: float
    limits_at: Callable[[float], tuple[Array, Array]] | None = None
    quantile: Callable[[float], float] = normal_quantile
    unseen: Unseen | None = None
    name: str = "row"
    further: dict[str, AnyArray] | None = None

    def __len__(self) -> int:
        return int(self.ids.size)

    def table(self) -> dict[str, AnyArray]:
        """Return a record for each mean."""
        columns: dict[str, AnyArray] = {
            name: getattr(self, name)
            for name in ("mean", "lower", "upper", "seen", "effective", "plain", "basis")
        } | (self.further or {})
        check_headings([self.name], columns)
        return {self.name: self.ids, **columns}

    def facts(self) -> dict[str, str]:
        """Return the number of means and of each basis, and the mean width of the intervals."""
        kinds, counts = np.unique(self.basis.astype(str), return_counts=True)
        of_each = [f"{n} {kind}" for kind, n in zip(kinds.tolist(), counts.tolist(), strict=True)]
        return {
            "means": f"{len(self)} ({', '.join(of_each)})",
            "width": f"{np.mean(self.upper - self.lower):.4f} on average, level {self.level:g}",
        }

    def take(self, places: Iterable[int]) -> Means:
        """Return the means at some places, each once, in this order; ranks are then among these.

        Examples
        --------
        >>> from tribit import Observations
        >>> from tribit.estimates import estimate_means
        >>> seen = Observations.from_matrix([[1, 1, -1, 0], [1, 0, -1, -1], [1, 1, 1, 1]])
        >>> estimate_means(seen, random_state=0).take([2, 0]).ids.tolist()
        [2, 0]
        """
        chosen = np.array(list(places), dtype=np.intp)
        if np.unique(chosen).size < chosen.size:
            raise InvalidInputError("A mean can be taken once; leave out repeated places.")
        columns = "ids", "mean", "lower", "upper", "seen", "effective", "plain", "basis"
        found = replace(self, **{name: getattr(self, name)[chosen] for name in columns})

        def limits_at(z: float) -> tuple[Array, Array]:
            low, high = self._limits(z)
            return low[chosen], high[chosen]

        return replace(
            found,
            limits_at=None if self.limits_at is None else limits_at,
            unseen=None if self.unseen is None else self.unseen.take(chosen),
            further={name: each[chosen] for name, each in (self.further or {}).items()},
        )

    def at_level(self, level: float) -> Means:
        """Return the same means with intervals of another level.

        Examples
        --------
        >>> from tribit import Observations
        >>> from tribit.estimates import estimate_means
        >>> seen = Observations.from_matrix([[1, 1, -1, 1, 0, 0, 0, 0, 0, 0]])
        >>> means = estimate_means(seen, level=0.9, random_state=0)
        >>> [float((each.upper - each.lower)[0].round(2)) for each in (means, means.at_level(0.5))]
        [0.48, 0.23]
        """
        level = check_between("level", level, 0, 1, ends="()")
        low, high = self._limits(self.quantile(level))
        return replace(self, lower=low, upper=high, level=level, further=None)

    def sensitivity(self, odds_ratio: float) -> dict[str, Array]:
        """Return ``sensitivity_lower`` and ``sensitivity_upper``: limits if being seen depends on the label.

        They cover the mean as often as the interval if the odds of being seen differ between +1 and -1 by a ratio of at
        most ``odds_ratio``, among cells that are alike otherwise. At 1 they are the interval, and at infinity the means
        that the seen cells leave possible.

        Parameters
        ----------
        odds_ratio : float
            At least 1; ``numpy.inf`` is allowed.

        Examples
        --------
        >>> from tribit import Observations
        >>> from tribit.estimates import estimate_means
        >>> seen = Observations.from_matrix([[1, 1, -1, 1, 0, 0, 0, 0, 0, 0]])
        >>> means = estimate_means(seen, level=0.9, random_state=0)
        >>> [float(means.sensitivity(g)["sensitivity_lower"][0].round(2)) for g in (1, 2, 1e9)]
        [0.42, 0.4, 0.3]
        """
        found = self._sides(odds_ratio)
        return {"sensitivity_lower": found.low, "sensitivity_upper": found.high}

    def turns_at(self, threshold: float) -> Array:
        """Return the odds ratio at which the limits of each mean reach a threshold.

        1 where the interval contains the threshold, and infinity where no labels of the unseen cells lead to it.
        """
        return reaching(self._sides_at(), check_between("threshold", threshold, 0, 1))

    def ranks(self, odds_ratio: float = 1.0) -> dict[str, NDArray[np.int64]]:
        """Return ``rank_lower`` and ``rank_upper``: the best and the worst rank of each mean, 1 for the largest.

        With the probability ``level`` all true ranks are between these at once. Means are compared in pairs, at the
        quantile of Tukey and Kramer for all pairs; those of different rows are taken for independent. With an
        ``odds_ratio`` above 1 being seen may depend on the label (:meth:`sensitivity`).
        """
        if (self.basis == "whole rows").any():
            raise InvalidInputError(
                f"Ranks need intervals of single rows: pass {parameter('guarantee', 'row')}."
            )
        limits = self._limits(simultaneous_quantile(self.level, len(self)))
        sides = self._sides(odds_ratio, limits)
        every = np.arange(len(self))
        is_above = _least_differences(sides, every[:, None], every[None, :]) > 0
        return {
            "rank_lower": 1 + is_above.sum(axis=0),
            "rank_upper": len(self) - is_above.sum(axis=1),
        }

    def differences(self, place: int, odds_ratio: float = 1.0) -> dict[str, Array]:
        """Return the differences of all means from the one at a place, with the limits of each.

        With an ``odds_ratio`` above 1 being seen may depend on the label (:meth:`sensitivity`).
        """
        every, one = np.arange(len(self)), np.full(len(self), place)
        sides = self._sides(odds_ratio)
        limits = _least_differences(sides, every, one), -_least_differences(sides, one, every)
        low, high = (np.where(every == place, 0.0, limit) for limit in limits)
        return {
            "difference": self.mean - self.mean[place],
            "difference_lower": low,
            "difference_upper": high,
        }

    def differences_turn_at(self, place: int) -> Array:
        """Return the odds ratio at which the limits of each difference from the mean at a place reach 0.

        1 where they contain 0, and infinity where there is none up to 10,000.
        """
        sides = self._sides_at()
        every, one = np.arange(len(self)), np.full(len(self), place)

        def margin(ratio: float) -> Array:
            found = sides(ratio)
            low, negated = (
                _least_differences(found, every, one),
                _least_differences(found, one, every),
            )
            return np.where(every == place, 0.0, np.maximum(low, negated))

        return turning_points(margin)

    def _sides(self, odds_ratio: float, limits: tuple[Array, Array] | None = None) -> Sides:
        """Return estimates and limits at both ends of the range that an odds ratio allows."""
        low, high = (self.lower, self.upper) if limits is None else limits
        if check_between("odds_ratio", odds_ratio, 1, np.inf) == 1:
            return Sides(self.mean, low, self.mean, high)
        return self._sides_at(limits)(odds_ratio)

    def _sides_at(
        self, limits: tuple[Array, Array] | None = None
    ) -> Callable[[Array | float], Sides]:
        """Return estimates and limits as a function of the odds ratio, by default from the interval."""
        if self.unseen is None:
            raise InvalidInputError("The unseen cells of these means are not known.")
        if limits is not None:
            return self.unseen.sides(self.mean, limits)
        one_sided = None
        if self.level > 0.5 and self.quantile is normal_quantile:
            one_sided = self._limits(self.quantile(2 * self.level - 1))
        return self.unseen.sides(self.mean, (self.lower, self.upper), one_sided, self.level)

    def _limits(self, z: float) -> tuple[Array, Array]:
        if self.limits_at is None:
            raise InvalidInputError("These means have no intervals of other levels.")
        return self.limits_at(z)


def _least_differences(
    sides: Sides, one: NDArray[np.integer[Any]], other: NDArray[np.integer[Any]]
) -> Array:
    """Return the lower limits of the differences between means at two places."""
    mean, low, top, high = (
        sides.mean_low[one],
        sides.low[one],
        sides.mean_high[other],
        sides.high[other],
    )
    return difference_limits((mean, low, mean), (top, top, high))[0]
