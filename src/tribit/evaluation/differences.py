"""Differences of measures: of two models on the same entries, or of one model on two test sets.

A measure ``m`` is its true value plus a sum of influences ``psi_e`` (:mod:`tribit.metrics.entries`). For R independent
rows in either test set

    se(m_2 - m_1)^2 = R / (R - 1) sum_rows ( sum_{e of the row in 2} psi_e - sum_{e of the row in 1} psi_e )^2

On the same entries that is the paired error of the difference; on two test sets it counts rows that are in both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Positions
from tribit.metrics.entries import (
    Curve,
    calibration_error,
    mean_influences,
    measure_entries,
    ndcg_of_rows,
    standard_error,
)

Array = NDArray[np.floating[Any]]


class Measured(NamedTuple):
    """A measure, the influences on it and their rows; without influences it has no standard error."""

    value: float
    influences: Array = np.zeros(0)
    rows: Positions = np.zeros(0, dtype=np.int64)


def mean_of(values: Array, rows: Positions, weights: Array | None = None) -> Measured:
    """Return the mean of some values of rows, at least one."""
    mean = float(np.average(values, weights=weights))
    return Measured(mean, mean_influences(values, weights), rows)


def measured_entries(
    curve: Curve,
    x: Array,
    rows: Positions,
    labels: NDArray[np.int8],
    weights: NDArray[np.float64] | None = None,
) -> dict[str, Measured]:
    """Return the measures of entries by name; those that need both labels are missing without them."""
    measures, influences = measure_entries(curve, x, labels, weights)
    found = {
        name: Measured(value, influences[name], rows) if name in influences else Measured(value)
        for name, value in measures.items()
        if value is not None
    }
    likely = np.asarray(curve.probability(x), dtype=np.float64)
    if labels.min() != labels.max():
        found["calibration_error"] = Measured(calibration_error(likely, labels, weights=weights))
    if (order := ndcg_of_rows(rows, x, labels)).size:
        found["ndcg"] = mean_of(order, _rows_with_both_labels(rows, labels))
    return found


def difference(first: Measured, second: Measured) -> tuple[float, float | None]:
    """Return the second measure minus the first, with its standard error; None for a single row."""
    error = None
    if first.rows.size and second.rows.size:
        which, at = np.unique(np.concatenate([second.rows, first.rows]), return_inverse=True)
        of_second, of_first = at[: second.rows.size], at[second.rows.size :]
        sums = np.zeros(which.size)
        sums += np.bincount(of_second, second.influences, which.size)
        sums -= np.bincount(of_first, first.influences, which.size)
        error = standard_error(sums, which)
    return second.value - first.value, error


def _rows_with_both_labels(rows: Positions, labels: NDArray[np.int8]) -> Positions:
    return np.intersect1d(rows[labels > 0], rows[labels < 0])
