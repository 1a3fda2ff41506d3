"""Outliers of a page: rows and columns with the worst predictions, and those with the most one-sided labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axis, Positions
from tribit.data.observations import Observations
from tribit.metrics.entries import losses
from tribit.report.wording import names_at

if TYPE_CHECKING:
    from tribit.report.trial import Trial

#: Number of rows (and columns) in each table of outliers, the weight of the overall mean in a shrunk mean, in entries,
#: and the minimum number of entries of an outlier.
N_OUTLIERS, SHRINKAGE, MIN_ENTRIES = 5, 5.0, 3


def unusual_facts(trial: Trial, seen: Observations | None) -> dict[str, Any]:
    """Return the rows and columns with the highest log-loss, and those with the most one-sided labels."""
    rows, columns, labels = trial.places
    found: dict[str, Any] = {"worst": {}, "one_sided": {}}
    loss = losses(trial.scores.curve, trial.x, labels)
    sides = zip(("rows", "columns"), trial.scores.axes, (rows, columns), strict=True)
    for side, axis, places in sides:
        if axis.size < 2:
            continue
        if labels.min() != labels.max():
            found["worst"][side] = worst_predicted(axis, places, loss)
        if seen is not None and seen.n_likes and seen.n_dislikes:
            theirs = seen.rows if side == "rows" else seen.columns
            found["one_sided"][side] = most_one_sided(axis, theirs, seen.labels)
    return found


def worst_predicted(axis: Axis, places: Positions, loss: NDArray[Any]) -> list[dict[str, Any]]:
    """Return the rows with the highest mean loss, shrunk towards the overall mean."""
    found = outliers(axis, places, np.asarray(loss, dtype=np.float64), np.positive)
    return [{"name": name, "n": n, "loss": total / n} for name, n, total in found]


def most_one_sided(axis: Axis, places: Positions, labels: NDArray[np.int8]) -> list[dict[str, Any]]:
    """Return the rows whose share of likes, shrunk towards the base rate, differs most from it."""
    found = outliers(axis, places, (labels > 0).astype(np.float64), np.abs)
    return [{"name": name, "n": n, "likes": int(total)} for name, n, total in found]


def outliers(
    axis: Axis, places: Positions, values: NDArray[np.float64], size: np.ufunc
) -> Iterator[tuple[str, int, float]]:
    """Yield name, number of entries and sum of values of the rows whose shrunk means are most extreme."""
    counts = np.bincount(places, minlength=axis.size)
    sums = np.bincount(places, values, minlength=axis.size)
    excess = size(sums - float(np.mean(values)) * counts) / (counts + SHRINKAGE)
    excess = np.where(counts >= MIN_ENTRIES, excess, 0.0)
    order = np.argsort(-excess, kind="stable")[:N_OUTLIERS]
    order = order[excess[order] > 0]
    yield from zip(names_at(axis, order), counts[order].tolist(), sums[order].tolist(), strict=True)
