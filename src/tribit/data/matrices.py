"""Sparse matrices in files as tables of entries: SciPy's ``.npz`` and Matrix Market's ``.mtx``.

The columns are ``row``, ``column`` and, unless every entry is a one by definition, ``value``. Rows and columns are
named by their positions from 0.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from typing import Any

import numpy as np

from tribit.data.axis import AnyArray, first_true
from tribit.data.ingest import check_shape
from tribit.data.labels import TextColumn, number_text
from tribit.data.sources import LineNumbers, Lines, Source, Table, check_size, column_places
from tribit.errors import InvalidInputError, listed, printable, quoted

COLUMNS = ("row", "column", "value")
#: Arrays in the file of each kind of sparse matrix that is read, besides its shape.
MEMBERS = {
    "csr": ("indptr", "indices", "data"),
    "csc": ("indptr", "indices", "data"),
    "coo": ("row", "col", "data"),
}
BANNER = re.compile(
    r"%%MatrixMarket\s+matrix\s+coordinate\s+(real|integer|double|pattern)\s+(general|symmetric)\s*",
    re.IGNORECASE,
)


def read_npz(source: Source, wanted: list[str] | None) -> Table:
    """Return the entries that :func:`scipy.sparse.save_npz` stored; pickled objects are refused."""
    try:
        with zipfile.ZipFile(source.path) as archive:
            # What is read of a member ends at the size that the archive says, so that the sum is the most there is.
            sizes = (each.file_size for each in archive.infolist())
            check_size(sum(sizes), source.limit, source.name)
            kind = _kind(_array(archive, "format"))
            if kind not in MEMBERS:
                raise InvalidInputError(
                    f"{source.name} holds a sparse matrix of the kind {quoted(kind)}; save it as one of "
                    f"{listed(list(MEMBERS))} (X.tocsr())."
                )
            shape = _array(archive, "shape")
            parts = [_array(archive, name) for name in MEMBERS[kind]]
    except InvalidInputError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        ValueError,
        NotImplementedError,  # a way of packing that Python does not know
        RuntimeError,  # a password
    ) as error:
        raise InvalidInputError(
            f"{source.name} could not be read as a sparse matrix ({printable(str(error))}); write it with "
            "scipy.sparse.save_npz."
        ) from error
    check_size(source.min_line_bytes * int(parts[2].size), source.limit, source.name)
    first, second, values = _triplets(kind, shape, parts, source.name)
    sides = (second, first) if kind == "csc" else (first, second)
    _check_distinct(*sides, source.name)
    return _table(source, wanted, [*map(_texts, sides), _texts(values)], None)


def read_mtx(source: Source, wanted: list[str] | None) -> Table:
    """Return the entries of a coordinate matrix, whose places are counted from 1 in the file."""
    with source.lines() as lines:
        records = lines.records()
        banner = BANNER.fullmatch(next(records, "").strip())
        if banner is None:
            raise InvalidInputError(
                f"line 1 of {source.name} does not say that it is a coordinate matrix of real, integer or pattern "
                "entries, general or symmetric; write it with scipy.io.mmwrite of a sparse matrix."
            )
        n_rows, n_columns, n_entries = _sizes(records, lines)
        check_size(source.min_line_bytes * n_entries, source.limit, source.name)
        is_pattern = banner[1].lower() == "pattern"
        entries, numbers = _entries(records, lines, 2 if is_pattern else 3)
    if len(numbers) != n_entries:
        raise InvalidInputError(
            f"{source.name} has {len(numbers)} entries where its line of sizes says {n_entries}; get it again."
        )
    table = np.array(entries, dtype=object).reshape(len(numbers), -1)
    where = np.array(numbers, dtype=np.int64)
    rows = _places(table[:, 0], n_rows, "row", where, source.name)
    columns = _places(table[:, 1], n_columns, "column", where, source.name)
    values = [] if is_pattern else [table[:, 2]]
    if banner[2].lower() == "symmetric":
        apart = np.flatnonzero(rows != columns)
        rows, columns = np.append(rows, columns[apart]), np.append(columns, rows[apart])
        values = [np.append(each, each[apart]) for each in values]
        where = np.append(where, where[apart])
    _check_distinct(rows, columns, source.name)
    return _table(
        source, wanted, [_texts(rows), _texts(columns), *map(TextColumn.of, values)], where
    )


def _table(
    source: Source, wanted: list[str] | None, parts: list[TextColumn], where: LineNumbers
) -> Table:
    columns = dict(zip(COLUMNS, parts, strict=False))
    chosen = column_places(list(columns), wanted, source.name)
    note = f"{source.name}: rows and columns are named by their positions, from 0."
    return Table(source.name, {name: columns[name] for name in chosen}, where, (note,))


def _array(archive: zipfile.ZipFile, name: str) -> AnyArray:
    """Return an array of the archive, no larger than the bytes that the archive has for it."""
    try:
        member = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise ValueError(f"it has no array {name!r}") from None
    with archive.open(member) as file:
        try:
            version = np.lib.format.read_magic(file)
            read_header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, _, dtype = read_header(file)
        except (
            Exception
        ) as error:  # the parsers of Python and NumPy that a header goes through raise many kinds
            raise ValueError(f"the array {name!r} has no header that can be read") from error
        if dtype.hasobject:
            raise ValueError(f"the array {name!r} holds Python objects")
        if len(shape) > 1:
            raise ValueError(f"the array {name!r} has the shape {shape}")
        content = file.read()
        size = int(np.prod(shape, dtype=object))
        if dtype.itemsize * size != len(content):
            raise ValueError(f"the array {name!r} is of another length than its header says")
    return np.frombuffer(content, dtype=dtype).reshape(shape)


def _kind(told: AnyArray) -> str:
    """Return the kind of a sparse matrix, which is bytes or text in the file."""
    value: Any = told.reshape(-1)[:1].tolist()
    if not value or not isinstance(value[0], str | bytes):
        raise ValueError("its array 'format' is no text")
    return value[0] if isinstance(value[0], str) else value[0].decode("ascii")


def _triplets(
    kind: str, shape: AnyArray, parts: list[AnyArray], name: str
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the places and values of entries: row and column, of csc column and row."""
    first, second, values = parts
    wrong = any(part.dtype.kind not in "iu" or part.ndim != 1 for part in (shape, first, second))
    if wrong or shape.size != 2 or values.dtype.kind not in "biuf" or values.ndim != 1:
        raise _damage_error(name)
    n_first, n_second = check_shape(shape.tolist())
    if kind == "csc":
        n_first, n_second = n_second, n_first
    if kind != "coo":
        # As Python's integers are compared, nothing overflows; after this, differences cannot either.
        steps = first.astype(np.int64)
        rises = steps.size == n_first + 1 and steps[0] == 0 and (steps[1:] >= steps[:-1]).all()
        if not rises or steps[-1] != second.size:
            raise _damage_error(name)
        first = np.repeat(np.arange(n_first), np.diff(steps))
    if not first.size == second.size == values.size:
        raise _damage_error(name)
    for places, size in ((first, n_first), (second, n_second)):
        if first_true((places < 0) | (places >= size)) is not None:
            raise _damage_error(name)
    return first, second, values


