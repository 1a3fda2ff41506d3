"""Tables of the user's own ids in files: delimited text, JSON lines, parquet and sparse matrices."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, Unpack

import numpy as np
import numpy.typing as npt

from tribit.data.axis import AnyArray
from tribit.data.files import atomic_path, checked_path, text_writer
from tribit.data.formats import FORMATS, Format, opened, read_source, written_as
from tribit.data.observations import Observations
from tribit.data.reading import Reading, Rules
from tribit.data.sources import PathLike, Table, is_standard
from tribit.errors import (
    InvalidInputError,
    TribitWarning,
    listed,
    parameter,
    printable,
    quoted,
    warn,
)

__all__ = ["FORMATS", "Format", "Table", "observations_from_file", "read_table", "write_table"]

#: First characters of a cell that a spreadsheet takes for a formula, in one of its languages or after trimming it.
STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Signed numbers, which are no formulas.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def first_formula(cells: Iterable[Any]) -> str | None:
    """Return a text among the cells that a spreadsheet would run, if there is one."""
    return next((cell for cell in cells if _is_formula(cell)), None)


def escaped(values: AnyArray) -> AnyArray:
    """Return the values with an apostrophe before each text that a spreadsheet would run."""
    if values.dtype.kind not in "OU":
        return values
    cells = [escaped_cell(cell) for cell in values.tolist()]
    return np.fromiter(cells, dtype=object, count=len(cells))


def escaped_cell(cell: Any) -> Any:
    """Return a cell, with an apostrophe before it if it is a text that a spreadsheet would run."""
    return f"'{cell}" if _is_formula(cell) else cell


def _is_formula(cell: Any) -> bool:
    return isinstance(cell, str) and cell.startswith(STARTS) and not NUMBER.fullmatch(cell)


def read_table(
    path: PathLike,
    columns: Sequence[str] | None = None,
    *,
    max_size: int | None = None,
    **text: Any,
) -> Table:
    """Read columns of a file as strings.

    Parameters
    ----------
    path : str or path-like
        ``.csv``, ``.tsv``, ``.txt``, ``.data``, ``.dat``, ``.jsonl``, ``.ndjson`` or ``.mtx``, each also with ``.gz``,
        ``.parquet`` or ``.npz`` (a sparse matrix); or ``-`` for standard input, as CSV. The delimiter of a text is the
        one under which its first lines are most like the table that is asked for: that of the ending, tab, comma,
        semicolon, ``|``, ``::`` or white space.
    columns : sequence of str, optional
        Names of the columns to read; all of them by default. If every name is a decimal number,
        a text file is taken to have no header and the numbers to be column positions from 0.
    max_size : int, optional
        As in :func:`observations_from_file`.
    **text
        ``format``, ``delimiter`` and ``encoding``, as in :class:`tribit.data.reading.Reading`.

    Returns
    -------
    Table
        Its strings have no white space around them, and a number of parquet or JSON is its decimal string,
        so that all kinds of file give the same ids.
    """
    wanted = None if columns is None else list(columns)
    rules = Reading(**text)
    known = {"ending": rules.format, "delimiter": rules.delimiter, "encoding": rules.encoding}
    with opened(path, max_size=max_size, **known) as (form, source):
        return read_source(form, source, wanted)


def observations_from_file(
    path: PathLike,
    *,
    max_size: int | None = None,
    **rules: Unpack[Rules],
) -> Observations:
    """Read observations from a file.

    What the file is left to tell is logged (``logging``, level INFO), and is in ``Reading(...).records(path).reading``.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`read_table` reads.
    max_size : int, optional
        The most bytes to read, counted when unpacked; in a parquet file each cell counts as 8 at least. By default
        200 times the size of the file, but no less than 32 MiB and no more than 4 GiB.
    **rules
        ``row``, ``column``, ``value``, ``like_at``, ``like``, ``dislike``, ``delimiter``, ``decimal``, ``encoding``,
        ``missing``, ``duplicates``, ``layout``, ``zeros`` and ``format``, as in :class:`tribit.data.reading.Reading`,
        which keeps them for further files.
    """
    return Reading(**rules).read(path, max_size=max_size)  # type: ignore[arg-type]


def write_table(
    path: PathLike,
    columns: Mapping[str, npt.ArrayLike],
    *,
    escape_formulas: bool | None = None,
) -> None:
    """Write columns of equal length to a file, whole or not at all.

    Parameters
    ----------
    path : str or path-like
        Its ending decides the format: ``.csv``, ``.tsv``, ``.jsonl`` or ``.ndjson``, each also with ``.gz``, or
        ``.parquet``. ``-`` is standard output, as CSV.
    columns : mapping of str to array-like
        The columns by name, in order.
    escape_formulas : bool, optional
        Whether to put an apostrophe before texts that a spreadsheet would run as formulas: those that begin with
        ``=``, ``+``, ``-``, ``@`` or white space and are no numbers. The ids written are then not those of the data any
        more, so that it is off by default; a CSV or TSV file with such texts has a warning, unless this is False.
    """
    to_output = is_standard(path)
    target = checked_path("standard output.csv" if to_output else path)
    form, gzipped = written_as(target)
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if not arrays:
        raise InvalidInputError("No column is given to write; pass at least one.")
    if len({values.shape for values in arrays.values()}) > 1:
        sizes = listed([f"{name!r}: {values.shape}" for name, values in arrays.items()])
        raise InvalidInputError(f"The columns differ in shape ({sizes}); pass equal lengths.")
    if escape_formulas:
        arrays = {escaped_cell(name): escaped(values) for name, values in arrays.items()}
    elif escape_formulas is None and form.for_spreadsheets and not to_output:
        _warn_of_formulas(target, arrays)
    write: Any = form.write
    try:
        if to_output:
            with _standard_output() as text:
                write(text, arrays)
        elif form.is_text:
            with atomic_path(target) as file, text_writer(file, gzipped=gzipped) as text:
                write(text, arrays)
        else:
            write(target, arrays)
    except UnicodeError as error:  # half of a surrogate pair, such as a file name may hold
        raise InvalidInputError(
            f"{quoted(target.name)} was not written, because a name or an id is no Unicode text (half of a surrogate "
            "pair); rename it."
        ) from error


@contextmanager
def _standard_output() -> Iterator[IO[str]]:
    """Open standard output for UTF-8, whatever the terminal's encoding is: what follows reads a file."""
    text = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="", write_through=True)
    sys.stdout.flush()
    try:
        yield text
        text.flush()
    finally:
        text.detach()  # or it would close standard output with itself


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
