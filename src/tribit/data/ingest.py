"""Checked entries of a matrix, of pairs of positions or of pairs of ids, in row-major order and without duplicates.

The arrays returned are referred to by nothing else. An error names the place of a wrong entry.
"""

from __future__ import annotations

import operator
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tribit.checks import check_choice
from tribit.data.axis import (
    MAX_ENTRIES,
    AnyArray,
    Axes,
    Axis,
    Positions,
    Where,
    factorize,
    frame_labels,
    quoted_id,
)
from tribit.data.labels import TextColumn, ValueReader, as_labels, as_real
from tribit.errors import (
    InvalidInputError,
    InvalidTypeError,
    TribitWarning,
    either,
    parameter,
    warn,
)

Duplicates: TypeAlias = Literal["error", "first", "last", "majority"]


class Checked(NamedTuple):
    """Entries in row-major order, each pair once, with their values and axes."""

    rows: Positions
    columns: Positions
    values: AnyArray
    axes: Axes


def entries_from_matrix(X: Any, read: ValueReader, *, zeros: bool = False) -> Checked:
    """Read a sparse or dense matrix, in which dense NaN means unobserved; 0 is a value only with ``zeros``."""
    if sp.issparse(X):
        stored = X.tocoo()
        values, shape = as_real(stored.data, "X"), check_shape(X.shape)
        # A stored NaN is not zero, so it is kept here and refused among the values.
        kept = np.arange(values.size) if zeros else np.flatnonzero(values)
        values, rows, columns = values[kept], stored.row[kept], stored.col[kept]
    else:
        dense = _dense(X, zeros)
        shape = check_shape(dense.shape)
        seen = ~np.isnan(dense)
        rows, columns = np.nonzero(seen if zeros else seen & (dense != 0))
        values, kept = dense[rows, columns], np.arange(rows.size)
    if not values.size:
        advice = "value that is not NaN" if zeros else "+1 (like) or a -1 (dislike)"
        raise InvalidInputError(f"X has no observed entry; give it a {advice}.")
    if values.dtype.kind == "b":
        values = values.astype(np.int8)
    axes = Axes.of(shape, *frame_labels(X))
    values = read(values, lambda p: f"row {rows[p]}, column {columns[p]} of X")
    found = Checked(rows.astype(np.int64), columns.astype(np.int64), values, axes)
    # SciPy adds up what is stored twice, so that two equal labels do not agree on a third.
    return merge_duplicates(found, "error", lambda p: f"stored entry {kept[p]}", agreeing=False)


def warn_of_zeros(X: object, like_at: float | None) -> None:
    """Warn where 0 in a dense matrix of likes may mean a dislike, since NaN or ratings mark the unobserved entries."""
    dense = _dense(X, False)
    zeros = int(np.count_nonzero(dense == 0))
    marked = like_at is not None or bool(np.isnan(dense).any())
    if zeros and marked:
        warn(
            f"X holds {zeros} zeros and no dislike: 0 was read as unobserved. If zeros are dislikes, write "
            "them as -1.",
            TribitWarning,
        )


def entries_from_pairs(
    rows: npt.ArrayLike,
    columns: npt.ArrayLike,
    values: npt.ArrayLike,
    shape: tuple[int, int] | None,
    row_ids: object,
    column_ids: object,
    read: ValueReader,
    duplicates: Duplicates = "error",
) -> Checked:
    """Check the positions against each other and the shape, and the values."""
    i, j, given = (np.asarray(part) for part in (rows, columns, values))
    if i.ndim != 1 or not i.shape == j.shape == given.shape:
        raise InvalidInputError(
            f"The rows, columns and values have the shapes {i.shape}, {j.shape} and "
            f"{given.shape}; pass one-dimensional arrays of equal length."
        )
    if not i.size:
        raise InvalidInputError("No entry is observed; pass at least one row, column and value.")
    n_rows, n_columns = (None, None) if shape is None else check_shape(shape)
    axes = Axes(Axis.of("row", i, row_ids, n_rows), Axis.of("column", j, column_ids, n_columns))
    check_shape(axes.shape)
    where = "position {}".format
    found = Checked(i.astype(np.int64), j.astype(np.int64), read(given, where), axes)
    return merge_duplicates(found, duplicates, where)


