"""Intervals of the probabilities in top-N lists, by Laplace's approximation for their rows and columns alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tribit.backends.objective import Objective
from tribit.backends.threads import single_threaded_blas
from tribit.checks import check_between
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.folding.new_rows import select_rows
from tribit.model.factors import Factors
from tribit.model.fitted import Fitted, Member
from tribit.model.risks import Missingness, Risk
from tribit.ranking.lists import Recommendations
from tribit.uncertainty.posterior import Intervals, check_prior, first_member, variances
from tribit.uncertainty.row_covariances import RowPosterior, row_covariances

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]


def standard_deviations(fitted: Fitted, seen: Observations, i: Positions, j: Positions) -> Array:
    """Return the standard deviation of ``x`` at positions, equal to that of :func:`tribit.uncertainty.laplace`.

    Parameters
    ----------
    fitted : Fitted
        A fit with one probability of being missing for all entries.
    seen : Observations
        The entries of the fit, in its rows and columns.
    i, j : array of int
        Positions of the entries.
    """
    fitted = first_member(fitted)
    member, spec = fitted.members[0], fitted.spec
    radius = check_prior(spec)
    risk = fitted.risk()
    if not spec.uses_unobserved and not spec.inverse_power:
        risk = replace(risk, rho=1.0 - seen.density)  # not used by PN
    if isinstance(risk.rho, Missingness) or risk.imputed is not None:
        raise InvalidInputError(
            "Deviations at some entries need a model with one rho for all cells and without imputed: use "
            "tribit.uncertainty.laplace."
        )
    factors = fitted.factors.astype("float64")
    rows, i = np.unique(i, return_inverse=True)
    columns, j = np.unique(j, return_inverse=True)
    with single_threaded_blas():
        sides = (
            _side(member, seen, factors, rows, risk, radius),
            _side(member.transposed, seen.transpose(), factors.transposed, columns, risk, radius),
        )
    return np.sqrt(variances(*sides, factors.rank, i, j))


def _side(
    member: Member,
    seen: Observations,
    factors: Factors,
    rows: Positions,
    risk: Risk,
    radius: float | None,
) -> RowPosterior:
    """Return some rows with their covariances, computed on a matrix of these rows alone."""
    some = select_rows(seen, rows)
    objective = Objective.of(
        member.spec.without_features, some, risk, mean_totals=member.mean_totals
    )
    own = Factors(
        factors.row_factors[rows],
        factors.column_factors,
        factors.intercept,
        factors.row_intercepts[rows],
        factors.column_intercepts,
    )
    weights = *some.risk_weights(risk), some.weights_or_ones
    return row_covariances(objective, own, (some.rows, some.columns, *weights), radius)


#: Rows whose intervals are computed at once: their covariances take some 30 MB at rank 40.
ROWS_AT_ONCE = 4096


def with_intervals(
    lists: Recommendations,
    fitted: Fitted,
    seen: Observations | None,
    rows: Positions,
    level: float,
) -> Recommendations:
    """Return the top-N lists of some rows with intervals of their probabilities, where these exist.

    They need the entries of the fit, one probability of being unobserved for all cells, and a ridge or a ball
    (:func:`standard_deviations`).
    """
    level = check_between("level", level, 0, 1, ends="()")
    if seen is None or not _has_deviations(fitted):
        return lists
    i, j = lists.positions.index, lists.positions.values
    x = fitted.scores.x(rows[i], j)
    deviation = np.empty(i.size)
    for start in range(0, rows.size, ROWS_AT_ONCE):
        here = np.flatnonzero((i >= start) & (i < start + ROWS_AT_ONCE))
        if here.size:
            deviation[here] = standard_deviations(fitted, seen, rows[i[here]], j[here])
    z = ndtri(0.5 + level / 2)
    lower, upper = (fitted.scores.probability(x + side * z * deviation) for side in (-1, 1))
    return replace(lists, intervals=Intervals(lower, upper, level))


def _has_deviations(fitted: Fitted) -> bool:
    spec = fitted.spec
    try:
        check_prior(spec)
    except InvalidInputError:
        return False
    one_rho = not spec.uses_unobserved or isinstance(fitted.rho, float)
    return bool(one_rho and spec.imputed is None and not spec.inverse_power)
