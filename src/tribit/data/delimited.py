"""Columns in text with a delimiter: CSV, TSV and their like, plain or gzipped."""

from __future__ import annotations

import csv
import zlib
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.data.axis import AnyArray
from tribit.data.files import atomic_path, column_places, text_reader, text_writer
from tribit.data.limits import Lines, check_size
from tribit.errors import InvalidInputError
from tribit.quoting import printable

Record: TypeAlias = tuple[int, list[str]]
Columns: TypeAlias = tuple[dict[str, AnyArray], npt.NDArray[np.int64]]


def read(
    path: Path, wanted: list[str] | None, limit: int, least: int = 0, *, delimiter: str | None
) -> Columns:
    """Return the wanted columns, or all, as arrays of str, and the line on which each record ends.

    Without a delimiter it is the first that the first line holds of tab, comma and semicolon, or else white space.
    """
    name = printable(path.name)
    if path.suffix.lower() != ".gz":  # known before it is read
        check_size(path.stat().st_size, limit, name)
    try:
        with text_reader(path) as text:
            return _collect(name, _records(Lines(text, name, limit, least), delimiter), wanted)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{name} is not UTF-8 text, near byte {error.object[error.start]:#04x}; "
            "save it as UTF-8."
        ) from error
    except (EOFError, zlib.error, OSError) as error:
        raise InvalidInputError(
            f"{name} could not be read ({printable(str(error))}); "
            "check that it is complete and readable."
        ) from error


def write(path: Path, arrays: dict[str, AnyArray], *, delimiter: str) -> None:
    """Write columns of equal length, whole or not; gzipped if the name ends in ``.gz``."""
    gzipped = path.suffix.lower() == ".gz"
    with atomic_path(path) as temporary, text_writer(temporary, gzipped=gzipped) as text:
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        writer.writerow(arrays)
        writer.writerows(zip(*(values.tolist() for values in arrays.values()), strict=True))


def _records(lines: Lines, delimiter: str | None) -> Iterator[Record]:
    """Yield the line number and the stripped fields of each record; blank lines are skipped."""
    source = iter(lines)
    head = _first_not_blank(lines, source)
    if delimiter is None:
        delimiter = next((mark for mark in "\t,;" if mark in head), None)
    whole = chain([head], source)
    last = lines.number
    if delimiter is None:
        # csv would read two spaces as an empty field between them.
        for line in whole:
            if fields := line.split():
                lines.pending, last = 0, lines.number
                yield last, fields
            else:
                lines.skip_blank(last)
        return
    # Strict, or a quote left open would swallow the rest of the file into one field.
    reader = csv.reader(whole, delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        for fields in reader:
            stripped = list(map(str.strip, fields))
            if any(stripped):
                lines.pending, last = 0, lines.number
                yield last, stripped
            else:
                lines.skip_blank(last)
    except csv.Error as error:
        raise InvalidInputError(
            f"line {lines.number} of {lines.name}: the record is malformed ({printable(str(error))}); "
            "correct its quotes and delimiters."
        ) from error


def _first_not_blank(lines: Lines, source: Iterator[str]) -> str:
    for line in source:
        if line.strip():
            return line
        lines.skip_blank(0)
    return ""


def _collect(name: str, records: Iterator[Record], wanted: list[str] | None) -> Columns:
    first = next(records, None)
    if first is None:
        raise InvalidInputError(f"{name} is empty; give it at least one record.")
    header = first[1]
    if wanted and all(column.isdecimal() for column in wanted):
        given = dict(zip(map(str, range(len(header))), header, strict=True))
        header = list(given)
        # A first line that numbers its columns ("0,1,2") is a header all the same.
        if [given[column] for column in wanted if column in given] != wanted:
            records = chain([first], records)
    places = column_places(header, wanted, name)
    cells: dict[str, list[str]] = {column: [] for column in places}
    lines = array("q")
    shared: dict[str, str] = {}  # one object per distinct string: ids repeat millions of times
    for line, fields in records:
        if len(fields) != len(header):
            raise InvalidInputError(
                f"line {line} of {name} has {len(fields)} fields where the first has "
                f"{len(header)}; correct it, and quote fields that hold the delimiter."
            )
        for column, place in places.items():
            cells[column].append(shared.setdefault(fields[place], fields[place]))
        lines.append(line)
    columns = {column: np.array(texts, dtype=object) for column, texts in cells.items()}
    return columns, np.array(lines, dtype=np.int64)
