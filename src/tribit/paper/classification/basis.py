"""Bases in which a decision is linear: the features themselves, or Gaussian bumps at some of the examples.

Either gives a matrix whose last column is 1, the intercept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist, pdist

from tribit.checks import check_count
from tribit.paper.classification.losses import Array

#: Most examples over which the median distance is taken: more would not change it much.
MEDIAN_SAMPLE = 500


class Basis(Protocol):
    """Turns examples into what the decision is linear in."""

    def features(self, X: Array) -> Array:
        """Return one row for each example, the last column 1."""
        ...


@dataclass(frozen=True)
class LinearBasis:
    """``g(x) = w'x + b``."""

    def features(self, X: Array) -> Array:  # noqa: D102
        return np.column_stack([X, np.ones(X.shape[0])])


@dataclass(frozen=True, eq=False)
class GaussianBasis:
    """``g(x) = sum_l w_l exp(-|x - c_l|^2 / (2 width^2)) + b``."""

    centres: Array
    width: float

    def features(self, X: Array) -> Array:  # noqa: D102
        return np.column_stack([bumps(X, self.centres, self.width), np.ones(X.shape[0])])


def bumps(X: Array, centres: Array, width: float) -> Array:
    """Return ``exp(-|x_i - c_l|^2 / (2 width^2))``."""
    return np.asarray(np.exp(-0.5 * (cdist(X, centres) / width) ** 2))


def choose_rows(X: Array, n_rows: Any, draws: np.random.Generator) -> Array:
    """Return at most ``n_rows`` rows of X, drawn without replacement."""
    n_rows = check_count("n_centres", n_rows)
    # A permutation whatever the number: the draws that follow do not depend on it.
    return X[np.sort(draws.permutation(X.shape[0])[:n_rows])]


def median_distance(X: Array, draws: np.random.Generator) -> float:
    """Return the median distance between two different examples; 1 where there are none."""
    distances = pdist(choose_rows(X, MEDIAN_SAMPLE, draws))
    distances = distances[distances > 0.0]
    return float(np.median(distances)) if distances.size else 1.0
