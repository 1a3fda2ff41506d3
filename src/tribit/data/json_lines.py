"""Columns in JSON lines: an object on each line, with the columns as its keys."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from tribit.data.axis import AnyArray
from tribit.data.files import column_places
from tribit.data.limits import Block, Lines
from tribit.data.sources import EXACT, ColumnBuilder, Source, Table, number_text
from tribit.errors import InvalidInputError, printable, quoted


def read(source: Source, wanted: list[str] | None) -> Table:
    """Return the wanted columns, or all, as text; what is null or not there is empty."""
    kept = _Kept(source.name, wanted)
    with source.lines() as lines:
        lines.collect(kept.add_block, lambda: _records(lines), lambda record: kept.add(*record))
    if not kept.lines:
        raise InvalidInputError(f"{source.name} is empty; give it at least one record.")
    order = column_places(list(kept.seen), wanted, source.name)
    columns = {column: kept.texts[column].finish() for column in order}
    return Table(source.name, columns, np.array(kept.lines, dtype=np.int64))


def write(text: IO[str], arrays: dict[str, AnyArray]) -> None:
    """Write columns of equal length; what JSON has no number for, such as NaN, is null."""
    names = list(map(str, arrays))
    columns = (map(_finite, column.tolist()) for column in arrays.values())
    for values in zip(*columns, strict=True):
        text.write(json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False) + "\n")


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Kept:
    """The wanted columns of the records so far, and the keys that were seen, in order."""

    def __init__(self, name: str, wanted: list[str] | None) -> None:
        self.name, self.wanted = name, wanted
        self.texts = {column: ColumnBuilder() for column in wanted or ()}
        self.seen: dict[str, None] = {}
        self.lines = array("q")

    def add(self, line: int, text: str) -> None:
        """Add the record on a line."""
        where = f"line {line} of {self.name}"
        record = _parsed(text, where)
        self.seen.update(dict.fromkeys(record))
        if self.wanted is None:
            for column in record.keys() - self.texts.keys():
                self.texts[column] = ColumnBuilder()
                self.texts[column].extend(
                    np.repeat(self.texts[column].number([""]), len(self.lines))
                )
        for column, texts in self.texts.items():
            texts.append(_text(record.get(column), column, where))
        self.lines.append(line)

    def add_block(self, block: Block) -> bool:
        """Add lines at once, in a tenth of the time; False, and nothing, where one needs a closer look."""
        columns = _columns(block, self.wanted)
        if columns is None:
            return False
        for (column, builder), values in zip(self.texts.items(), columns, strict=True):
            self.seen[column] = None
            texts = [_text(value, column, self.name) for value in values.dictionary.to_pylist()]
            codes = values.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
            builder.extend(builder.number([*texts, None])[codes])
        numbers = np.arange(block.before + 1, block.before + 1 + block.size, dtype=np.int64)
        self.lines.frombytes(numbers.tobytes())
        return True


def _columns(block: Block, wanted: list[str] | None) -> list[Any] | None:
    """Return some columns of lines as dictionary arrays of pyarrow; None where it may not read them as Python does."""
    import pyarrow as pa  # noqa: PLC0415 - a tenth of a second, which help should not wait for
    import pyarrow.json as arrow_json  # noqa: PLC0415

    # With these marks no object goes on over two lines, so that as many objects as lines are one on each.
    data = block.data
    if not wanted or not data.startswith(b"{") or data.count(b"}\n{") != block.size - 1:
        return None
    kinds = {str: pa.string(), bool: pa.bool_(), int: pa.float64(), float: pa.float64()}
    try:
        first = json.loads(data[: data.index(b"\n")])
        schema = pa.schema([(column, kinds[type(first.get(column))]) for column in wanted])
        table = arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data)),
            arrow_json.ParseOptions(schema, unexpected_field_behavior="ignore"),
        )
    except (
        pa.ArrowException,
        ValueError,
        RecursionError,
        KeyError,
    ):  # KeyError: another kind of value
        return None
    columns = [table.column(column).combine_chunks() for column in wanted]
    if table.num_rows != block.size or not all(map(_is_exact, columns)):
        return None
    return [column.dictionary_encode() for column in columns]


def _is_exact(column: Any) -> bool:
    """Return whether all values of a column are as Python reads them: a large whole number may not be a float."""
    if str(column.type) != "double":
        return bool(column.null_count < len(column))
    values = np.abs(column.to_numpy(zero_copy_only=False))
    return bool(np.count_nonzero(values <= EXACT) == len(column) - column.null_count > 0)


def _records(lines: Lines) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line; blank ones are skipped."""
    for line in lines:
        if line.strip():
            lines.end_record()
            yield lines.number, line
        else:
            lines.skip_blank()


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
