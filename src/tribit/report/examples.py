"""Examples of a report: lists of a few rows, and which of their entries speak for each column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tribit.data.axis import Positions
from tribit.errors import InvalidInputError
from tribit.report.names import names_at, shown

if TYPE_CHECKING:
    from tribit.recommender import Recommender

#: Length of a list, and how many of its columns are given reasons.
N, EXPLAINED = 5, 3
#: Rows are those at these quantiles of the number of entries.
QUANTILES = (0.25, 0.5, 0.9)
#: Entries that are named for a column, and against it; and the least change of the probability for which one is
#: named: below, the page would show it as 0.
FOR, AGAINST, WORTH_NAMING = 2, 1, 0.0005
#: Most entries of a row that is explained: one of 3,000 takes a second of one core, and the time grows with the square.
MOST_ENTRIES = 3000


def example_facts(recommender: Recommender) -> list[dict[str, Any]]:
    """Return the lists of a few rows, with reasons where the model can give them; none without entries."""
    seen = recommender.seen_
    if seen is None:
        return []
    axes = recommender.model_.axes_
    counts = seen.counts[0]
    places = _rows(counts)
    lists = recommender.recommend(axes.rows.names(places), N)
    ends = lists.intervals
    lower, upper = (np.full(lists.positions.shape, np.nan) for _ in range(2))
    if ends is not None:
        lower[lists.shown], upper[lists.shown] = ends.lower, ends.upper
    found = []
    for i, (row, name) in enumerate(zip(places, names_at(axes.rows, places), strict=True)):
        kept = lists.positions[i][lists.shown[i]]
        columns = []
        for k, (column, title) in enumerate(zip(kept, names_at(axes.columns, kept), strict=True)):
            explained = k < EXPLAINED and counts[row] <= MOST_ENTRIES
            columns.append(
                {
                    "name": title,
                    "probability": float(lists.probabilities[i, k]),  # type: ignore[index]
                    "lower": float(lower[i, k]),
                    "upper": float(upper[i, k]),
                    "reasons": _reasons(recommender, int(row), int(column)) if explained else None,
                }
            )
        labels = seen.labels[seen.rows == row]
        found.append(
            {
                "row": name,
                "likes": int(np.count_nonzero(labels > 0)),
                "dislikes": int(np.count_nonzero(labels < 0)),
                "columns": columns,
            }
        )
    return found


def _rows(counts: Positions) -> Positions:
    """Return distinct rows of few, of some and of many entries, from those that have any and lack some."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    places = [int(share * (order.size - 1)) for share in QUANTILES]
    return order[sorted(set(places))]


def _reasons(recommender: Recommender, row: int, column: int) -> list[dict[str, Any]] | None:
    """Return the entries that speak most for a column, and those against it; None where the model has no reasons."""
    axes = recommender.model_.axes_
    ids = (axis.names(np.array([at]))[0] for axis, at in zip(axes, (row, column), strict=True))
    try:
        entries = recommender.explain(*ids).entries
    except InvalidInputError:
        return None  # such as a mixture with imputed probabilities
    strong = [each for each in entries if abs(each.probability_change) >= WORTH_NAMING]
    kept = [each for each in strong if each.contribution > 0][:FOR]
    kept += [each for each in strong if each.contribution < 0][:AGAINST]
    without_ids = axes.columns.ids is None
    return [
        {
            "name": f"column {each.column}" if without_ids else shown(each.column),
            "label": each.label,
            "contribution": each.contribution,
            "change": each.probability_change,
        }
        for each in kept
    ]
