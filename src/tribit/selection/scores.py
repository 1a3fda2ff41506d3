"""How good predictions of held-out entries are; of each measure less is better."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from tribit.errors import InvalidInputError, parameter
from tribit.model.links import Link

Array = NDArray[np.floating[Any]]
Labels = NDArray[np.int8]


def _losses(link: Link, x: Array, labels: Labels) -> Array:
    return np.where(labels > 0, link.loss(x, 1), link.loss(x, -1))


def _errors(link: Link, x: Array, labels: Labels) -> Array:
    return np.asarray((link.probability(x) >= 0.5) != (labels > 0), dtype=np.float64)


def log_loss(link: Link, x: Array, labels: Labels, weights: Array) -> float:
    """Return the weighted mean of ``-log P(label)``."""
    return float(np.average(_losses(link, x, labels), weights=weights))


def sign_error(link: Link, x: Array, labels: Labels, weights: Array) -> float:
    """Return the weighted share of the signs that are wrong."""
    return float(np.average(_errors(link, x, labels), weights=weights))


def misorder(link: Link, x: Array, labels: Labels, weights: Array) -> float:  # noqa: ARG001
    """Return 1 - AUC: how often a dislike is ranked above a like."""
    if (labels > 0).all() or (labels < 0).all():
        raise InvalidInputError(
            f"{parameter('scoring', 'auc')} needs likes and dislikes among the held-out entries; use 'log_loss'."
        )
    return float(1.0 - roc_auc_score(labels > 0, x, sample_weight=weights))


#: What ``scoring`` may be; each the smaller the better.
SCORINGS: dict[str, Callable[[Link, Array, Labels, Array], float]] = {
    "log_loss": log_loss,
    "error": sign_error,
    "auc": misorder,
}


#: What single entries lose, where the measure is a mean of such losses.
ENTRY_LOSSES: dict[str, Callable[[Link, Array, Labels], Array]] = {
    "log_loss": _losses,
    "error": _errors,
}
