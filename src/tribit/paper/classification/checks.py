"""Checks of examples and labels, each refusal one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import validate_data

from tribit.errors import InvalidInputError, InvalidTypeError
from tribit.paper.classification.losses import Array
from tribit.paper.classification.weights import WORDS, Labels


def check_features(X: Any, *, estimator: Any = None, reset: bool = True) -> Array:
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


def check_labels(y: Any, X: Array, *, allowed: Iterable[int], needed: Iterable[int]) -> Labels:
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
        f"{kind:+d} ({WORDS[kind]})" if kind else "0 (unlabelled)" for kind in choices
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
                f"None of the {labels.size} sample(s) has the label {kind} ({WORDS[kind]} class), needed here; "
                "add such examples or choose another risk."
            )
    return np.asarray(labels, dtype=np.int64)
