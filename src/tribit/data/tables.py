"""Tables of the user's own ids in files: the formats, and reading and writing by the ending of a file's name."""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tribit.checks import check_choice
from tribit.data import matrices, parquet, text_formats
from tribit.data.axis import AnyArray
from tribit.data.files import atomic_path, checked_path, text_writer
from tribit.data.sources import (
    GZIP_START,
    MIN_LINE_BYTES,
    PathLike,
    Source,
    Table,
    is_standard,
    local_copy,
)
from tribit.data.text_formats import DELIMITER_NAMES, WHITE_SPACE
from tribit.errors import (
    InvalidInputError,
    TribitWarning,
    listed,
    parameter,
    printable,
    quoted,
    warn,
)

#: First characters of a cell that a spreadsheet runs as a formula, in one of its languages or after trimming it.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Signed numbers, which are no formulas.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
#: Encodings of domain names, which Python lists among those of text and which take very long or much memory for it.
DOMAIN_ENCODINGS = {"idna", "punycode"}


#: Columns of equal length by name: some consecutive records of a table.
Columns: TypeAlias = dict[str, AnyArray]


class Format(NamedTuple):
    """Reader and writer of one format of tables.

    Parameters
    ----------
    read : callable
        Takes a :class:`~tribit.data.sources.Source` and the names of the columns (None for all); returns a
        :class:`~tribit.data.sources.Table`, whose columns are a :class:`~tribit.data.labels.TextColumn` or an array
        of str.
    write : callable, optional
        Takes a text that is open for writing, or where ``is_text`` is False a path, and blocks of records: an iterable
        of columns by name.
    is_text : bool
        Whether files are text, which may be gzipped and have encodings.
    is_matrix : bool
        Whether a file is a matrix and not a table: a stored 0 is unobserved.
    for_spreadsheets : bool
        Whether spreadsheets open such files, and run some cells as formulas.
    first_record : callable, optional
        Takes a Source and returns the fields of the first record: of formats that may have no header.
    """

    read: Callable[[Source, list[str] | None], Table]
    write: Callable[..., None] | None = None
    is_text: bool = False
    is_matrix: bool = False
    for_spreadsheets: bool = False
    first_record: Callable[[Source], list[str]] | None = None


def write_delimited(text: IO[str], blocks: Iterable[Columns], delimiter: str) -> None:
    """Write blocks of records; a missing number (NaN) is an empty cell."""
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    for number, block in enumerate(blocks):
        if not number:
            writer.writerow(block)
        writer.writerows(zip(*map(_cells, block.values()), strict=True))


def _cells(values: AnyArray) -> list[Any]:
    if values.dtype.kind == "f" and (missing := np.isnan(values)).any():
        values = values.astype(object)
        values[missing] = ""
    return list(values.tolist())


def write_json_lines(text: IO[str], blocks: Iterable[Columns]) -> None:
    """Write blocks of records; a float that is not finite is null."""
    for block in blocks:
        names = list(map(str, block))
        columns = (map(finite_or_none, column.tolist()) for column in block.values())
        for values in zip(*columns, strict=True):
            record = dict(zip(names, values, strict=True))
            text.write(json.dumps(record, ensure_ascii=False) + "\n")


def finite_or_none(value: object) -> Any:
    """Return a value that JSON has: None for NaN and infinities."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _delimited_format(*promised: str, writes: bool = False) -> Format:
    return Format(
        partial(text_formats.read_delimited, promised=promised),
        partial(write_delimited, delimiter=promised[0]) if writes else None,
        is_text=True,
        for_spreadsheets=writes,
        first_record=partial(text_formats.first_record, promised=promised),
    )


_JSON_LINES = Format(text_formats.read_json_lines, write_json_lines, is_text=True)
#: The formats of tables, by the ending of a file's name.
FORMATS = {
    ".csv": _delimited_format(",", writes=True),
    ".tsv": _delimited_format("\t", writes=True),
    **dict.fromkeys((".txt", ".data", ".dat"), _delimited_format("\t", WHITE_SPACE)),
    ".parquet": Format(parquet.read, parquet.write),
    ".jsonl": _JSON_LINES,
    ".ndjson": _JSON_LINES,
    ".npz": Format(matrices.read_npz, is_matrix=True),
    ".mtx": Format(matrices.read_mtx, is_text=True, is_matrix=True),
}


_EXCEL = """python -c "import pandas; pandas.read_excel('table.xlsx').to_csv('table.csv', index=False)\""""
#: Lines that write a table of other formats anew, by the ending of a file's name.
CONVERSIONS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), _EXCEL),
    ".json": "jq -c '.[]' table.json > table.jsonl",
}


def check_format(name: str, value: str) -> str:
    """Return the name of a format, without a dot."""
    return check_choice(name, value, (end[1:] for end in FORMATS))


