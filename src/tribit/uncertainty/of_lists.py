"""Intervals of the probabilities in lists, by Laplace's approximation at their entries alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from tribit.checks import check_between
from tribit.data.axis import Positions
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.model.fitted import Fitted
from tribit.ranking.lists import Recommendations
from tribit.uncertainty.at_entries import deviations
from tribit.uncertainty.laplace import Intervals, check_prior

#: Rows whose intervals are computed at once: their covariances fill some 30 MB with 40 columns of factors.
ROWS_AT_ONCE = 4096


def with_intervals(
    lists: Recommendations,
    fitted: Fitted,
    seen: Observations | None,
    rows: Positions,
    level: float,
) -> Recommendations:
    """Return the lists of rows at some positions with the intervals of their probabilities, where there can be any.

    These need the entries that the model was fitted on, one probability of being missing for all cells, and a ridge or
    a ball (:func:`tribit.uncertainty.at_entries.deviations`).
    """
    level = check_between("level", level, 0, 1, ends="()")
    if seen is None or not _has_deviations(fitted):
        return lists
    i, place = np.nonzero(lists.shown)
    j = lists.positions[i, place]
    x = fitted.scores.x(rows[i], j)
    deviation = np.empty(i.size)
    for start in range(0, rows.size, ROWS_AT_ONCE):
        here = np.flatnonzero((i >= start) & (i < start + ROWS_AT_ONCE))
        if here.size:
            deviation[here] = deviations(fitted, seen, rows[i[here]], j[here])
    z = ndtri(0.5 + level / 2)
    lower, upper = (fitted.scores.probability(x + side * z * deviation) for side in (-1, 1))
    return replace(lists, intervals=Intervals(lower, upper, level))


def _has_deviations(fitted: Fitted) -> bool:
    spec = fitted.spec
    try:
        check_prior(spec)
    except InvalidInputError:
        return False
    one_rho = not spec.mixed or isinstance(fitted.rho, float)
    return bool(one_rho and spec.imputed is None and not spec.inverse_power)
