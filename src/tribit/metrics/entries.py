"""Measures of held-out entries: error rate, log-loss, AUC, NDCG and calibration error, with standard errors.

A measure is a function of a curve (a link, or anything else with ``probability`` and ``loss``), the scores ``x``, the
labels and, optionally, their weights. :data:`METRICS` lists those that :func:`tribit.evaluate` and ``tribit evaluate``
report.

Standard errors are clustered by row, because entries of one user are correlated. To first order a measure ``m`` of n
entries is its true value plus a sum of influences ``psi_e``. For R independent rows

    se(m)^2 = R / (R - 1) sum_rows ( sum_{e in row} psi_e )^2

without resampling (for the AUC: Obuchowski 1997, "Nonparametric analysis of clustered ROC curve data", after DeLong,
DeLong and Clarke-Pearson 1988). The influences of two models on the same entries subtract, which gives the paired
error of a difference. The model is fixed: :func:`tribit.cross_validate` shows the variation over training sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from tribit.checks import check_count
from tribit.data.axis import first_true
from tribit.data.weights import weights_or_ones
from tribit.errors import InvalidInputError, parameter

__all__ = [
    "INFLUENCES",
    "METRICS",
    "Metric",
    "Reliability",
    "calibration_error",
    "interval",
    "ndcg_of_rows",
    "reliability",
    "standard_error",
]


Array = NDArray[np.floating[Any]]
Labels = NDArray[Any]


class Curve(Protocol):
    """The probability of a like at a score, and the loss of a label there; any :class:`~tribit.Link` is one."""

    def probability(self, x: Array) -> Array:
        """Return P(like)."""
        ...

    def loss(self, x: Array, y: Literal[1, -1]) -> Array:
        """Return ``-log P(y)`` for y = +1 or -1."""
        ...


@dataclass(frozen=True)
class ByProbability:
    """A curve known by its probabilities alone, such as a calibrator: its losses are finite where it is sure."""

    of: Callable[[Array], Array]

    def probability(self, x: Array) -> Array:
        """Return P(like)."""
        return self.of(x)

    def loss(self, x: Array, y: Literal[1, -1]) -> Array:
        """Return ``-log P(y)`` for y = +1 or -1."""
        p = self.of(x)
        return np.asarray(-np.log(np.maximum(p if y > 0 else 1.0 - p, np.finfo(np.float64).tiny)))


def known_probabilities(probabilities: Array) -> ByProbability:
    """Return the curve of entries whose probabilities are known already, whatever their scores."""
    return ByProbability(lambda _: probabilities)


def losses(curve: Curve, x: Array, labels: Labels) -> Array:
    """Return ``-log P(label)`` of each entry."""
    return np.where(labels > 0, curve.loss(x, 1), curve.loss(x, -1))


def errors(curve: Curve, x: Array, labels: Labels) -> Array:
    """Return 1 where the likelier sign is wrong and 0 where it is right; even odds are a like."""
    return np.asarray((curve.probability(x) >= 0.5) != (labels > 0), dtype=np.float64)


def log_loss(curve: Curve, x: Array, labels: Labels, weights: Array | None = None) -> float:
    """Return the weighted mean of ``-log P(label)``."""
    return float(np.average(losses(curve, x, labels), weights=weights))


def error_rate(curve: Curve, x: Array, labels: Labels, weights: Array | None = None) -> float:
    """Return the weighted share of the signs that are wrong."""
    return float(np.average(errors(curve, x, labels), weights=weights))


def accuracy(curve: Curve, x: Array, labels: Labels, weights: Array | None = None) -> float:
    """Return the weighted share of the signs that are right."""
    return 1.0 - error_rate(curve, x, labels, weights)


def auc(
    curve: Curve,  # noqa: ARG001
    x: Array,
    labels: Labels,
    weights: Array | None = None,
) -> float | None:
    """Return the probability that a like is ranked above a dislike; None where only one of them was observed."""
    likes = labels > 0
    if likes.all() or not likes.any():
        return None
    return area_under_curve(*label_weights(x, likes, weights))


def label_weights(x: Array, likes: Labels, weights: Array | None = None) -> tuple[Array, Array]:
    """Return the weights of the likes and of the dislikes at each distinct score, in rising order."""
    w = np.ones(x.size) if weights is None else weights
    _, place = np.unique(x, return_inverse=True)
    liked, disliked = (np.bincount(place, np.where(side, w, 0.0)) for side in (likes, ~likes))
    return np.asarray(liked, float), np.asarray(disliked, float)


def area_under_curve(liked: Array, disliked: Array) -> float:
    """Return the AUC of weights at rising scores, NaN without dislikes; equal scores count half."""
    below = np.cumsum(disliked) - 0.5 * disliked
    with np.errstate(invalid="ignore"):
        return float(liked @ below / (liked.sum() * disliked.sum()))


def one_minus_auc(curve: Curve, x: Array, labels: Labels, weights: Array | None = None) -> float:
    """Return 1 - AUC: how often a dislike is ranked above a like."""
    found = auc(curve, x, labels, weights)
    if found is None:
        raise InvalidInputError(
            f"{parameter('scoring', 'auc')} needs likes and dislikes among the held-out entries; use 'log_loss'."
        )
    return 1.0 - found


class Metric(NamedTuple):
    """A measure and its title in reports.

    Examples
    --------
    >>> from tribit.metrics.entries import METRICS
    >>> METRICS["log_loss"].title
    'log-loss'
    """

    title: str
    measure: Callable[[Curve, Array, Labels, Array | None], float | None]


#: Measures of test entries, in the order of the report. A measure that needs both labels is None where one is missing.
METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", accuracy),
    "error_rate": Metric("error rate", error_rate),
    "log_loss": Metric("log-loss", log_loss),
    "auc": Metric("AUC", auc),
}

#: Measures that ``scoring`` of a search takes; each the smaller the better.
SCORINGS: dict[str, Callable[[Curve, Array, Labels, Array | None], float]] = {
    "log_loss": log_loss,
    "error": error_rate,
    "auc": one_minus_auc,
}

#: Losses of single entries, for the measures that are means of such losses.
ENTRY_LOSSES: dict[str, Callable[[Curve, Array, Labels], Array]] = {
    "log_loss": losses,
    "error": errors,
}


Positions = NDArray[np.integer[Any]]


def mean_influences(values: Array, weights: Array | None) -> Array:
    """Return the influence of each value on their mean."""
    if weights is None:
        return np.asarray((values - np.mean(values)) / values.size)
    return np.asarray(weights * (values - np.average(values, weights=weights)) / np.sum(weights))


def accuracy_influences(
    curve: Curve, x: Array, labels: Labels, weights: Array | None = None
) -> Array:
    """Return the influence of each entry on the share of right signs."""
    return mean_influences(1.0 - errors(curve, x, labels), weights)


def error_rate_influences(
    curve: Curve, x: Array, labels: Labels, weights: Array | None = None
) -> Array:
    """Return the influence of each entry on the share of wrong signs."""
    return mean_influences(errors(curve, x, labels), weights)


def log_loss_influences(
    curve: Curve, x: Array, labels: Labels, weights: Array | None = None
) -> Array:
    """Return the influence of each entry on the mean of ``-log P(label)``."""
    return mean_influences(losses(curve, x, labels), weights)


def auc_influences(
    curve: Curve,  # noqa: ARG001
    x: Array,
    labels: Labels,
    weights: Array | None = None,
) -> Array | None:
    """Return the influence of each entry on the AUC: how a like stands to all dislikes, and a dislike to all likes."""
    like = labels > 0
    if like.all() or not like.any():
        return None
    w = np.ones(x.size) if weights is None else weights
    _, place = np.unique(x, return_inverse=True)
    liked, disliked = label_weights(x, like, weights)
    n, m = liked.sum(), disliked.sum()
    # Shares of the dislikes below each like, and of the likes above each dislike; equal scores count half.
    above = (np.cumsum(disliked) - 0.5 * disliked)[place[like]] / m
    below = 1.0 - (np.cumsum(liked) - 0.5 * liked)[place[~like]] / n
    influence = np.empty(x.size)
    auc = np.average(above, weights=None if weights is None else w[like])
    influence[like], influence[~like] = (above - auc) / n, (below - auc) / m
    return np.asarray(w * influence)


#: Influence functions of the measures in ``METRICS`` that have one, by name.
INFLUENCES: dict[str, Callable[[Curve, Array, Labels, Array | None], Array | None]] = {
    "accuracy": accuracy_influences,
    "error_rate": error_rate_influences,
    "log_loss": log_loss_influences,
    "auc": auc_influences,
}


def measure_entries(
    curve: Curve,
    x: Array,
    labels: Labels,
    weights: Array | None = None,
) -> tuple[dict[str, float | None], dict[str, Array]]:
    """Return all registered measures, and the influence of each entry on those with a known influence function."""
    measures = {name: metric.measure(curve, x, labels, weights) for name, metric in METRICS.items()}
    influences = {
        name: influence
        for name, of in INFLUENCES.items()
        if name in measures and (influence := of(curve, x, labels, weights)) is not None
    }
    return measures, influences


def standard_error(influences: Array, rows: Positions) -> float | None:
    """Return the standard error of a sum of influences, given the row of each; None for a single row.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.metrics.entries import standard_error
    >>> rows = np.array([0, 0, 1, 2])
    >>> round(standard_error(np.array([0.2, 0.1, -0.2, -0.1]), rows), 3)
    0.458
    """
    _, which = np.unique(rows, return_inverse=True)
    sums = np.bincount(which, influences)
    if sums.size < 2:
        return None
    return float(np.sqrt(sums.size / (sums.size - 1) * np.sum(sums**2)))


def interval(value: float, error: float, level: float, most: float = np.inf) -> tuple[float, float]:
    """Return the normal interval of a measure from 0 to ``most``.

    Examples
    --------
    >>> from tribit.metrics.entries import interval
    >>> [round(end, 3) for end in interval(0.8, 0.02, 0.95, most=1.0)]
    [0.761, 0.839]
    """
    z = float(ndtri(0.5 + 0.5 * level))
    return max(value - z * error, 0.0), min(value + z * error, most)


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reliability:
    """Reliability diagram: predicted and observed shares of likes, in bins of rising probability.

    Attributes
    ----------
    predicted : array of shape (n_bins,)
        Mean probability in each bin.
    observed : array of shape (n_bins,)
        Share of likes in each bin.
    counts : array of shape (n_bins,)
        Number of entries in each bin.
    weights : array of shape (n_bins,) or None
        Sum of their weights, where they have any.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.metrics.entries import reliability
    >>> found = reliability(np.array([0.1, 0.2, 0.8, 0.9]), np.array([-1, -1, 1, 1]), bins=2)
    >>> found.predicted, found.observed
    (array([0.15, 0.85]), array([0., 1.]))
    """

    predicted: Floats
    observed: Floats
    counts: NDArray[np.int64]
    weights: Floats | None = None

    @property
    def error(self) -> float:
        """The weighted mean of ``|observed - predicted|`` over the entries."""
        weights = self.counts if self.weights is None else self.weights
        return float(np.average(np.abs(self.observed - self.predicted), weights=weights))


def reliability(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    bins: int = 10,
    weights: Floats | None = None,
) -> Reliability:
    """Sort entries by probability into bins of equal weight; see :func:`calibration_error`.

    Returns
    -------
    Reliability
        With fewer bins where there are fewer entries, or where equal probabilities, which stay together, fill
        several.

    Examples
    --------
    >>> import numpy as np
    >>> from tribit.metrics.entries import reliability
    >>> reliability(np.array([0.1, 0.2, 0.8, 0.9]), np.array([-1, 1, 1, 1]), bins=2).observed
    array([0.5, 1. ])
    """
    likely, likes = _check_probabilities(probabilities, labels)
    bins = check_count("bins", bins)
    w = weights_or_ones(weights, likely.size)
    # Cut at values and not at positions: the order of entries that are alike must not matter.
    order = np.argsort(likely)
    total = np.cumsum(w[order])
    places = np.searchsorted(total, np.arange(1, bins) * total[-1] / bins, side="right")
    cuts = likely[order][np.minimum(places, likely.size - 1)]
    _, where = np.unique(np.searchsorted(cuts, likely, side="right"), return_inverse=True)
    totals = np.bincount(where, w)
    predicted, observed = (np.bincount(where, w * values) / totals for values in (likely, likes))
    sums: Any = None if weights is None else totals
    return Reliability(predicted, observed, np.bincount(where), sums)


def calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    bins: int = 10,
    weights: Floats | None = None,
) -> float:
    """Return the expected calibration error.

        sum_b (n_b / n) |share of likes in bin b - mean probability in bin b|

    over bins of equal numbers of entries, or of equal weight (Naeini, Cooper and Hauskrecht 2015, "Obtaining well
    calibrated probabilities using Bayesian binning"; there the bins are of equal width).

    Parameters
    ----------
    probabilities : array-like of shape (n,)
        Probabilities of a like.
    labels : array-like of shape (n,)
        +1 for a like, -1 for a dislike.
    bins : int, default=10
        Number of bins.
    weights : array of shape (n,), optional
        Weight of each entry, above 0.

    Examples
    --------
    >>> calibration_error([0.5, 0.5, 0.75, 0.75], [1, -1, 1, 1], bins=2)
    0.125
    """
    return reliability(probabilities, labels, bins=bins, weights=weights).error


def _check_probabilities(probabilities: object, labels: object) -> tuple[Floats, Floats]:
    """Return the probabilities, and 1 for likes and 0 for dislikes."""
    likely, given = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if likely.ndim != 1 or likely.shape != given.shape or not likely.size:
        raise InvalidInputError(
            f"probabilities and labels have the shapes {likely.shape} and {given.shape}; give one label for each "
            "probability, and at least one."
        )
    if (odd := first_true(~((likely >= 0) & (likely <= 1)))) is not None:
        raise InvalidInputError(
            f"position {odd}: the probability {likely[odd]:g} is not between 0 and 1."
        )
    if (odd := first_true((given != 1) & (given != -1))) is not None:
        raise InvalidInputError(
            f"position {odd}: the label {given[odd]} is not +1 (like) or -1 (dislike)."
        )
    return likely, np.where(given > 0, 1.0, 0.0)


def ndcg_of_rows(rows: NDArray[np.integer[Any]], x: Array, labels: NDArray[Any]) -> Array:
    """Return the NDCG of each row that has likes and dislikes, in the order of rows; equal scores in the order given.

    Examples
    --------
    >>> import numpy as np
    >>> ndcg_of_rows(np.zeros(2, dtype=int), np.array([1.0, 2.0]), np.array([1, -1])).round(3)
    array([0.631])
    """
    order = np.lexsort((-x, rows))
    rows, likes = rows[order], labels[order] > 0
    _, first, which = np.unique(rows, return_index=True, return_inverse=True)
    place = np.arange(rows.size) - first[which]
    n_likes, n = np.bincount(which, likes).astype(int), np.bincount(which)
    found = np.bincount(which, likes / np.log2(place + 2.0))
    both = (n_likes > 0) & (n_likes < n)
    ideal = np.cumsum(1.0 / np.log2(np.arange(np.max(n, initial=1)) + 2.0))
    return np.asarray(found[both] / ideal[n_likes[both] - 1])
