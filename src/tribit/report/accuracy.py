"""Accuracy of a page: ROC and precision-recall curves, predictions by label, and errors by activity and popularity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Positions
from tribit.evaluation.held_out import BASE_RATE, BIASES, base_rate_scores, fit_biases
from tribit.metrics.entries import (
    calibration_error,
    interval,
    label_weights,
    ndcg_of_rows,
    standard_error,
)
from tribit.report.trial import LEVEL

if TYPE_CHECKING:
    from tribit.report.trial import Trial

Floats = NDArray[np.floating[Any]]

#: Maximum number of points of a ROC or precision-recall curve: a chart is some 400 pixels wide.
MAX_CURVE_POINTS = 200
#: Number of bars of the histogram of predictions.
N_BARS = 20
#: Maximum number of groups by activity or popularity, and the minimum number of test entries in each: the standard
#: error of an error rate of 50 is about 7 points.
MAX_GROUPS, MIN_IN_GROUP = 5, 50


def accuracy_facts(trial: Trial) -> dict[str, Any] | None:
    """Return curves, the histogram and the groups; None where the test set has one label alone."""
    rows, columns, labels = trial.places
    if labels.min() == labels.max():
        return None
    likely = {"model": np.asarray(trial.probabilities, dtype=np.float64)}
    beside: dict[str, dict[str, float]] = {}
    sides = {}
    train = trial.train
    if train is not None:
        if train.n_likes and train.n_dislikes:
            biases = fit_biases(train).scores_
            likely[BIASES] = np.asarray(biases.probability(biases.x(rows, columns)), np.float64)
            order = ndcg_of_rows(rows, likely[BIASES], labels)
            beside[BIASES] = {"calibration_error": calibration_error(likely[BIASES], labels)}
            if order.size:
                beside[BIASES]["ndcg"] = float(np.mean(order))
        curve, x = base_rate_scores(train, labels.size)
        constant = np.asarray(curve.probability(x), dtype=np.float64)
        rate = errors_of(constant, labels)
        beside[BASE_RATE] = {"calibration_error": calibration_error(constant, labels)}
        for side, places, counts in zip(
            ("row", "column"), (rows, columns), train.counts, strict=True
        ):
            sides[side] = group_facts(counts[places], likely, rate, rows, labels)
    return {
        "base_rate": float(np.mean(labels > 0)),
        "curves": {name: curve_facts(each, labels) for name, each in likely.items()},
        "histogram": {
            label: np.histogram(likely["model"][labels == sign], N_BARS, (0.0, 1.0))[0]
            for label, sign in (("likes", 1), ("dislikes", -1))
        },
        "groups": sides,
        "baselines": beside,
    }


def errors_of(likely: Floats, labels: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return 1 where the more probable label is wrong, else 0; even odds are a like."""
    return np.asarray((likely >= 0.5) != (labels > 0), dtype=np.float64)


def curve_facts(likely: Floats, labels: NDArray[np.int8]) -> dict[str, Any]:
    """Return thresholds, highest first, with the shares of likes and of dislikes from there up, and the precision."""
    liked, disliked = (np.cumsum(each[::-1]) for each in label_weights(likely, labels > 0))
    thresholds = np.unique(likely)[::-1]
    n = thresholds.size
    some = np.unique(np.linspace(0, n - 1, min(n, MAX_CURVE_POINTS)).round().astype(int))
    # The point at which the likelier label is predicted.
    half = int(np.count_nonzero(thresholds >= 0.5)) - 1
    some = np.union1d(some, [max(half, 0)])
    return {
        "thresholds": thresholds[some],
        "recall": liked[some] / liked[-1],
        "false_likes": disliked[some] / disliked[-1],
        "precision": liked[some] / (liked[some] + disliked[some]),
        "half": int(np.searchsorted(some, half)) if half >= 0 else None,
    }


def group_facts(
    counts: NDArray[np.int64],
    likely: Mapping[str, Floats],
    rate: NDArray[np.float64],
    rows: Positions,
    labels: NDArray[np.int8],
) -> list[dict[str, Any]]:
    """Return error rates and calibration in groups of similar numbers of training entries.

    Parameters
    ----------
    counts : array of shape (n_entries,)
        Number of training entries of the row (or column) of each test entry.
    likely : dict of arrays of shape (n_entries,)
        Probabilities of the model and of biases, if there are some.
    rate : array of shape (n_entries,)
        Errors of the base rate.
    rows, labels : arrays of shape (n_entries,)
        Row and label of each test entry.
    """
    n_groups = max(1, min(MAX_GROUPS, labels.size // MIN_IN_GROUP))
    # Cut at values, so that equal numbers of entries are in one group.
    cuts = np.unique(np.sort(counts)[np.arange(1, n_groups) * labels.size // n_groups])
    where = np.searchsorted(cuts, counts, side="right")
    found = []
    for group in np.unique(where):
        some = np.flatnonzero(where == group)
        wrong = {name: errors_of(each[some], labels[some]) for name, each in likely.items()}
        mean = float(np.mean(wrong["model"]))
        error = standard_error((wrong["model"] - mean) / some.size, rows[some])
        found.append(
            {
                "least": int(counts[some].min()),
                "most": int(counts[some].max()),
                "entries": some.size,
                "error_rate": mean,
                "interval": interval(mean, error, LEVEL, 1.0) if error else None,
                "biases": float(np.mean(wrong[BIASES])) if BIASES in wrong else None,
                "base_rate": float(np.mean(rate[some])),
                "predicted": float(np.mean(likely["model"][some])),
                "observed": float(np.mean(labels[some] > 0)),
            }
        )
    return found