def entries_from_ids(
    row_ids: AnyArray | TextColumn,
    column_ids: AnyArray | TextColumn,
    values: AnyArray | None,
    *,
    like_at: float | None,
    duplicates: Duplicates,
    where: Where,
) -> Checked:
    """Count the ids in order of first appearance; without values, every pair is a like."""
    if not row_ids.size:
        raise InvalidInputError("No entry is observed; give at least one row of data.")
    if values is None:
        if like_at is not None:
            raise InvalidInputError(
                f"{parameter('like_at')} needs {parameter('value')}, the name of the column that holds the ratings."
            )
        values = np.ones(row_ids.size, dtype=np.int8)
    (rows, row_names), (columns, column_names) = (
        (ids.codes, ids.distinct) if isinstance(ids, TextColumn) else factorize(ids, where)
        for ids in (row_ids, column_ids)
    )
    shape = check_shape((row_names.size, column_names.size))
    axes = Axes.of(shape, row_names, column_names)
    found = Checked(rows, columns, as_labels(values, like_at, where), axes)
    return merge_duplicates(found, duplicates, where)


def merge_duplicates(
    entries: Checked, duplicates: Duplicates, where: Where, *, agreeing: bool = True
) -> Checked:
    """Sort the entries by row, then column, and leave one value for each pair.

    With "error" a pair that is given again with the same value is no error, unless ``agreeing`` is False.
    """
    check_choice("duplicates", duplicates, get_args(Duplicates))
    rows, columns, values, axes = entries
    keys = rows * axes.columns.size + columns  # cannot overflow: check_shape has seen the shape
    if (keys[1:] > keys[:-1]).all():
        return entries
    order = np.argsort(keys, kind="stable")
    is_first = np.append(True, np.diff(keys[order]) != 0)
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], keys.size) - 1
    in_order = values[order]
    wrong = in_order != in_order[starts].repeat(ends - starts + 1) if agreeing else ~is_first
    if duplicates == "error" and wrong.any():
        again = int(order[wrong].min())
        before = int(np.argmax(keys == keys[again]))
        raise InvalidInputError(
            f"{where(before)} and {where(again)} both give row {quoted_id(axes.rows.ids, rows[again])}, "
            f"column {quoted_id(axes.columns.ids, columns[again])}; remove one, or say which to keep with "
            f"{parameter('duplicates')} (first, last or majority)"
            f"{either('; for a matrix use Observations.from_pairs')}."
        )
    kept = order[starts] if duplicates == "first" else order[ends]
    merged = values[kept]
    if duplicates == "majority":
        votes = np.add.reduceat(in_order, starts, dtype=np.int64)
        merged = np.where(votes == 0, merged, np.sign(votes)).astype(np.int8)
    return Checked(rows[kept], columns[kept], merged, axes)


def check_shape(shape: Any) -> tuple[int, int]:
    """Return the shape as two Python integers whose product fits in 64 bits."""
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise InvalidTypeError(
            f"shape is {shape!r}; pass two integers, the numbers of rows and columns."
        ) from None
    # The next two errors use scikit-learn's words, which its users and its own checks know.
    if len(sizes) != 2:
        kind = f"{len(sizes)}D" if sizes else "scalar"
        raise InvalidInputError(
            f"Expected 2D array, got {kind} array instead (shape={sizes}): "
            "Reshape your data into rows and columns."
        )
    for size, kind in zip(sizes, ("sample", "feature"), strict=True):
        if size < 1:
            raise InvalidInputError(
                f"Pass at least one row and one column: found array with {size} {kind}(s) "
                f"(shape={sizes}) while a minimum of 1 is required."
            )
    n_rows, n_columns = sizes
    if n_rows * n_columns > MAX_ENTRIES:
        raise InvalidInputError(
            f"A matrix of {n_rows} x {n_columns} has more entries than a 64-bit integer can count; "
            "number the rows and columns consecutively from 0."
        )
    return n_rows, n_columns


def _dense(X: object, zeros: bool) -> AnyArray:
    if isinstance(X, np.ma.MaskedArray):
        # Masked is unobserved; np.asarray would bring back what the mask hides.
        X = np.ma.filled(X.astype(np.float64), np.nan) if zeros else X.filled(0)
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(
            "The rows of X differ in length; pass a rectangular matrix with 0 for unobserved."
        ) from error
    return as_real(array, "X")
