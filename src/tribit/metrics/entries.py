"""Measures of predictions at observed entries: of signs, probabilities and order.

A measure is a function of a curve (a link, or anything else with ``probability`` and ``loss``), the scores ``x``, the
labels and, optionally, their weights. :data:`METRICS` lists those that :func:`tribit.evaluate` and ``tribit evaluate``
report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from tribit.errors import InvalidInputError, parameter

__all__ = ["METRICS", "Metric"]

Array = NDArray[np.floating[Any]]
Labels = NDArray[Any]


class Curve(Protocol):
    """The probability of a like at a score, and the loss of a label there; any :class:`~tribit.Link` is one."""

    def probability(self, x: Array) -> Array:
        """Return P(like)."""
        ...

    def loss(self, x: Array, y: Any) -> Array:
        """Return ``-log P(y)`` for y = +1 or -1."""
        ...


@dataclass(frozen=True)
class ByProbability:
    """A curve known by its probabilities alone, such as a calibrator: its losses are finite where it is sure."""

    of: Callable[[Array], Array]

    def probability(self, x: Array) -> Array:
        """Return P(like)."""
        return self.of(x)

    def loss(self, x: Array, y: Any) -> Array:
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


def sign_error(curve: Curve, x: Array, labels: Labels, weights: Array | None = None) -> float:
    """Return the weighted share of the signs that are wrong."""
    return float(np.average(errors(curve, x, labels), weights=weights))


def accuracy(curve: Curve, x: Array, labels: Labels, weights: Array | None = None) -> float:
    """Return the weighted share of the signs that are right."""
    return 1.0 - sign_error(curve, x, labels, weights)


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
    return float(roc_auc_score(likes, x, sample_weight=weights))


def misorder(curve: Curve, x: Array, labels: Labels, weights: Array | None = None) -> float:
    """Return 1 - AUC: how often a dislike is ranked above a like."""
    found = auc(curve, x, labels, weights)
    if found is None:
        raise InvalidInputError(
            f"{parameter('scoring', 'auc')} needs likes and dislikes among the held-out entries; use 'log_loss'."
        )
    return 1.0 - found


class Metric(NamedTuple):
    """A measure, and what a report calls it."""

    title: str
    measure: Callable[[Curve, Array, Labels, Array | None], float | None]


#: Measures of test entries, in the order of the report. A measure that needs both labels is None where one is missing.
METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", accuracy),
    "sign_error": Metric("sign error", sign_error),
    "log_loss": Metric("log-loss", log_loss),
    "auc": Metric("AUC", auc),
}

#: Measures that ``scoring`` of a search takes; each the smaller the better.
SCORINGS: dict[str, Callable[[Curve, Array, Labels, Array | None], float]] = {
    "log_loss": log_loss,
    "error": sign_error,
    "auc": misorder,
}

#: Losses of single entries, for the measures that are means of such losses.
ENTRY_LOSSES: dict[str, Callable[[Curve, Array, Labels], Array]] = {
    "log_loss": losses,
    "error": errors,
}
