"""Doubly robust estimates of weighted row means: seen labels, corrected by predictions of the unseen ones.

    mean_i = sum_j a_j y_ij,        sum_j a_j = 1
    estimate = lambda_i sum_j a_j p_ij + sum_seen (a_j / q_ij) (y_ij - lambda_i p_ij) / sum_seen (a_j / q_ij)

``q_ij`` is the probability that a cell is seen (augmented inverse propensity weighting; in survey statistics the
difference estimator with Hajek's weights), and ``p_ij`` a prediction that does not use ``y_ij``. The estimate is right
on average over draws of the cells whatever the predictions are; good ones make its variance smaller. ``lambda_i``
weights the predictions: the slope of labels on predictions within the row, shrunk to the slope of all rows by the
variance of slopes between rows (DerSimonian and Laird). It is 0 where predictions do not help.

The predictions of a row are kept as a histogram over their log-odds, which is all that intervals need
(:mod:`tribit.estimates.intervals`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, logit

__all__ = ["NODES", "RowSums", "prediction_weights", "row_sums"]

Array = NDArray[np.floating[Any]]

#: Log-odds of the histograms: a prediction is split between its two neighbours so that its mean is kept.
NODES = np.linspace(-8.0, 8.0, 81)
NODE_PROBABILITIES = expit(NODES)
#: Fewest seen cells of a row whose labels are compared with predictions; below, the plain share is used.
MIN_CELLS = 4
#: Largest weight of predictions.
MAX_PREDICTION_WEIGHT = 1.2
#: Least sum of squares of predictions within a row from which a slope follows.
MIN_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over the cells of each row, from which estimates and intervals follow.

    Attributes
    ----------
    seen, cells : array of shape (n,)
        Numbers of seen cells and of all cells, of those with a weight ``a_j`` above 0.
    known, known_likes : array of shape (n,)
        Sums of ``a_j`` and of ``a_j y_ij`` over seen cells.
    effective : array of shape (n,)
        Kish's effective number of seen cells, ``(sum a / q)^2 / sum (a / q)^2``.
    label, prediction : array of shape (n,)
        Means of seen labels and of their predictions, weighted by ``a / q``.
    completed, population : array of shape (n,)
        Means over all cells with unseen labels predicted, and of the predictions of all cells.
    products : array of shape (n, 3)
        Sums over seen cells of squared labels, of labels times predictions and of squared predictions, centred, each
        cell with its share in the variance of the estimate; these have mean 1.
    unit : array of shape (n,)
        The factor from ``products`` to the variance of the estimate.
    mass, unseen, noise, noise_of_noise : array of shape (n, number of nodes)
        Histograms of the log-odds of predictions, with weights ``a_j`` (of all and of unseen cells),
        ``a_j^2 (1 - q) / q`` and
        ``a_j^4 (1 - q)^2 / q^3``; with errors ``s^2`` of the log-odds of q, times ``1 + (1 - q) s^2`` or its square.
    """

    seen: Array
    cells: Array
    known: Array
    known_likes: Array
    effective: Array
    label: Array
    prediction: Array
    completed: Array
    population: Array
    products: Array
    unit: Array
    mass: Array
    unseen: Array
    noise: Array
    noise_of_noise: Array

    @classmethod
    def concatenate(cls, parts: list[Self]) -> Self:
        """Return the sums of several blocks of rows."""
        return cls(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls))
        )

    def take(self, rows: NDArray[np.integer[Any]]) -> Self:
        """Return the sums of some rows."""
        return type(self)(*(getattr(self, each.name)[rows] for each in fields(self)))

    @property
    def is_compared(self) -> NDArray[np.bool_]:
        """Whether a row has seen cells enough to compare labels with predictions, and unseen cells."""
        return np.asarray((self.seen >= MIN_CELLS) & (self.seen < self.cells))

    @property
    def is_unequal(self) -> NDArray[np.bool_]:
        """Whether the seen cells of a row differ in their weights ``a / q``."""
        return np.asarray(self.effective < self.seen * (1 - 1e-9))

    def estimates(self, weights: Array) -> Array:
        """Return doubly robust estimates for weights of the predictions, within the bounds that seen cells set."""
        found = self.label - weights * (self.prediction - self.population)
        found = np.where(self.seen > 0, found, self.completed)
        return np.clip(found, self.known_likes, self.known_likes + 1 - self.known)

    def residual_variances(self, weights: Array) -> Array:
        """Return the variances of the estimates from the residuals of seen cells."""
        square, product, of_predictions = self.products.T
        sums = np.maximum(square - 2 * weights * product + weights**2 * of_predictions, 0.0)
        return np.asarray(self.unit * sums * self.seen / np.maximum(self.seen - 1, 1))