def check_delimiter(name: str, value: object) -> str:
    """Return a delimiter, which may come by its name."""
    if isinstance(value, str):
        delimiter = {**DELIMITER_NAMES, "\\t": "\t"}.get(value, value)
        plain = delimiter.isprintable() or delimiter == "\t"
        if plain and 1 <= len(delimiter) <= 5 and not re.search(r"[\w\"\r\n]", delimiter):
            return WHITE_SPACE if delimiter.isspace() and delimiter != "\t" else delimiter
    raise InvalidInputError(
        f"{parameter(name)} must be the mark between fields, such as ; or |, or one of {', '.join(DELIMITER_NAMES)}; "
        f"got {quoted(value)}."
    )


def check_encoding(name: str, value: Any) -> str:
    """Return the name of an encoding of text."""
    try:
        "".encode(value)
        known = codecs.lookup(value).name not in DOMAIN_ENCODINGS
    except (LookupError, TypeError, ValueError):
        known = False
    if not known:
        raise InvalidInputError(
            f"{parameter(name)} must be the name of an encoding of text, such as utf-8, latin-1 or cp1252; got "
            f"{quoted(value)}."
        )
    return str(value)


@contextmanager
def open_source(
    path: PathLike,
    *,
    max_size: int | None = None,
    format: str | None = None,  # noqa: A002 - as on the command line
    delimiter: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Iterator[tuple[Format, Source]]:
    """Yield the format and the source of a file or of standard input.

    ``format`` decides where the name does not. Standard input is CSV by default, and unpacked where it is gzipped.
    """
    with local_copy(path, max_size) as (file, name, limit):
        if is_standard(path):
            ending = f".{format or 'csv'}"
            with file.open("rb") as raw:
                gzipped = raw.read(len(GZIP_START)) == GZIP_START
        else:
            ending, gzipped = _ending(file, FORMATS, format)
        min_line_bytes = MIN_LINE_BYTES if max_size is None else 0
        yield (
            FORMATS[ending],
            Source(file, name, gzipped, limit, min_line_bytes, delimiter, encoding, decimal or "."),
        )


def format_of(path: PathLike) -> Format:
    """Return the format of a file by the ending of its name."""
    return FORMATS[_ending(checked_path(path), FORMATS, None)[0]]


def read_source(form: Format, source: Source, wanted: list[str] | None) -> Table:
    """Return the wanted columns, or all; a table without records is an error."""
    try:
        table = form.read(source, wanted)
    except MemoryError as error:
        raise InvalidInputError(
            f"{source.name} does not fit into memory; read fewer columns or records of it."
        ) from error
    if not all(column.size for column in table.columns.values()):
        raise InvalidInputError(f"{table.name} holds no records; give it at least one.")
    return table


def read_table(
    path: PathLike,
    columns: Sequence[str] | None = None,
    *,
    max_size: int | None = None,
    format: str | None = None,  # noqa: A002 - as on the command line
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Table:
    """Read columns of a file as strings.

    Parameters
    ----------
    path : str or path-like
        ``.csv``, ``.tsv``, ``.txt``, ``.data``, ``.dat``, ``.jsonl``, ``.ndjson`` or ``.mtx``, each also with ``.gz``,
        ``.parquet`` or ``.npz`` (a sparse matrix); or ``-`` for standard input, as CSV. The delimiter of a text is
        guessed from its first lines: that of the ending, tab, comma, semicolon, ``|``, ``::`` or white space.
    columns : sequence of str, optional
        Names of the columns to read; all of them by default. If every name is a decimal number,
        a text file has no header and the numbers are column positions from 0.
    max_size : int, optional
        As in :func:`tribit.data.reading.observations_from_file`.
    format, delimiter, encoding : str, optional
        As in :class:`tribit.data.reading.Reading`.

    Returns
    -------
    Table
        Its strings have no white space around them, and a number of parquet or JSON is its decimal string,
        so that all formats give the same ids.
    """
    if format is not None:
        check_format("format", format)
    if delimiter is not None:
        delimiter = check_delimiter("delimiter", delimiter)
    if encoding is not None:
        check_encoding("encoding", encoding)
    with open_source(
        path, max_size=max_size, format=format, delimiter=delimiter, encoding=encoding
    ) as (form, source):
        return read_source(form, source, None if columns is None else list(columns))


def write_table(
    path: PathLike,
    columns: Mapping[str, npt.ArrayLike],
    *,
    escape_formulas: bool | None = None,
) -> None:
    """Write columns of equal length to a file, whole or not at all; see :func:`write_blocks`."""
    write_blocks(path, [columns], escape_formulas=escape_formulas)


def write_blocks(
    path: PathLike,
    blocks: Iterable[Mapping[str, npt.ArrayLike]],
    *,
    escape_formulas: bool | None = None,
) -> None:
    """Write the records of blocks to a file, whole or not at all; one block is in memory at a time.

    Parameters
    ----------
    path : str or path-like
        Its ending decides the format: ``.csv``, ``.tsv``, ``.jsonl`` or ``.ndjson``, each also with ``.gz``, or
        ``.parquet``. ``-`` is standard output, as CSV.
    blocks : iterable of mappings of str to array-like
        At least one block of records: its columns of equal length by name, the same names in each.
    escape_formulas : bool, optional
        Whether to put an apostrophe before texts that a spreadsheet would run as formulas: those that begin with
        ``=``, ``+``, ``-``, ``@`` or white space and are no numbers. The ids written are then not those of the data any
        more, so that it is off by default; a CSV or TSV file with such texts has a warning, unless this is False.
    """
    to_output = is_standard(path)
    target = checked_path("standard output.csv" if to_output else path)
    writers = {end: each for end, each in FORMATS.items() if each.write}
    ending, gzipped = _ending(target, writers, None)
    form = writers[ending]
    watched = target if form.for_spreadsheets and not to_output else None
    prepared = _prepare(blocks, escape_formulas, watched)
    prepared = chain([next(prepared)], prepared)  # the first is checked before there is a file
    write: Any = form.write
    try:
        if to_output:
            with _standard_output() as text:
                write(text, prepared)
        elif form.is_text:
            with atomic_path(target) as file, text_writer(file, gzipped=gzipped) as text:
                write(text, prepared)
        else:
            write(target, prepared)
    except UnicodeError as error:  # half of a surrogate pair, such as a file name may hold
        raise InvalidInputError(
            f"{quoted(target.name)} was not written, because a name or an id is no Unicode text (half of a surrogate "
            "pair); rename it."
        ) from error


def _prepare(
    blocks: Iterable[Mapping[str, npt.ArrayLike]],
    escape_formulas: bool | None,
    watched: Path | None,
) -> Iterator[dict[str, AnyArray]]:
    """Yield checked blocks of arrays, with formulas escaped; the first one in a ``watched`` file has a warning."""
    for columns in blocks:
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        if not arrays:
            raise InvalidInputError("No column is given to write; pass at least one.")
        if len({values.shape for values in arrays.values()}) > 1:
            sizes = listed([f"{name!r}: {values.shape}" for name, values in arrays.items()])
            raise InvalidInputError(f"The columns differ in shape ({sizes}); pass equal lengths.")
        if escape_formulas:
            arrays = {escape_cell(name): escape_cells(values) for name, values in arrays.items()}
        elif escape_formulas is None and watched is not None and _warn_of_formulas(watched, arrays):
            watched = None
        yield arrays


@contextmanager
def _standard_output() -> Iterator[IO[str]]:
    """Open standard output for UTF-8, as of a file, whatever the terminal's encoding."""
    text = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="", write_through=True)
    sys.stdout.flush()
    try:
        yield text
        text.flush()
    finally:
        text.detach()  # or it would close standard output with itself


def _warn_of_formulas(path: Path, arrays: dict[str, AnyArray]) -> bool:
    """Warn of texts that a spreadsheet would run; return whether there are any."""
    texts = (values.tolist() for values in arrays.values() if values.dtype.kind in "OUS")
    found = first_formula(chain(arrays, *texts))
    if found is not None:
        warn(
            TribitWarning(
                f"{printable(path.name)} holds texts that a spreadsheet runs as formulas, such as {quoted(found)}: if "
                f"it is meant for one, write it with {parameter('escape_formulas', True)}; "
                f"{parameter('escape_formulas', False)} says that it is not."
            ),
        )
    return found is not None


def first_formula(cells: Iterable[Any]) -> str | None:
    """Return a text among the cells that a spreadsheet would run, if there is one."""
    return next((cell for cell in cells if _is_formula(cell)), None)


def escape_cells(values: AnyArray) -> AnyArray:
    """Return the values with an apostrophe before each text that a spreadsheet would run."""
    if values.dtype.kind not in "OU":
        return values
    cells = [escape_cell(cell) for cell in values.tolist()]
    return np.fromiter(cells, dtype=object, count=len(cells))


def escape_cell(cell: object) -> Any:
    """Return a cell, with an apostrophe before it if it is a text that a spreadsheet would run."""
    return f"'{cell}" if _is_formula(cell) else cell


def _is_formula(cell: object) -> bool:
    return isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(cell)


def has_table_ending(path: PathLike) -> bool:
    """Return whether a file is named as a table that can be read, whatever is in it."""
    return _ending_before_gz(Path(path)) in FORMATS


def _ending_before_gz(path: Path) -> str:
    gzipped = path.suffix.lower() == ".gz"
    return (path.with_suffix("") if gzipped else path).suffix.lower()


def _ending(path: Path, formats: Mapping[str, Format], given: str | None) -> tuple[str, bool]:
    """Return the ending that decides the format, and whether ``.gz`` follows it."""
    gzipped = path.suffix.lower() == ".gz"
    if given is not None:
        return f".{given}", gzipped and formats[f".{given}"].is_text
    ending = _ending_before_gz(path)
    found = formats.get(ending)
    if found is None or (gzipped and not found.is_text):
        endings = [*formats, *(f"{end}.gz" for end, each in formats.items() if each.is_text)]
        otherwise = f", or pass {parameter('format')}" if formats is FORMATS else ""
        if formats is FORMATS and ending in CONVERSIONS:
            raise InvalidInputError(
                f"{quoted(path.name)} is no table that tribit reads; write one with: {CONVERSIONS[ending]}."
            )
        raise InvalidInputError(
            f"The name {quoted(path.name)} has no ending of a format; end it in one of {', '.join(endings)}{otherwise}."
        )
    return ending, gzipped
