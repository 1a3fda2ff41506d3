"""The data of a report: how many entries there are, and how they spread over rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tribit.data.observations import Observations

#: Most different numbers of entries for which each has a bar of its own; and the number of bars of equal width where
#: the longest row is at most so many times as long as the shortest. Beyond, widths double.
SINGLE_BARS, EQUAL_BARS, SAME_SCALE = 16, 12, 8
#: Points of the popularity curves.
POINTS = 41


def table_facts(seen: Observations) -> dict[str, Any]:
    """Return counts, histograms of entries a row and a column, and how unevenly entries are spread."""
    counts = dict(zip(("row", "column"), seen.counts, strict=True))
    return {
        "rows": seen.shape[0],
        "columns": seen.shape[1],
        "likes": seen.n_likes,
        "dislikes": seen.n_dislikes,
        "density": seen.density,
        "median": {side: float(np.median(each)) for side, each in counts.items()},
        "empty": {side: int(np.count_nonzero(each == 0)) for side, each in counts.items()},
        "histograms": {side: histogram(each) for side, each in counts.items()},
        "popularity": {side: popularity(each) for side, each in counts.items()},
        "head": {side: float(head_share(each)) for side, each in counts.items()},
    }


def histogram(counts: NDArray[np.int64]) -> dict[str, list[Any]]:
    """Return how many rows have 0, 1, 2 to 3, 4 to 7, ... entries; without doubling where all are of like length."""
    least, most = int(counts.min()), int(counts.max())
    if most - least < SINGLE_BARS:
        edges = np.arange(least, most + 2)
    elif most <= SAME_SCALE * least:
        width = -(-(most - least + 1) // EQUAL_BARS)
        edges = np.arange(least, most + width + 1, width)
    else:
        edges = np.append(0, 2 ** np.arange(most.bit_length() + 1))
    n, _ = np.histogram(counts, np.append(edges[:-1], edges[-1] - 0.5))
    labels = [
        str(low) if high - low == 1 else f"{low}\N{EN DASH}{high - 1}"
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]
    # Before the first that is not empty nothing is told.
    first = int(np.flatnonzero(n)[0])
    return {"labels": labels[first:], "counts": n[first:].tolist()}


def popularity(counts: NDArray[np.int64]) -> dict[str, list[float]]:
    """Return, for shares of the columns, those with the most entries first, their share of all entries."""
    total = np.append(0, np.cumsum(np.sort(counts)[::-1])) / max(int(counts.sum()), 1)
    shares = np.linspace(0.0, 1.0, POINTS)
    return {
        "of": shares.tolist(),
        "entries": np.interp(shares * counts.size, np.arange(counts.size + 1), total).tolist(),
    }


def head_share(counts: NDArray[np.int64]) -> float:
    """Return the share of the entries that the tenth of the columns with the most have."""
    n = max(1, counts.size // 10)
    return float(np.sort(counts)[::-1][:n].sum() / max(int(counts.sum()), 1))
