"""Examples as numbers: features and labels, the bases in which a decision is linear, and folds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data

from tribit.checks import check_count
from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.paper.classification.risks import KIND_NAMES, Array, Labels
from tribit.randomness import fold_numbers

#: Sample size of the median distance.
MEDIAN_SAMPLE_SIZE = 500


class Basis(Protocol):
    """A map of examples to the features in which the decision is linear."""

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


def choose_rows(X: Array, n_rows: object, draws: np.random.Generator) -> Array:
    """Return at most ``n_rows`` rows of X, sampled without replacement."""
    n_rows = check_count("n_centres", n_rows)
    # A permutation for any number, so that later random numbers do not depend on it.
    return X[np.sort(draws.permutation(X.shape[0])[:n_rows])]


def median_distance(X: Array, draws: np.random.Generator) -> float:
    """Return the median distance between two different examples; 1 where there are none."""
    distances = pdist(choose_rows(X, MEDIAN_SAMPLE_SIZE, draws))
    distances = distances[distances > 0.0]
    return float(np.median(distances)) if distances.size else 1.0


def check_features(X: object, *, estimator: object = None, reset: bool = True) -> Array:
    """Return the examples as a finite matrix of float64, of the width ``estimator`` was fitted on."""
    options = {"dtype": np.float64, "ensure_all_finite": False}
    try:
        if estimator is None:
            examples = check_array(X, **options)
        else:
            examples = validate_data(estimator, X, reset=reset, **options)
    except TypeError as error:
        raise InvalidTypeError(str(error).split("\n", maxsplit=1)[0]) from None
    except ValueError as error:
        message = str(error).split("\n", maxsplit=1)[0]
        if message.startswith("Expected 2D array"):
            message = (
                "X is not a matrix with one row for each example; Reshape your data, say by X.reshape(-1, 1) "
                "for a single feature."
            )
        raise InvalidInputError(message) from None
    wrong = np.argwhere(~np.isfinite(examples))
    if wrong.size:
        row, column = wrong[0]
        raise InvalidInputError(
            f"X holds {examples[row, column]} (row {row}, column {column}); "
            "every feature must be finite: no NaN, no infinity."
        )
    return np.asarray(examples)


def check_labels(y: object, X: Array, *, allowed: Iterable[int], needed: Iterable[int]) -> Labels:
    """Return the labels as integers, each ``allowed``, each of ``needed`` there at least once."""
    if y is None:
        raise InvalidInputError(
            "This method requires y to be passed, but the target y is None; "
            "pass one label for each example: +1, -1, or 0 for unlabelled."
        )
    try:
        labels = column_or_1d(y, warn=True)
        check_consistent_length(X, labels)
    except ValueError as error:
        raise InvalidInputError(str(error).split("\n", maxsplit=1)[0]) from None
    choices = list(allowed)
    names = ", ".join(
        f"{kind:+d} ({KIND_NAMES[kind]})" if kind else "0 (unlabelled)" for kind in choices
    )
    # Compared one by one: np.isin would make strings of numbers where y holds strings.
    wrong = [label for label in labels.tolist() if label not in choices]
    if wrong:
        raise InvalidInputError(
            f"Unknown label type: y holds {wrong[0]!r}, but every label must be one of {names}."
        )
    for kind in needed:
        if not np.any(labels == kind):
            raise InvalidInputError(
                f"None of the {labels.size} sample(s) has the label {kind} ({KIND_NAMES[kind]} class), needed here; "
                "add such examples or choose another risk."
            )
    return np.asarray(labels, dtype=np.int64)


def kind_folds(
    labels: Labels, n_folds: int, draws: np.random.Generator, needed: Sequence[int]
) -> NDArray[np.int64]:
    """Return a fold number for each example, so that each fold has its share of every kind.

    There are fewer than ``n_folds`` folds where a kind has fewer examples.
    """
    counts = {kind: int(np.count_nonzero(labels == kind)) for kind in needed}
    fewest = min(counts, key=lambda kind: counts[kind])
    if counts[fewest] < 2:
        raise InvalidInputError(
            f"Only {counts[fewest]} example is labelled {fewest} ({KIND_NAMES[fewest]} class) and cross-validation "
            'needs 2; pass numbers instead of "cv".'
        )
    folds = np.zeros(labels.size, dtype=np.int64)
    for kind in needed:
        folds[labels == kind] = fold_numbers(counts[kind], min(n_folds, counts[fewest]), draws)
    return folds
