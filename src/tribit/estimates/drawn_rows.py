"""Rows that cells were drawn from in batches: their estimates, and replays of the same batches on whole rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tribit.estimates.asking import Design
from tribit.estimates.designs import Batch, Draws
from tribit.estimates.doubly_robust import RowSums, prediction_weights, row_sums
from tribit.estimates.gains import Posterior
from tribit.estimates.intervals import Curve
from tribit.estimates.item_response import Items
from tribit.estimates.replay import Step

__all__ = [
    "Parts",
    "completed_means",
    "design_of",
    "parts_of_batches",
    "robust_estimates",
    "steps_like",
]

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.integer[Any]]

#: Predictions of some rows of a table by their labels; that of a seen cell does not use its own.
Predict: TypeAlias = Callable[[sp.csr_array, Positions], Array]


@dataclass(frozen=True, eq=False)
class Parts:
    """Estimates that rows are made of: one for each batch of a row with draws, and one for any other row.

    Attributes
    ----------
    sums : RowSums
        Sums over the cells of each part: those that were unknown before its batch, with weights that sum to 1.
    rows : array of shape (n,)
        The row of each part.
    shares : array of shape (n,)
        What the mean of a part counts in the mean of its row.
    exact : array of shape (n,)
        What the cells that were known before the batch add to the mean of the row.
    """

    sums: RowSums
    rows: Positions
    shares: Array
    exact: Array

    @classmethod
    def of_rows(cls, sums: RowSums, rows: Positions) -> Parts:
        """Return the parts of rows without draws."""
        return cls(sums, rows, np.ones(rows.size), np.zeros(rows.size))

    @classmethod
    def combine(cls, parts: list[Parts]) -> Parts:
        """Return parts of the same rows, weighted by numbers of drawn cells, which are fixed in advance."""
        rows = np.concatenate([each.rows for each in parts])
        drawn = np.concatenate([each.sums.seen for each in parts])
        weights = drawn / np.bincount(rows, drawn)[rows]
        return cls(
            RowSums.concatenate([each.sums for each in parts]),
            rows,
            weights * np.concatenate([each.shares for each in parts]),
            weights * np.concatenate([each.exact for each in parts]),
        )


def parts_of_batches(
    labels: sp.csr_array, draws: Draws, weights: Array, predict: Predict
) -> list[Parts]:
    """Return the parts of each random batch of a table.

    Parameters
    ----------
    labels : sparse array of shape (d1, d2)
        Labels of the table.
    draws : Draws
        The drawn cells.
    weights : array of shape (1, d2) or (d1, d2)
        Weights of the columns (in each row), which sum to 1; a row has no part in a batch without draws from columns
        with a weight.
    predict : callable
        Predictions of rows.
    """
    found = (_part(batch, weights, predict) for batch in draws.batches(labels))
    return [each for each in found if each.rows.size]


def _part(batch: Batch, weights: Array, predict: Predict) -> Parts:
    weights = weights[np.minimum(batch.rows, len(weights) - 1)]
    counted = np.flatnonzero(((batch.q < 1) & (weights > 0)).any(axis=1))
    batch = batch.take(counted)
    rows, labels, known, q = batch
    weights = weights[counted]
    unknown = np.where(known, 0.0, weights)
    shares = unknown.sum(axis=1)
    drawn = labels.multiply(q < 1).tocsr()
    p = predict(labels, rows)
    sums = row_sums(drawn, p, unknown / shares[:, None], q, q_of_seen=True)
    exact = np.where(known & (labels.toarray() > 0), weights, 0.0).sum(axis=1)
    return Parts(sums, rows, shares, exact)


def robust_estimates(parts: Parts, rows: Positions) -> tuple[Array, Array]:
    """Return the doubly robust estimates of rows and their standard errors; infinite for a row without parts."""
    inside = np.flatnonzero(np.isin(parts.rows, rows))
    sets = np.searchsorted(rows, parts.rows[inside])
    n = rows.size
    free, exact = (
        np.bincount(sets, each[inside], n).astype(np.float64)
        for each in (parts.shares, parts.exact)
    )
    curve = Curve.of_rows(parts.sums, prediction_weights(parts.sums))
    curve = curve.of_sets(inside, sets, parts.shares[inside] / free[sets], n)
    estimates = curve.estimates
    errors = free * curve.standard_deviations(estimates)
    return free * estimates + exact, np.where(free > 0, errors, np.inf)


def completed_means(items: Items, labels: sp.csr_array, weights: Array) -> tuple[Array, Array]:
    """Return the means of completed rows and their posterior standard deviations."""
    abilities = items.abilities(labels)
    y = labels.toarray()
    posterior = Posterior.of(items, abilities, y == 0, weights)
    completed = np.where(y != 0, y > 0, items.predict(abilities, labels)) * weights
    return completed.sum(axis=1), np.sqrt(posterior.variances_of_means)


def steps_like(draws: Draws, rows: Positions, of_rows: Positions) -> list[Step]:
    """Return the batches of other rows, each with the numbers of cells that one of some rows had.

    Parameters
    ----------
    draws : Draws
        The drawn cells of the rows.
    rows : array
        The rows, sorted.
    of_rows : array of shape (n,)
        For each of the other rows the place in ``rows`` of the row that it is to be like.
    """
    found = []
    inside = np.isin(draws.rows, rows)
    for number in np.unique(draws.batch[inside]):
        at = inside & (draws.batch == number)
        counts = [
            np.bincount(np.searchsorted(rows, draws.rows[at & chosen]), minlength=rows.size)
            for chosen in (~draws.is_random, draws.is_random)
        ]
        found.append(Step(*(each[of_rows].astype(np.float64) for each in counts)))
    return found


def design_of(draws: Draws, weights: Array) -> Design:
    """Return the design of some draws: "random" if the cells of a row and a batch have the same probability."""
    random = np.flatnonzero(draws.is_random)
    order = random[np.lexsort((draws.batch[random], draws.rows[random]))]
    same = (np.diff(draws.rows[order]) == 0) & (np.diff(draws.batch[order]) == 0)
    differs = np.abs(np.diff(draws.probability[order])) > SAME_PROBABILITY
    name = "mixed" if (same & differs).any() else "random"
    return Design.of(weights.size, name, weights=weights)


#: Difference of two probabilities that are the same.
SAME_PROBABILITY = 1e-9
