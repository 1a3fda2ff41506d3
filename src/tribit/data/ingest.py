"""From what a user holds (a matrix, pairs, ids) to checked entries: arrays in, arrays out.

Every function here returns arrays that nothing else refers to, or raises one sentence that says
what is wrong, where, and what to do.
"""

from __future__ import annotations

import operator
import warnings
from math import isfinite
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from tribit.checks import check_choice
from tribit.data.ids import (
    AnyArray,
    Positions,
    Where,
    check_positions,
    distinct_ids,
    factorize,
    first_true,
    named,
)
from tribit.errors import InvalidInputError, InvalidTypeError, TribitWarning, either, parameter

Labels: TypeAlias = npt.NDArray[np.int8]
Duplicates: TypeAlias = Literal["error", "first", "last", "majority"]

LARGEST = int(np.iinfo(np.int64).max)


class Pairs(NamedTuple):
    """Entries as given, to be checked; without a shape, the ids or the positions imply it."""

    rows: npt.ArrayLike
    columns: npt.ArrayLike
    labels: npt.ArrayLike
    shape: tuple[int, int] | None
    row_ids: Any
    column_ids: Any


class Entries(NamedTuple):
    """Observed entries in row-major order, each pair once; the fields of ``Observations``."""

    rows: Positions
    columns: Positions
    labels: Labels
    shape: tuple[int, int]
    row_ids: AnyArray | None = None
    column_ids: AnyArray | None = None


def entries_from_matrix(X: Any, like_at: float | None) -> Entries:
    """Read a sparse or dense matrix, where 0, not stored or (dense) NaN means unobserved."""
    if sp.issparse(X):
        stored = X.tocoo()
        values, shape = _as_real(stored.data, "X"), check_shape(X.shape)
        # A stored NaN is not zero, so it is kept here and refused among the labels.
        kept = np.flatnonzero(values)
        values, rows, columns = values[kept], stored.row[kept], stored.col[kept]
    else:
        dense = _dense(X)
        shape = check_shape(dense.shape)
        rows, columns = np.nonzero((dense != 0) & ~np.isnan(dense))
        values, kept = dense[rows, columns], np.arange(rows.size)
    if not values.size:
        raise InvalidInputError("X has no observed entry; give it a +1 (like) or a -1 (dislike).")
    if values.dtype.kind == "b":
        values = values.astype(np.int8)
    labels = as_labels(values, like_at, lambda p: f"row {rows[p]}, column {columns[p]} of X")
    if not sp.issparse(X) and np.all(labels > 0):
        _warn_of_zeros(dense, like_at)
    entries = Entries(rows.astype(np.int64), columns.astype(np.int64), labels, shape)
    return merge_duplicates(entries, "error", lambda p: f"stored entry {kept[p]}")


def _warn_of_zeros(dense: AnyArray, like_at: float | None) -> None:
    """Warn where 0 may have been meant as a dislike: beside likes alone, where something else says unobserved."""
    zeros = int(np.count_nonzero(dense == 0))
    marked = like_at is not None or bool(np.isnan(dense).any())
    if zeros and marked:
        warnings.warn(
            f"X holds {zeros} zeros and no dislike: 0 was read as unobserved. Write dislikes as -1 if that is what the "
            "zeros are.",
            TribitWarning,
            stacklevel=5,
        )


def entries_from_pairs(pairs: Pairs, duplicates: Duplicates = "error") -> Entries:
    """Check the positions against each other and the shape, and the labels."""
    rows, columns, labels = (np.asarray(part) for part in pairs[:3])
    if rows.ndim != 1 or not rows.shape == columns.shape == labels.shape:
        raise InvalidInputError(
            f"The rows, columns and labels have the shapes {rows.shape}, {columns.shape} and "
            f"{labels.shape}; pass one-dimensional arrays of equal length."
        )
    if not rows.size:
        raise InvalidInputError("No entry is observed; pass at least one row, column and label.")
    n_rows, n_columns = (None, None) if pairs.shape is None else check_shape(pairs.shape)
    row_ids, n_rows = _axis(rows, pairs.row_ids, n_rows, "row")
    column_ids, n_columns = _axis(columns, pairs.column_ids, n_columns, "column")
    shape = check_shape((n_rows, n_columns))
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)
    labels = as_labels(labels, None, "position {}".format)
    entries = Entries(rows, columns, labels, shape, row_ids, column_ids)
    return merge_duplicates(entries, duplicates, "position {}".format)


def entries_from_ids(
    row_ids: AnyArray,
    column_ids: AnyArray,
    values: AnyArray | None,
    *,
    like_at: float | None,
    duplicates: Duplicates,
    where: Where,
) -> Entries:
    """Count the ids in order of first appearance; without values, every pair is a like."""
    if not row_ids.size:
        raise InvalidInputError("No entry is observed; give at least one row of data.")
    if values is None:
        if like_at is not None:
            raise InvalidInputError(
                f"{parameter('like_at')} needs {parameter('value')}, the name of the column that holds the ratings."
            )
        values = np.ones(row_ids.size, dtype=np.int8)
    rows, row_names = factorize(row_ids, where)
    columns, column_names = factorize(column_ids, where)
    shape = check_shape((row_names.size, column_names.size))
    labels = as_labels(values, like_at, where)
    entries = Entries(rows, columns, labels, shape, row_names, column_names)
    return merge_duplicates(entries, duplicates, where)


