"""Rows and columns of which nothing is known at all, not even an id: the effects of the other side alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from tribit.data.axis import Axis
from tribit.folding.half import Half
from tribit.model.factors import Factors
from tribit.model.risks import Risk
from tribit.model.slopes import BothSlopes, with_slopes

__all__ = ["with_unknown"]


def with_unknown(model: Any) -> Factors:
    """Return the factors of a fitted model with one more row and one more column, of which nothing is known.

    Their own parts are 0. With implicit features they are those of a row of typical activity that has seen what is
    popular, as in :func:`tribit.folding.fold_in`.
    """
    members = getattr(model, "members_", ())
    if not members:  # another system
        return _with_zeros(model._factors())
    found = []
    specs, factors, maps = model.member_specs_, model.member_factors_, model.feature_maps_
    for unknowns, of_matrix, both, spec in zip(members, factors, maps, specs, strict=True):
        # No row is solved for, so that the risk plays no part.
        half = Half(
            unknowns.astype("float64"),
            of_matrix.astype("float64"),
            both,
            model._axes,
            spec,
            Risk(1.0, 0.0, 0.0),
            1,
        )
        # Each before the other: what the unknown column is must not count the unknown row.
        row, column = (
            each.shared_by_activity(sp.csr_array((1, each.axes.columns.size)))
            for each in (half, half.transposed)
        )
        half = half.extended(Axis("row", 1), row, row)
        half = half.transposed.extended(Axis("column", 1), column, column).transposed
        found.append(half.factors)
    return with_slopes(Factors.mean_of(found), _longer_slopes(model.slopes_))


def _longer_slopes(slopes: BothSlopes) -> BothSlopes:
    """Return slopes with a row and a column more, of which no features are known either."""
    by_row, by_column = (
        None
        if each is None
        else each.with_rows(np.zeros((1, each.features.shape[1]))).with_columns(1)
        for each in slopes
    )
    return by_row, by_column


def _with_zeros(factors: Factors) -> Factors:
    def longer(part: Any) -> Any:
        return np.concatenate([part, np.zeros((1, *part.shape[1:]))])

    return Factors(
        longer(factors.row_factors),
        longer(factors.column_factors),
        factors.intercept,
        longer(factors.row_intercepts),
        longer(factors.column_intercepts),
    )
