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
from tribit.model.fitted import Fitted
from tribit.model.risks import Missingness
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
    known = _Deviations(fitted, seen)
    rows, i = np.unique(i, return_inverse=True)
    columns, j = np.unique(j, return_inverse=True)
    return known.at(known.side(0, rows), known.side(1, columns), i, j)


#: Entries whose covariances are computed at once, more where a single row has more: some 100 bytes for each, and so
#: many rows, of 30 MB at rank 40.
ENTRIES_AT_ONCE, ROWS_AT_ONCE = 2**21, 4096


class _Deviations:
    """Standard deviations of ``x`` at positions, from the covariances of their rows and of their columns."""

    def __init__(self, fitted: Fitted, seen: Observations) -> None:
        fitted = first_member(fitted)
        self.radius = check_prior(fitted.spec)
        risk, spec = fitted.risk(), fitted.spec
        if not spec.uses_unobserved and not spec.inverse_power:
            risk = replace(risk, rho=1.0 - seen.density)  # not used by PN
        if isinstance(risk.rho, Missingness) or risk.imputed is not None:
            raise InvalidInputError(
                "Deviations at some entries need a model with one rho for all cells and without imputed: use "
                "tribit.uncertainty.laplace."
            )
        self.risk, self.rank = risk, fitted.factors.rank
        member, factors = fitted.members[0], fitted.factors.astype("float64")
        self.seen = seen, seen.transpose()
        self.members = member, member.transposed
        self.factors = factors, factors.transposed

    def side(self, side: int, places: Positions) -> RowPosterior:
        """Return some rows (``side`` 0) or columns (1) with their covariances."""
        parts = [self._part(side, here) for here in self.parts(side, places)]
        if len(parts) == 1:
            return parts[0]
        return RowPosterior(
            np.concatenate([each.vectors for each in parts]),
            np.concatenate([each.packed for each in parts]),
        )

    def parts(self, side: int, places: Positions) -> list[Positions]:
        """Return rows, in their order, in parts with few entries each."""
        ends = np.cumsum(self.seen[side].counts[0][places])
        by_entries = ends // ENTRIES_AT_ONCE
        by_rows = np.arange(places.size) // ROWS_AT_ONCE
        cuts = np.flatnonzero((np.diff(by_entries) > 0) | (np.diff(by_rows) > 0)) + 1
        return np.split(places, cuts)

    def _part(self, side: int, rows: Positions) -> RowPosterior:
        """Return some rows with their covariances, computed on a matrix of these rows alone."""
        member, factors = self.members[side], self.factors[side]
        some = select_rows(self.seen[side], rows)
        objective = Objective.of(
            member.spec.without_features, some, self.risk, mean_totals=member.mean_totals
        )
        own = Factors(
            factors.row_factors[rows],
            factors.column_factors,
            factors.intercept,
            factors.row_intercepts[rows],
            factors.column_intercepts,
        )
        weights = *some.risk_weights(self.risk), some.weights_or_ones
        with single_threaded_blas():
            return row_covariances(objective, own, (some.rows, some.columns, *weights), self.radius)

    def at(self, rows: RowPosterior, columns: RowPosterior, i: Positions, j: Positions) -> Array:
        """Return the standard deviations at places of two sides."""
        with single_threaded_blas():
            return np.sqrt(variances(rows, columns, self.rank, i, j))


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
    known, deviation = _Deviations(fitted, seen), np.empty(i.size)
    columns, j = np.unique(j, return_inverse=True)
    of_columns, offsets, start = known.side(1, columns), lists.positions.offsets, 0
    for part in known.parts(0, rows):  # the covariances of a row are not kept
        stop = start + part.size
        here = slice(offsets[start], offsets[stop])
        deviation[here] = known.at(known.side(0, part), of_columns, i[here] - start, j[here])
        start = stop
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
