"""Tables of the user's own ids in files: CSV, TSV (plain or gzipped) and parquet."""

from __future__ import annotations

import csv
import os
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit import parquet
from tribit.errors import InvalidInputError
from tribit.files import atomic_path, column_place, text_reader, text_writer
from tribit.ids import AnyArray
from tribit.ingest import Duplicates, entries_from_ids
from tribit.observations import Observations

PathLike: TypeAlias = str | os.PathLike[str]
Record: TypeAlias = tuple[int, list[str]]

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SNIFFED = (".txt", ".data")
PARQUET = ".parquet"


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of text read from a file.

    Parameters
    ----------
    name : str
        The file's name, for messages.
    columns : dict of str to array of str
        One array of Python strings per column, all of the same length.
    lines : array of int or None
        The line on which each record ends; None for a format without lines.
    """

    name: str
    columns: dict[str, AnyArray]
    lines: npt.NDArray[np.int64] | None

    def where(self, position: int) -> str:
        """Say where a record stands in the file."""
        if self.lines is None:
            return f"row {position} of {self.name}"
        return f"line {self.lines[position]} of {self.name}"

    def ids(self, column: str) -> AnyArray:
        """Return a column of ids, none of them empty."""
        ids = self.columns[column]
        empty = np.flatnonzero(ids == "")
        if empty.size:
            raise InvalidInputError(
                f"{self.where(int(empty[0]))}: the id in column {column!r} is empty; "
                "fill it in or remove the record."
            )
        return ids

    def numbers(self, column: str) -> npt.NDArray[np.float64]:
        """Return a column as floats."""
        texts = self.columns[column]
        try:
            return texts.astype(np.float64)
        except ValueError:
            position = next(p for p, text in enumerate(texts) if not _is_number(text))
            raise InvalidInputError(
                f"{self.where(position)}: the value {texts[position]!r} in column {column!r} is "
                "not a number; correct it, or choose another value column."
            ) from None


def read_table(path: PathLike, columns: Sequence[str] | None = None) -> Table:
    """Read columns of a CSV, TSV, text or parquet file as strings.

    Parameters
    ----------
    path : str or path-like
        ``.csv``, ``.tsv``, ``.txt`` or ``.data``, each also with ``.gz``, or ``.parquet``. In
        ``.txt`` and ``.data`` the delimiter is the first that the first line holds of tab, comma
        and semicolon, or else white space.
    columns : sequence of str, optional
        Names of the columns to read; all of them by default. If every name is a decimal number,
        a text file is taken to have no header and the numbers to be column positions from 0.

    Returns
    -------
    Table
        Its strings have no white space around them, and a parquet integer is its decimal string,
        so that the two kinds of file give the same ids.
    """
    source = Path(path)
    if not source.exists():
        raise InvalidInputError(f"There is no file {str(path)!r}; check the path.")
    if not source.is_file():
        raise InvalidInputError(f"{str(path)!r} is not a file; name a file.")
    wanted = None if columns is None else list(columns)
    kind = _kind(source)
    if kind == PARQUET:
        table = Table(source.name, parquet.read(source, wanted), None)
    else:
        table = _read_text(source, kind, wanted)
    if not all(column.size for column in table.columns.values()):
        raise InvalidInputError(f"{source.name} holds no records; give it at least one.")
    return table


def observations_from_file(
    path: PathLike,
    *,
    row: str,
    column: str,
    value: str | None = None,
    like_at: float | None = None,
    duplicates: Duplicates = "error",
) -> Observations:
    """Read observations from a file with one observed entry per record.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`read_table` reads.
    row, column : str
        Names, or positions where the file has no header, of the columns of ids.
    value : str, optional
        The column of +1 and -1, or of ratings; without it every pair is a like.
    like_at : float, optional
        The smallest rating that is a like.
    duplicates : {"error", "first", "last", "majority"}, default="error"
        As in :meth:`Observations.from_pairs`.
    """
    # Positions may come as numbers.
    row, column, value = str(row), str(column), None if value is None else str(value)
    table = read_table(path, [row, column] if value is None else [row, column, value])
    entries = entries_from_ids(
        table.ids(row),
        table.ids(column),
        None if value is None else table.numbers(value),
        like_at=like_at,
        duplicates=duplicates,
        where=table.where,
    )
    return Observations(*entries)


def write_table(path: PathLike, columns: Mapping[str, npt.ArrayLike]) -> None:
    """Write columns of equal length to a CSV, TSV (also ``.gz``) or parquet file, whole or not.

    Parameters
    ----------
    path : str or path-like
        Its extension decides the format.
    columns : mapping of str to array-like
        The columns by name, in order.
    """
    target = Path(path)
    kind = _kind(target)
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if not arrays:
        raise InvalidInputError("No column is given to write; pass at least one.")
    if len({values.shape for values in arrays.values()}) > 1:
        sizes = ", ".join(f"{name!r}: {values.shape}" for name, values in arrays.items())
        raise InvalidInputError(f"The columns differ in shape ({sizes}); pass equal lengths.")
    if kind == PARQUET:
        parquet.write(target, arrays)
    elif kind in DELIMITERS:
        gzipped = target.suffix.lower() == ".gz"
        with atomic_path(target) as temporary, text_writer(temporary, gzipped=gzipped) as text:
            writer = csv.writer(text, delimiter=DELIMITERS[kind], lineterminator="\n")
            writer.writerow(arrays)
            writer.writerows(zip(*(values.tolist() for values in arrays.values()), strict=True))
    else:
        raise InvalidInputError(
            f"The name {target.name!r} does not tell the format to write; "
            "end it in .csv, .tsv, .csv.gz, .tsv.gz or .parquet."
        )


def _kind(path: Path) -> str:
    gzipped = path.suffix.lower() == ".gz"
    kind = (path.with_suffix("") if gzipped else path).suffix.lower()
    text_kinds = (*DELIMITERS, *SNIFFED)
    if kind not in text_kinds and (gzipped or kind != PARQUET):
        raise InvalidInputError(
            f"The name {path.name!r} does not tell the format; end it in {PARQUET}, or in one of "
            f"{', '.join(text_kinds)}, also with .gz."
        )
    return kind


def _read_text(path: Path, kind: str, wanted: list[str] | None) -> Table:
    try:
        with text_reader(path) as text:
            return _collect(path.name, _records(text, DELIMITERS.get(kind), path.name), wanted)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path.name} is not UTF-8 text, near byte {error.object[error.start]:#04x}; "
            "save it as UTF-8."
        ) from error
    except (EOFError, zlib.error, OSError) as error:
        raise InvalidInputError(
            f"{path.name} could not be read ({error}); check that it is complete and readable."
        ) from error


def _records(text: TextIO, delimiter: str | None, name: str) -> Iterator[Record]:
    """Yield the line number and the stripped fields of each record; blank lines are skipped."""
    head = list(_until_not_blank(text))
    if delimiter is None:
        delimiter = next((mark for mark in "\t,;" if head and mark in head[-1]), None)
    lines = chain(head, text)
    if delimiter is None:
        # csv would read two spaces as an empty field between them.
        yield from ((line, text.split()) for line, text in enumerate(lines, 1) if text.strip())
        return
    # Strict, or a quote left open would swallow the rest of the file into one field.
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        for fields in reader:
            stripped = [field.strip() for field in fields]
            if any(stripped):
                yield reader.line_num, stripped
    except csv.Error as error:
        raise InvalidInputError(
            f"line {reader.line_num} of {name}: the record is malformed ({error}); "
            "correct its quotes and delimiters."
        ) from error


def _until_not_blank(text: TextIO) -> Iterator[str]:
    for line in text:
        yield line
        if line.strip():
            return


def _collect(name: str, records: Iterator[Record], wanted: list[str] | None) -> Table:
    first = next(records, None)
    if first is None:
        raise InvalidInputError(f"{name} is empty; give it at least one record.")
    header = first[1]
    if wanted and all(column.isdecimal() for column in wanted):
        header = [str(position) for position in range(len(header))]
        # A first line that numbers its columns ("0,1,2") is a header all the same.
        if [first[1][int(c)] for c in wanted if int(c) < len(header)] != wanted:
            records = chain([first], records)
    places = {column: column_place(header, column, name) for column in wanted or header}
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
    return Table(name, columns, np.array(lines, dtype=np.int64))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
