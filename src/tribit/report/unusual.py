"""Rows and columns of a report that stand out: badly predicted, or nearly all likes or all dislikes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.axis import Axis, Positions
from tribit.data.observations import Observations
from tribit.metrics.entries import losses
from tribit.report.names import names_at
from tribit.report.trial import Trial

#: Rows (and columns) that each list names.
SHOWN = 5
#: Entries with which a mean is drawn to that of all: a row of so many counts half. One of few entries is extreme by
#: chance alone.
PRIOR = 5.0
#: Least entries of a row that is listed: of one or two nothing can be said.
LEAST = 3


def unusual_facts(trial: Trial, seen: Observations | None) -> dict[str, Any]:
    """Return, for rows and columns, those with the worst log-loss and the most one-sided ones."""
    axes = trial.scores.axes
    _, _, labels = trial.places
    found: dict[str, Any] = {"worst": {}, "one_sided": {}}
    both = labels.min() != labels.max()
    loss = losses(trial.scores.curve, trial.x, labels)
    for number, side in enumerate(("rows", "columns")):
        axis = axes[number]
        if both and axis.size > 1:
            found["worst"][side] = worst(
                axis, (trial.held_out.rows, trial.held_out.columns)[number], loss
            )
        if seen is not None and axis.size > 1 and seen.n_likes and seen.n_dislikes:
            places = (seen.rows, seen.columns)[number]
            found["one_sided"][side] = one_sided(axis, places, seen.labels)
    return found


def worst(axis: Axis, places: Positions, loss: NDArray[Any]) -> list[dict[str, Any]]:
    """Return the rows whose mean loss, drawn to that of all, is furthest above it."""
    counts, sums = _sums(axis, places, np.asarray(loss, dtype=np.float64))
    mean = float(np.mean(loss))
    excess = np.where(counts >= LEAST, (sums - mean * counts) / (counts + PRIOR), 0.0)
    order = np.argsort(-excess, kind="stable")[:SHOWN]
    order = order[excess[order] > 0]
    return [
        {"name": name, "n": int(counts[place]), "loss": float(sums[place] / counts[place])}
        for name, place in zip(names_at(axis, order), order, strict=True)
    ]


def one_sided(axis: Axis, places: Positions, labels: NDArray[np.int8]) -> list[dict[str, Any]]:
    """Return the rows whose share of likes, drawn to that of all, is furthest from it."""
    counts, likes = _sums(axis, places, (labels > 0).astype(np.float64))
    share = float(np.mean(labels > 0))
    distance = np.where(counts >= LEAST, np.abs(likes - share * counts) / (counts + PRIOR), 0.0)
    order = np.argsort(-distance, kind="stable")[:SHOWN]
    order = order[distance[order] > 0]
    return [
        {"name": name, "n": int(counts[place]), "likes": int(likes[place])}
        for name, place in zip(names_at(axis, order), order, strict=True)
    ]


def _sums(
    axis: Axis, places: Positions, values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return numbers of entries and sums of values, of each row."""
    counts = np.bincount(places, minlength=axis.size).astype(np.int64)
    return counts, np.bincount(places, values, minlength=axis.size).astype(np.float64)
