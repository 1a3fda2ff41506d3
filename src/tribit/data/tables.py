"""Tables of the user's own ids in files: CSV, TSV (plain or gzipped) and parquet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.data import delimited, parquet
from tribit.data.axis import AnyArray
from tribit.data.files import checked_path
from tribit.data.formulas import escaped, escaped_cell, first_formula
from tribit.data.ingest import Duplicates, entries_from_ids
from tribit.data.limits import RECORD, byte_limit
from tribit.data.observations import Observations
from tribit.errors import InvalidInputError, TribitWarning, parameter, warn
from tribit.quoting import listed, printable, quoted

PathLike: TypeAlias = str | os.PathLike[str]
Lines: TypeAlias = npt.NDArray[np.int64] | None


class Format(NamedTuple):
    """Reader and writer of one format of tables.

    Parameters
    ----------
    read : callable
        Takes the path, the names of the columns (None for all), the most bytes to read and the bytes that a line
        counts for at least; returns the columns as arrays of str by name, and the line of each record or None.
    write : callable, optional
        Takes the path and the columns by name.
    is_text : bool
        Whether files are text, which may be gzipped, and which a spreadsheet opens.
    """

    read: Callable[[Path, list[str] | None, int, int], tuple[dict[str, AnyArray], Lines]]
    write: Callable[[Path, dict[str, AnyArray]], None] | None = None
    is_text: bool = False


#: The formats of tables, by the ending of a file's name.
FORMATS = {
    ".csv": Format(
        partial(delimited.read, delimiter=","), partial(delimited.write, delimiter=","), True
    ),
    ".tsv": Format(
        partial(delimited.read, delimiter="\t"), partial(delimited.write, delimiter="\t"), True
    ),
    ".txt": Format(partial(delimited.read, delimiter=None), is_text=True),
    ".data": Format(partial(delimited.read, delimiter=None), is_text=True),
    ".parquet": Format(
        lambda path, wanted, limit, _: (parquet.read(path, wanted, limit), None), parquet.write
    ),
}


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of text read from a file, and the line on which each record ends, if the format has lines."""

    name: str
    columns: dict[str, AnyArray]
    lines: Lines

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
                f"{self.where(int(empty[0]))}: the id in column {quoted(column)} is empty; "
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
                f"{self.where(position)}: the value {quoted(texts[position])} in column "
                f"{quoted(column)} is not a number; correct it, or choose another "
                f"{parameter('value')} column."
            ) from None


def read_table(
    path: PathLike, columns: Sequence[str] | None = None, *, max_size: int | None = None
) -> Table:
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
    max_size : int, optional
        As in :func:`observations_from_file`.

    Returns
    -------
    Table
        Its strings have no white space around them, and a parquet integer is its decimal string,
        so that the two kinds of file give the same ids.
    """
    source = _existing(path)
    name = printable(source.name)
    wanted = None if columns is None else list(columns)
    read = _format(source, FORMATS).read
    limit = byte_limit(source.stat().st_size, max_size)
    try:
        arrays, lines = read(source, wanted, limit, RECORD if max_size is None else 0)
    except MemoryError as error:
        raise InvalidInputError(
            f"{name} does not fit into memory; read fewer columns or records of it."
        ) from error
    if not all(column.size for column in arrays.values()):
        raise InvalidInputError(f"{name} holds no records; give it at least one.")
    return Table(name, arrays, lines)


def observations_from_file(
    path: PathLike,
    *,
    row: str,
    column: str,
    value: str | None = None,
    like_at: float | None = None,
    duplicates: Duplicates = "error",
    max_size: int | None = None,
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
    max_size : int, optional
        The most bytes to read, counted when unpacked; in a parquet file each cell counts as 8 at least. By default
        200 times the size of the file, but no less than 32 MiB and no more than 4 GiB.
    """
    # Positions may come as numbers.
    row, column, value = str(row), str(column), None if value is None else str(value)
    wanted = [row, column] if value is None else [row, column, value]
    table = read_table(path, wanted, max_size=max_size)
    entries = entries_from_ids(
        table.ids(row),
        table.ids(column),
        None if value is None else table.numbers(value),
        like_at=like_at,
        duplicates=duplicates,
        where=table.where,
    )
    return Observations._trusted(entries)


def write_table(
    path: PathLike,
    columns: Mapping[str, npt.ArrayLike],
    *,
    escape_formulas: bool | None = None,
) -> None:
    """Write columns of equal length to a CSV, TSV (also ``.gz``) or parquet file, whole or not.

    Parameters
    ----------
    path : str or path-like
        Its extension decides the format.
    columns : mapping of str to array-like
        The columns by name, in order.
    escape_formulas : bool, optional
        Whether to put an apostrophe before texts that a spreadsheet would run as formulas: those that begin with
        ``=``, ``+``, ``-``, ``@`` or white space and are no numbers. The ids written are then not those of the data any
        more, so that it is off by default; a CSV or TSV file with such texts has a warning, unless this is False.
    """
    target = checked_path(path)
    form = _format(target, {end: each for end, each in FORMATS.items() if each.write})
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if not arrays:
        raise InvalidInputError("No column is given to write; pass at least one.")
    if len({values.shape for values in arrays.values()}) > 1:
        sizes = listed([f"{name!r}: {values.shape}" for name, values in arrays.items()])
        raise InvalidInputError(f"The columns differ in shape ({sizes}); pass equal lengths.")
    if escape_formulas:
        arrays = {escaped_cell(name): escaped(values) for name, values in arrays.items()}
    elif escape_formulas is None and form.is_text:
        _warn_of_formulas(target, arrays)
    try:
        form.write(target, arrays)  # type: ignore[misc]  # formats without were left out
    except UnicodeError as error:  # half of a surrogate pair, such as a file name may hold
        raise InvalidInputError(
            f"{quoted(target.name)} was not written, because a name or an id is no Unicode text (half of a surrogate "
            "pair); rename it."
        ) from error


def _warn_of_formulas(path: Path, arrays: dict[str, AnyArray]) -> None:
    found = first_formula(chain(arrays, *(values.tolist() for values in arrays.values())))
    if found is not None:
        warn(
            TribitWarning(
                f"{printable(path.name)} holds texts that a spreadsheet runs as formulas, such as {quoted(found)}: if "
                f"it is meant for one, write it with {parameter('escape_formulas', True)}; "
                f"{parameter('escape_formulas', False)} says that it is not."
            ),
        )


def _format(path: Path, formats: Mapping[str, Format]) -> Format:
    """Return the format that the end of a name tells."""
    gzipped = path.suffix.lower() == ".gz"
    found = formats.get((path.with_suffix("") if gzipped else path).suffix.lower())
    if found is None or (gzipped and not found.is_text):
        endings = [*formats, *(f"{end}.gz" for end, each in formats.items() if each.is_text)]
        raise InvalidInputError(
            f"The name {quoted(path.name)} does not tell the format; end it in one of {', '.join(endings)}."
        )
    return found


def _existing(path: PathLike) -> Path:
    """Return the path of a file that is there, or say why it cannot be read."""
    source = checked_path(path)
    if not source.exists():
        raise InvalidInputError(f"There is no file {quoted(os.fspath(path))}; check the path.")
    if not source.is_file():
        raise InvalidInputError(f"{quoted(os.fspath(path))} is not a file; name a file.")
    return source


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
