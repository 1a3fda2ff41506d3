"""Laplace's approximation at some entries: covariances of the rows and columns that these have, and of no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.objective import Objective
from tribit.backends.threads import single_threaded_blas
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError
from tribit.folding.positions import rows_of
from tribit.model.factors import Factors
from tribit.model.fitted import Fitted
from tribit.model.risks import Missingness, Risk
from tribit.model.spec import ModelSpec
from tribit.uncertainty.laplace import check_prior, first_member, variances
from tribit.uncertainty.side import Side, normal_side

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]


def deviations(fitted: Fitted, seen: Observations, i: Positions, j: Positions) -> Array:
    """Return the standard deviation of ``x`` at positions, as :func:`tribit.uncertainty.laplace` has it.

    Parameters
    ----------
    fitted : Fitted
        A fit with one probability of being missing for all entries.
    seen : Observations
        The entries it was fitted on, in its rows and columns.
    i, j : array of int
        Positions of the entries.
    """
    fitted = first_member(fitted)
    spec = fitted.spec
    radius = check_prior(spec)
    risk = fitted.risk()
    if not spec.mixed and not spec.inverse_power:
        risk = replace(risk, rho=1.0 - seen.density)  # PN alone does not read it
    if isinstance(risk.rho, Missingness) or risk.imputed is not None:
        raise InvalidInputError(
            "Deviations at some entries need a model with one rho for all of them and nothing imputed: use "
            "tribit.uncertainty.laplace."
        )
    factors = fitted.factors.astype("float64")
    rows, i = np.unique(i, return_inverse=True)
    columns, j = np.unique(j, return_inverse=True)
    with single_threaded_blas():
        sides = (
            _side(spec, seen, factors, rows, risk, radius),
            _side(spec, seen.transpose(), factors.transposed, columns, risk, radius),
        )
    return np.sqrt(variances(*sides, factors.rank, i, j))


def _side(
    spec: ModelSpec,
    seen: Observations,
    factors: Factors,
    rows: Positions,
    risk: Risk,
    radius: float | None,
) -> Side:
    """Return some rows with their covariances, everything else fixed: those of a matrix of these rows alone."""
    some = rows_of(seen, rows)
    objective = Objective.of(spec.without_features, some, risk)
    own = Factors(
        factors.row_factors[rows],
        factors.column_factors,
        factors.intercept,
        factors.row_intercepts[rows],
        factors.column_intercepts,
    )
    weights = risk.observed_weights(some.labels, some.rows, some.columns)
    return normal_side(
        objective, objective.backend, own, (some.rows, some.columns, *weights), radius
    )
