"""Columns in JSON lines: an object on each line, with the columns as its keys."""

from __future__ import annotations

import json
import math
from array import array
from typing import IO, Any

import numpy as np

from tribit.data.axis import AnyArray
from tribit.data.files import column_places
from tribit.data.sources import Source, Table, number_text
from tribit.errors import InvalidInputError
from tribit.quoting import printable, quoted


def read(source: Source, wanted: list[str] | None) -> Table:
    """Return the wanted columns, or all, as arrays of str; what is null or not there is empty."""
    cells: dict[str, list[str]] = {column: [] for column in wanted or ()}
    numbers = array("q")
    seen: dict[str, None] = {}  # the keys, in order
    shared: dict[str, str] = {}
    with source.lines() as lines:
        last = 0
        for line in lines:
            if not line.strip():
                lines.skip_blank(last)
                continue
            lines.pending, last = 0, lines.number
            where = f"line {last} of {source.name}"
            record = _parsed(line, where)
            seen.update(dict.fromkeys(record))
            if wanted is None:
                for column in record.keys() - cells.keys():
                    cells[column] = [""] * len(numbers)
            for column, texts in cells.items():
                text = _text(record.get(column), column, where)
                texts.append(shared.setdefault(text, text))
            numbers.append(last)
    if not numbers:
        raise InvalidInputError(f"{source.name} is empty; give it at least one record.")
    order = column_places(list(seen), wanted, source.name)
    columns = {column: np.array(cells[column], dtype=object) for column in order}
    return Table(source.name, columns, np.array(numbers, dtype=np.int64))


def write(text: IO[str], arrays: dict[str, AnyArray]) -> None:
    """Write columns of equal length; what JSON has no number for, such as NaN, is null."""
    names = list(map(str, arrays))
    columns = (map(_finite, column.tolist()) for column in arrays.values())
    for values in zip(*columns, strict=True):
        text.write(json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False) + "\n")


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _parsed(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    # RecursionError: ten thousand brackets; ValueError: no JSON, or a number of too many digits.
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{where}: the record is no JSON ({printable(str(error))}); write one object on each line, such as "
            '{"user": "u1", "item": "i7", "rating": 4}.'
        ) from error
    if not isinstance(record, dict):
        raise InvalidInputError(
            f"{where}: the record is {_kind(record)} and not an object; write one object on each line, such as "
            '{"user": "u1", "item": "i7", "rating": 4}.'
        )
    return record


def _text(value: Any, column: str, where: str) -> str:
    """Return a value as a CSV file would have it."""
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number_text(value)
    raise InvalidInputError(
        f"{where}: {quoted(column)} holds {_kind(value)}; choose a column of texts, numbers or booleans."
    )


def _kind(value: Any) -> str:
    kinds = {list: "a list", dict: "an object", str: "a text", type(None): "null"}
    return kinds.get(type(value), "a number or boolean")
