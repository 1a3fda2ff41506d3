"""Means of the rows of a table, or of groups of rows, as an answer: intervals, ranks and differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.answers import Answer, check_headings
from tribit.checks import check_between
from tribit.data.axis import AnyArray
from tribit.errors import InvalidInputError, parameter
from tribit.estimates.intervals import difference_limits, normal_quantile, simultaneous_quantile

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

    def ranks(self) -> dict[str, NDArray[np.int64]]:
        """Return ``rank_lower`` and ``rank_upper``: the best and the worst rank of each mean, 1 for the largest.

        With the probability ``level`` all true ranks are between these at once. Means are compared in pairs, at the
        quantile of Tukey and Kramer for all pairs; those of different rows are taken for independent.
        """
        if (self.basis == "whole rows").any():
            raise InvalidInputError(
                f"Ranks need intervals of single rows: pass {parameter('guarantee', 'row')}."
            )
        low, high = self._limits(simultaneous_quantile(self.level, len(self)))
        found = (self.mean[:, None], low[:, None], high[:, None])
        other = (self.mean[None, :], low[None, :], high[None, :])
        is_above = difference_limits(found, other)[0] > 0
        return {
            "rank_lower": 1 + is_above.sum(axis=0),
            "rank_upper": len(self) - is_above.sum(axis=1),
        }

    def differences(self, place: int) -> dict[str, Array]:
        """Return the differences of all means from the one at a place, with the limits of each."""
        one = np.full(len(self), place)
        ours, other = (
            (self.mean[at], self.lower[at], self.upper[at]) for at in (np.arange(len(self)), one)
        )
        low, high = difference_limits(ours, other)
        same = np.arange(len(self)) == place
        low, high = (np.where(same, 0.0, limit) for limit in (low, high))
        return {
            "difference": self.mean - self.mean[place],
            "difference_lower": low,
            "difference_upper": high,
        }

    def _limits(self, z: float) -> tuple[Array, Array]:
        if self.limits_at is None:
            raise InvalidInputError("These means have no intervals of other levels.")
        return self.limits_at(z)