def as_labels(values: AnyArray, like_at: float | None, where: Where) -> Labels:
    """Return +1 or -1 per value: the value itself, or with ``like_at`` its side of that bar."""
    values = _as_real(values, "The list of values")
    if (position := first_true(~np.isfinite(values))) is not None:
        raise InvalidInputError(
            f"{where(position)}: the value {values.flat[position]} is not finite; "
            "leave the entry out if it is unobserved."
        )
    if like_at is not None:
        check_like_at(like_at)
        return np.where(values >= like_at, np.int8(1), np.int8(-1))
    if values.dtype.kind == "b":
        raise InvalidTypeError(
            "The labels are booleans, and False could mean disliked or unobserved; "
            "pass +1 for a like and -1 for a dislike."
        )
    if (position := first_true((values != 1) & (values != -1))) is not None:
        raise InvalidInputError(
            f"{where(position)}: the value {values.flat[position]} is neither +1 (like) nor -1 "
            f"(dislike); if these are ratings, pass {parameter('like_at')}"
            f"{either(' (for pairs: Observations.from_ratings)')}."
        )
    return values.astype(np.int8)


def check_like_at(like_at: Any) -> None:
    """Refuse a bar that is no finite number."""
    if not _is_finite_number(like_at):
        raise InvalidInputError(
            f"{parameter('like_at')} is {like_at!r}; pass the smallest rating that is a like, a finite number."
        )


def merge_duplicates(entries: Entries, duplicates: Duplicates, where: Where) -> Entries:
    """Sort the entries by row, then column, and leave one label for each pair."""
    check_choice("duplicates", duplicates, get_args(Duplicates))
    rows, columns, labels, shape, row_ids, column_ids = entries
    keys = rows * shape[1] + columns  # cannot overflow: check_shape has seen the shape
    if (keys[1:] > keys[:-1]).all():
        return entries
    order = np.argsort(keys, kind="stable")
    is_first = np.append(True, np.diff(keys[order]) != 0)
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], keys.size) - 1
    if duplicates == "error" and starts.size < keys.size:
        again = int(order[~is_first].min())
        before = int(np.argmax(keys == keys[again]))
        raise InvalidInputError(
            f"{where(before)} and {where(again)} both give row {named(row_ids, rows[again])}, "
            f"column {named(column_ids, columns[again])}; remove one, or say which to keep with "
            f"{parameter('duplicates')} (first, last or majority)"
            f"{either('; for a matrix use Observations.from_pairs')}."
        )
    kept = order[starts] if duplicates == "first" else order[ends]
    merged = labels[kept]
    if duplicates == "majority":
        votes = np.add.reduceat(labels[order], starts, dtype=np.int64)
        merged = np.where(votes == 0, merged, np.sign(votes)).astype(np.int8)
    return Entries(rows[kept], columns[kept], merged, shape, row_ids, column_ids)


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
    if n_rows * n_columns > LARGEST:
        raise InvalidInputError(
            f"A matrix of {n_rows} x {n_columns} has more entries than a 64-bit integer can count; "
            "number the rows and columns consecutively from 0."
        )
    return n_rows, n_columns


def _axis(
    positions: AnyArray, ids: Any, size: int | None, axis: str
) -> tuple[AnyArray | None, int]:
    names = None if ids is None else distinct_ids(ids, f"{axis}_ids")
    if size is None:
        check_positions(positions, LARGEST, axis)  # before the largest is made a size
        size = int(positions.max()) + 1 if names is None else names.size
    if names is not None and names.size != size:
        raise InvalidInputError(
            f"{axis}_ids has {names.size} ids for {size} {axis}s; pass one id per {axis}."
        )
    check_positions(positions, size, axis)
    return names, size


def _dense(X: Any) -> AnyArray:
    if isinstance(X, np.ma.MaskedArray):
        X = X.filled(0)  # masked is unobserved; np.asarray would bring back what the mask hides
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(
            "The rows of X differ in length; pass a rectangular matrix with 0 for unobserved."
        ) from error
    return _as_real(array, "X")


def _as_real(array: AnyArray, name: str) -> AnyArray:
    advice = "pass numbers, or use Observations.from_frame for a data frame with ids"
    if array.dtype.kind == "O" and not any(isinstance(item, str | bytes) for item in array.flat):
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(
                f"{name} holds something that is not a number ({error}); {advice}."
            ) from error
    if array.dtype.kind == "c":
        raise InvalidInputError(f"Complex data not supported: {name} is {array.dtype}; {advice}.")
    if array.dtype.kind not in "biuf":
        raise InvalidTypeError(f"{name} has the dtype {array.dtype}; {advice}.")
    return array


def _is_finite_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and isinstance(value, Real) and isfinite(value)
    except OverflowError:  # an integer may be too large to be a float
        return False
