"""Formats of tables: which function reads and which writes each, by the ending of a file's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tribit.checks import check_choice
from tribit.data import delimited, json_lines, matrices, parquet
from tribit.data.sources import GZIPPED, PathLike, Source, Table, is_standard, least_bytes, located
from tribit.errors import InvalidInputError, parameter, quoted


class Format(NamedTuple):
    """Reader and writer of one format of tables.

    Parameters
    ----------
    read : callable
        Takes a :class:`~tribit.data.sources.Source` and the names of the columns (None for all); returns a
        :class:`~tribit.data.sources.Table`, whose columns are a :class:`~tribit.data.sources.TextColumn` or an array
        of str.
    write : callable, optional
        Takes a text that is open for writing, or where ``is_text`` is False a path, and the columns by name.
    is_text : bool
        Whether files are text, which may be gzipped and have encodings.
    is_matrix : bool
        Whether a file is a matrix and not a table: what it stores as 0 is unobserved.
    for_spreadsheets : bool
        Whether a spreadsheet opens it, which runs some cells as formulas.
    header : callable, optional
        Takes a Source and returns the fields of the first record: of formats that may have no header.
    """

    read: Callable[[Source, list[str] | None], Table]
    write: Callable[..., None] | None = None
    is_text: bool = False
    is_matrix: bool = False
    for_spreadsheets: bool = False
    header: Callable[[Source], list[str]] | None = None


def _delimited(*promised: str, writes: bool = False) -> Format:
    return Format(
        partial(delimited.read, promised=promised),
        partial(delimited.write, delimiter=promised[0]) if writes else None,
        is_text=True,
        for_spreadsheets=writes,
        header=partial(delimited.header, promised=promised),
    )


#: The formats of tables, by the ending of a file's name.
FORMATS = {
    ".csv": _delimited(",", writes=True),
    ".tsv": _delimited("\t", writes=True),
    ".txt": _delimited("\t", delimited.SPACE),
    ".data": _delimited("\t", delimited.SPACE),
    ".dat": _delimited("\t", delimited.SPACE),
    ".parquet": Format(parquet.read, parquet.write),
    ".jsonl": Format(json_lines.read, json_lines.write, is_text=True),
    ".ndjson": Format(json_lines.read, json_lines.write, is_text=True),
    ".npz": Format(matrices.read_npz, is_matrix=True),
    ".mtx": Format(matrices.read_mtx, is_text=True, is_matrix=True),
}


@contextmanager
def opened(
    path: PathLike, *, max_size: int | None = None, ending: str | None = None, **text: Any
) -> Iterator[tuple[Format, Source]]:
    """Yield the format of a file, or of standard input, and what its reader needs.

    ``ending`` tells the format where the name does not; ``text`` has the delimiter, encoding and decimal mark, if they
    are known. Standard input is CSV unless something else is said, and unpacked where it is gzipped.
    """
    with located(path, max_size) as (file, name, limit):
        if is_standard(path):
            ending, gzipped = f".{ending or 'csv'}", _starts_gzipped(file)
        else:
            ending, gzipped = _ending(file, FORMATS, ending)
        yield FORMATS[ending], Source(file, name, gzipped, limit, least_bytes(max_size), **text)


def read_source(form: Format, source: Source, wanted: list[str] | None) -> Table:
    """Return the wanted columns, or all, of which there is a record at least."""
    try:
        table = form.read(source, wanted)
    except MemoryError as error:
        raise InvalidInputError(
            f"{source.name} does not fit into memory; read fewer columns or records of it."
        ) from error
    if not all(column.size for column in table.columns.values()):
        raise InvalidInputError(f"{table.name} holds no records; give it at least one.")
    return table


def written_as(path: Path) -> tuple[Format, bool]:
    """Return the format that the name of a file to write tells, and whether it is gzipped."""
    writers = {end: each for end, each in FORMATS.items() if each.write}
    ending, gzipped = _ending(path, writers, None)
    return writers[ending], gzipped


def check_format(name: str, value: str) -> str:
    """Return the name of a format, without a dot."""
    return check_choice(name, value, (end[1:] for end in FORMATS))


def _ending(path: Path, formats: Mapping[str, Format], given: str | None) -> tuple[str, bool]:
    """Return the ending that tells the format, and whether ``.gz`` follows it."""
    gzipped = path.suffix.lower() == ".gz"
    if given is not None:
        return f".{given}", gzipped and formats[f".{given}"].is_text
    ending = (path.with_suffix("") if gzipped else path).suffix.lower()
    found = formats.get(ending)
    if found is None or (gzipped and not found.is_text):
        endings = [*formats, *(f"{end}.gz" for end, each in formats.items() if each.is_text)]
        otherwise = f", or pass {parameter('format')}" if formats is FORMATS else ""
        raise InvalidInputError(
            f"The name {quoted(path.name)} does not tell the format; end it in one of {', '.join(endings)}{otherwise}."
        )
    return ending, gzipped


def _starts_gzipped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(GZIPPED)) == GZIPPED
