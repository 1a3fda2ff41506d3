"""Answers as JSON: ids as they are where JSON has them, numbers that are none as null."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from tribit.data.axis import Axis
from tribit.ranking.lists import Recommendations

#: No space after commas and colons.
SEPARATORS = (",", ":")


def encoded(value: Any) -> bytes:
    """Return JSON in ASCII, in which any text may stand."""
    return json.dumps(value, separators=SEPARATORS, allow_nan=False).encode("ascii")


def finite_or_none(number: float) -> float | None:
    """Return a finite number, or None."""
    return number if math.isfinite(number) else None


def names_of(axis: Axis) -> Sequence[str | int]:
    """Return every id as JSON has it: whole numbers and text as they are, others as text; without ids the positions."""
    if axis.ids is None:
        return range(axis.size)
    return [
        each if isinstance(each, str) or type(each) is int else str(each)
        for each in axis.ids.tolist()
    ]


def items_of(
    found: Recommendations, columns: Sequence[str | int]
) -> Iterable[list[dict[str, Any]]]:
    """Return the list of each row, best first: the column, its score and all that is known of it."""
    measures = {
        "score": found.scores,
        "probability": found.probabilities,
        "expected_likes": found.likes,
        "expected_dislikes": found.dislikes,
    }
    known = {name: values.tolist() for name, values in measures.items() if values is not None}
    ends = None
    if found.intervals is not None:
        # One for each place that is shown, row after row.
        ends = zip(found.intervals.lower.tolist(), found.intervals.upper.tolist(), strict=True)
    for row, positions in enumerate(found.positions.tolist()):
        items = []
        for place, position in enumerate(positions):
            if position < 0:
                break
            item = {"column": columns[position]}
            item |= {name: finite_or_none(values[row][place]) for name, values in known.items()}
            if ends is not None:
                item["lower"], item["upper"] = map(finite_or_none, next(ends))
            items.append(item)
        yield items
