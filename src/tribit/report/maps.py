"""Maps of a report: rows and columns in the two directions along which their scores differ most.

Columns are compared as in :mod:`tribit.explain.neighbours`, by their scores ``u_i' v_j`` over the rows, less the
biases of rows and columns. The map is their principal components (Pearson 1901): of all planes the one that keeps most
of the squared distances between columns. It does not depend on how factors are rotated or scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.observations import Observations
from tribit.explain.neighbours import NO_VARIANCE, in_geometry, similar
from tribit.model.scores import Scores
from tribit.report.wording import names_at

Array = NDArray[np.floating[Any]]

#: Most points of a map, those with the most entries: browsers draw so many at once, and with their names and neighbours
#: they fill some 300 kB.
MOST_POINTS = 1200
#: Neighbours that a click lists.
NEIGHBOURS = 6


def map_facts(scores: Scores, seen: Observations | None, side: str) -> dict[str, Any] | None:
    """Return the points of a map of rows or columns; None where scores differ by biases alone.

    Parameters
    ----------
    scores : Scores
        Those of a fitted model.
    seen : Observations or None
        What it was fitted on, for numbers of entries and shares of likes.
    side : {"rows", "columns"}
        What the points are.
    """
    factors, axis = scores.factors.astype("float64"), scores.axes.columns
    if side == "rows":
        factors, axis = factors.transposed, scores.axes.rows
    if axis.size < 3 or not factors.rank:
        return None
    points, kept = principal_components(in_geometry(factors.row_factors, factors.column_factors))
    if kept is None:
        return None
    counts = likes = np.zeros(axis.size, dtype=np.int64)
    if seen is not None:
        places = seen.rows if side == "rows" else seen.columns
        counts = np.bincount(places, minlength=axis.size)
        likes = np.bincount(places[seen.labels > 0], minlength=axis.size)
    some = np.sort(np.argsort(-counts, kind="stable")[:MOST_POINTS])
    near = similar(scores, n=NEIGHBOURS, seen=seen, **{side: axis.names(some)})
    # Neighbours may be off the map: names has those of the points first.
    listed = np.concatenate([some, np.setdiff1d(near.positions, some)])
    number = np.full(axis.size, -1, dtype=np.int64)
    number[listed] = np.arange(listed.size)
    return {
        "side": side,
        "kept": kept,
        "of": axis.size,
        "names": names_at(axis, listed),
        "x": np.round(points[some, 0], 3),
        "y": np.round(points[some, 1], 3),
        "counts": None if seen is None else counts[some],
        "shares": np.round(likes[some] / np.maximum(counts[some], 1), 2)
        if seen is not None and seen.n_likes and seen.n_dislikes
        else None,
        "near": number[near.positions],
        "similarities": np.round(near.similarities, 2),
    }


def principal_components(vectors: Array) -> tuple[Array, float | None]:
    """Return two coordinates of each vector, within -1 and 1, and the share of the variance that they keep.

    The share is None where there is no variance. Of the two signs of a component the one is taken for which the
    coordinate that is farthest from 0 is positive.
    """
    centred = vectors - np.mean(vectors, axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((vectors.shape[0], 2))
    n = min(2, values.size)
    points[:, :n] = left[:, :n] * values[:n]
    total = float(np.sum(values**2))
    if total <= NO_VARIANCE * vectors.size:
        return points, None
    for column in points.T:
        column *= np.sign(column[np.argmax(np.abs(column))]) or 1.0
    return points / np.max(np.abs(points)), float(np.sum(values[:n] ** 2) / total)
