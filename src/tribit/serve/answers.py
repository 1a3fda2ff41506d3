"""Answers as JSON: ids as a request can send them again, and numbers that are not finite as null."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from tribit.answers import Answer
from tribit.ranking.lists import Recommendations
from tribit.serve.schemas import Unnamed

#: Fields of answers that hold an id.
IDS = {"row", "column", "of"}


def encode(value: Any) -> bytes:
    """Return JSON in ASCII, which can hold any text."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def fields_of_answer(answer: Answer) -> dict[str, Any]:
    """Return the fields of an answer; records stand under the name of their class, such as ``predictions``."""
    if isinstance(answer, Recommendations):
        return {"lists": list(lists_of(answer))}
    found = as_json_values(answer.to_dict())
    return found if isinstance(found, dict) else {type(answer).__name__.lower(): found}


def as_json_values(value: Any, name: str = "") -> Any:
    """Return what JSON can hold of the value of a field."""
    if isinstance(value, dict):
        return {str(key): as_json_values(each, key) for key, each in value.items()}
    if isinstance(value, list | tuple) and name not in IDS:
        return [as_json_values(each, name) for each in value]
    if name in IDS:
        return plain_id(value)
    if hasattr(value, "tolist"):
        return as_json_values(value.tolist(), name)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_id(value: Any) -> str | int | None:
    """Return an id as a request can send it: text and whole numbers as they are, others as text."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Unnamed):
        return None
    return value if isinstance(value, str) or type(value) is int else str(value)


def lists_of(found: Recommendations) -> Iterator[dict[str, Any]]:
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
    bases = found.basis.tolist() if found.basis is not None else [None] * len(found)
    columns, counts = found.columns.tolist(), found.shown.sum(axis=1).tolist()
    for row, (name, basis, count) in enumerate(
        zip(found.rows.tolist(), bases, counts, strict=True)
    ):
        items: list[dict[str, Any]] = []
        for place in range(count):
            item = {"column": plain_id(columns[row][place])}
            item |= {measure: finite(values[row][place]) for measure, values in known.items()}
            if ends is not None:
                item["lower"], item["upper"] = map(finite, next(ends))
            items.append(item)
        yield {"row": plain_id(name), "basis": basis, "items": items}


def finite(number: float) -> Any:
    """Return a finite number, or None."""
    return number if math.isfinite(number) else None