def row_sums(
    labels: sp.csr_array,
    p: Array,
    weights: Array,
    q: Array | None = None,
    errors: Array | float = 0.0,
    *,
    q_of_seen: bool = False,
) -> RowSums:
    """Return the sums of a block of rows.

    Parameters
    ----------
    labels : sparse array of shape (n, d2)
        Labels +1 and -1 at the seen cells.
    p : array of shape (n, d2)
        Predictions; that of a seen cell does not use its label.
    weights : array of shape (d2,) or (n, d2)
        Weights ``a_j`` of the columns, which sum to 1 (in each row).
    q : array of shape (n, d2), optional
        Probabilities of being seen; by default the share of seen cells, the same for all cells of a row.
    errors : array of shape (n, d2) or float, default=0.0
        Variances of the log-odds of ``q``, if these are estimated.
    q_of_seen : bool
        Whether ``q`` is known at seen cells alone: sums over all cells of a row are then estimated from these.
    """
    weights = np.broadcast_to(weights, p.shape)
    dense = labels.toarray()
    counted = weights > 0
    mask = (dense != 0) & counted
    y = (dense > 0).astype(np.float64)
    seen, cells = (each.sum(axis=1).astype(np.float64) for each in (mask, counted))
    if q is None:
        q = np.broadcast_to((np.maximum(seen, 1) / cells)[:, None], p.shape)
    inverse = np.where(mask, weights / q, 0.0)
    total = np.where(seen > 0, inverse.sum(axis=1), 1.0)
    label, prediction = (np.sum(inverse * each, axis=1) / total for each in (y, p))
    # 1 / q has the relative error (1 - q) times that of the log-odds.
    wider = 1 + (1 - q) * errors
    shares = np.where(mask, (weights / q) ** 2 * (1 - q) * wider, 0.0)
    unit = shares.sum(axis=1) / np.maximum(seen, 1)
    shares /= np.where(unit > 0, unit, 1.0)[:, None]
    away_y, away_p = y - label[:, None], p - prediction[:, None]
    products = [away_y * away_y, away_y * away_p, away_p * away_p]
    noise = weights**2 * (1 - q) / q * wider
    estimated = mask / q if q_of_seen else 1.0
    return RowSums(
        seen=seen,
        cells=cells,
        known=(mask * weights).sum(axis=1),
        known_likes=(mask * y * weights).sum(axis=1),
        effective=np.where(
            seen > 0, total**2 / np.where(seen > 0, (inverse**2).sum(axis=1), 1.0), 0.0
        ),
        label=label,
        prediction=prediction,
        completed=(np.where(mask, y, p) * weights).sum(axis=1),
        population=(p * weights).sum(axis=1),
        products=np.stack([(shares * each).sum(axis=1) for each in products], axis=1),
        unit=unit / total**2,
        mass=_histogram(p, weights),
        unseen=_histogram(p, np.where(mask, 0.0, weights)),
        noise=_histogram(p, noise * estimated),
        noise_of_noise=_histogram(p, noise**2 / q * estimated),
    )


def _histogram(p: Array, weights: Array) -> Array:
    """Return the weights at the nodes; a cell's is split between two of them so that the mean probability is kept."""
    n = len(p)
    p = np.clip(p, NODE_PROBABILITIES[0], NODE_PROBABILITIES[-1])
    below = np.clip(
        ((logit(p) - NODES[0]) / (NODES[1] - NODES[0])).astype(np.intp), 0, NODES.size - 2
    )
    low, high = NODE_PROBABILITIES[below], NODE_PROBABILITIES[below + 1]
    to_high = (p - low) / (high - low)
    places = (np.arange(n)[:, None] * NODES.size + below).ravel()
    size = n * NODES.size
    at_low = np.bincount(places, (weights * (1 - to_high)).ravel(), size + 1)
    at_high = np.bincount(places + 1, (weights * to_high).ravel(), size + 1)
    return np.asarray(at_low + at_high, np.float64)[:size].reshape(n, NODES.size)


def prediction_weights(sums: RowSums) -> Array:
    """Return the weight of the predictions in each row: its own slope, shrunk to the slope of all rows."""
    used = sums.is_compared & (sums.products[:, 2] > MIN_SPREAD)
    found = np.zeros(len(used))
    if not used.any():
        return found
    n = sums.seen[used]
    square, product, of_predictions = sums.products[used].T
    common = np.clip(product.sum() / of_predictions.sum(), 0.0, MAX_PREDICTION_WEIGHT)
    residual = np.maximum(square - 2 * common * product + common**2 * of_predictions, 0.0)
    own = residual / (n - 2)
    variances = (own + np.average(own, weights=n)) / 2 / of_predictions
    slopes = product / of_predictions
    between = _variance_between(slopes - common, variances)
    shrunk = common + between / (between + variances) * (slopes - common)
    found[sums.is_compared] = common
    found[used] = np.clip(shrunk, 0.0, MAX_PREDICTION_WEIGHT)
    return found


def _variance_between(away: Array, variances: Array) -> float:
    """Return the variance between rows by the moments of DerSimonian and Laird (1986)."""
    precision = 1 / np.maximum(variances, np.finfo(float).tiny)
    excess = (precision * away**2).sum() - (away.size - 1)
    freedom = precision.sum() - (precision**2).sum() / precision.sum()
    return max(0.0, float(excess / freedom)) if freedom > 0 else 0.0