def _damage_error(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} holds places or values that do not make a sparse matrix of real numbers; write it again with "
        "scipy.sparse.save_npz."
    )


def _texts(values: AnyArray) -> TextColumn:
    """Return numbers as text; booleans as 0 and 1."""
    numbers = values.astype(np.int8) if values.dtype.kind == "b" else values
    distinct, codes = np.unique(numbers, return_inverse=True)
    return TextColumn(codes, map(number_text, distinct.tolist()))


def _sizes(records: Any, lines: Lines) -> tuple[int, int, int]:
    for line in records:
        if line.startswith("%") or not line.strip():
            continue
        sizes = line.split()
        if len(sizes) == 3 and all(each.isdecimal() and len(each) < 19 for each in sizes):
            n_rows, n_columns, n_entries = map(int, sizes)
            return (*check_shape((n_rows, n_columns)), n_entries)
        break
    raise InvalidInputError(
        f"line {lines.number} of {lines.name} is not three sizes (rows, columns, entries); check that the file is "
        "complete."
    )


def _entries(records: Any, lines: Lines, width: int) -> tuple[list[list[str]], list[int]]:
    entries, numbers = [], []
    shared: dict[str, str] = {}
    for line in records:
        fields = line.split()
        if not fields:
            continue
        if len(fields) != width:
            raise InvalidInputError(
                f"line {lines.number} of {lines.name} has {len(fields)} fields and not {width}; correct it."
            )
        entries.append([shared.setdefault(field, field) for field in fields])
        numbers.append(lines.number)
    return entries, numbers


def _places(texts: AnyArray, size: int, side: str, where: AnyArray, name: str) -> AnyArray:
    """Return places from 1 as numbers from 0."""
    numbers = dict.fromkeys(texts.tolist(), 0)
    for text in numbers:
        if not (text.isdecimal() and len(text) < 19 and 1 <= int(text) <= size):
            line = where[int(np.argmax(texts == text))]
            raise InvalidInputError(
                f"line {line} of {name}: the {side} {quoted(text)} is not between 1 and {size}; correct it."
            )
        numbers[text] = int(text) - 1
    return np.fromiter(map(numbers.__getitem__, texts.tolist()), np.int64, texts.size)


def _check_distinct(rows: AnyArray, columns: AnyArray, name: str) -> None:
    """Refuse places that are stored twice: libraries of matrices add those up."""
    order = np.lexsort((columns, rows))
    again = (np.diff(rows[order]) == 0) & (np.diff(columns[order]) == 0)
    if (position := first_true(again)) is not None:
        place = order[position]
        raise InvalidInputError(
            f"{name} stores row {rows[place]}, column {columns[place]} (from 0) twice; write it again after "
            "X.sum_duplicates()."
        )
