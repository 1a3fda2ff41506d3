"""Slopes of columns on the features of rows without entries, learned from each column's own entries.

    d_j = argmin  sum over observed entries of column j of the loss at  x_ij = g_i' (C_j + d_j),  plus  d_j' R d_j / 2

with ``g_i = (1, features)`` and ``C_j`` the prediction for column j by the map of :mod:`tribit.folding.cold_start`:
a regression of each column on the features, shrunk towards the map. The rows that were held out to choose the map
choose R, and whether there are slopes at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.backends.free_rows import free_rows
from tribit.data.observations import Observations
from tribit.metrics.entries import losses
from tribit.model.links import Link

Array = NDArray[np.floating[Any]]
Places = NDArray[np.integer[Any]]

#: Folds of rows, and those that are held out, each in turn, to choose a ridge.
FOLDS, HELD_OUT = 5, (0, 1)

#: Ridge weights of the slopes, as those of the map. On ML-100k, seeds 10 to 13, cold items are best at 30 and cold
#: users at 300 to 1000.
WEIGHTS = (1000.0, 300.0, 100.0, 30.0)
#: Ridge weight of the constant, a level of the column's own; from 3 to 30 the same data show no difference.
OF_CONSTANT = 10.0
#: Most features: slopes are a dense array of one number for each column and feature.
MOST = 200


def curvature_unit(link: Link) -> float:
    """Return four times the link's curvature at 0: the unit of ridge weights, 1 for the logistic link of scale 1."""
    return 4.0 * float(link.second(np.zeros(1), 1)[0])


def own_slopes(
    entries: Observations,
    G: Array,
    number: Places,
    trials: Sequence[Array],
    centre: Array,
    link: Link,
    n_jobs: int,
) -> Array | None:
    """Return ``d_j`` of each column; None where held-out entries prefer the map alone.

    Parameters
    ----------
    entries : Observations
        What the model was fitted on.
    G : array of shape (n_rows, 1 + n_features)
        ``g_i``.
    number : array of int
        The fold of each entry.
    trials : sequence of array of shape (n_columns, 1 + n_features)
        ``C_j`` without each of the folds ``HELD_OUT``.
    centre : array of shape (n_columns, 1 + n_features)
        ``C_j`` of the whole fit.
    """
    parts = [
        (entries.select(number != fold).transpose(), entries.select(number == fold), trial)
        for fold, trial in zip(HELD_OUT, trials, strict=True)
    ]
    unit = curvature_unit(link)
    nothing = np.zeros(G.shape[0])

    def solved(part: Observations, at: Array, weight: float) -> Array:
        ridge = np.full(G.shape[1], unit * weight)
        ridge[0] = unit * OF_CONSTANT
        return free_rows(part, G, nothing, at, ridge, link, n_jobs)

    def loss(weight: float) -> float:
        total = 0.0
        for rest, test, trial in parts:
            C = solved(rest, trial, weight) if np.isfinite(weight) else trial
            x = np.einsum("ij,ij->i", G[test.rows], C[test.columns])
            total += float(np.mean(losses(link, x, test.labels)))
        return total

    best, least = None, loss(np.inf)
    for weight in WEIGHTS:
        found = loss(weight)
        if found < least:
            best, least = weight, found
        elif best is not None:
            break
    if best is None:
        return None
    return np.asarray(solved(entries.transpose(), centre, best) - centre)
