"""Checked entries of a matrix, of pairs of positions or of pairs of ids, in row-major order and without duplicates.

The arrays returned are referred to by nothing else. An error names the place of a wrong entry.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

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
    check_ids,
    check_no_booleans,
    factorize,
    first_true,
    frame_labels,
    quoted_id,
)
from tribit.data.labels import (
    MISSING,
    Duplicates,
    Labels,
    TextColumn,
    TextValues,
    are_missing,
    as_real,
    as_values,
    reads_as_number,
    value_labels,
)
from tribit.data.times import Times
from tribit.data.weights import Floats, check_scale_is_used, check_weights, weights_at
from tribit.data.zeros import Holder, Zeros, meaning_of_zero
from tribit.errors import InvalidInputError, InvalidTypeError, either, parameter, quoted

if TYPE_CHECKING:
    from tribit.data.rules import TableRules


class Checked(NamedTuple):
    """Entries in row-major order, each pair once: values, axes, the rules they were read by, weights and times."""

    rows: Positions
    columns: Positions
    values: AnyArray
    axes: Axes
    rules: TableRules | None = None
    weights: Floats | None = None
    times: Times | None = None

    def at(self, chosen: AnyArray | slice) -> Checked:
        """Return some of the entries."""
        return self._replace(
            rows=self.rows[chosen],
            columns=self.columns[chosen],
            values=self.values[chosen],
            weights=weights_at(self.weights, chosen),
            times=None if self.times is None else self.times[chosen],
        )


def without_zero_weights(entries: Checked) -> Checked:
    """Return the entries of a weight above 0."""
    if entries.weights is None or entries.weights.all():
        return entries
    return entries.at(entries.weights > 0)


def entries_from_matrix(
    X: Any, rules: TableRules, ambiguous: Zeros | None = None, weights: Any = None
) -> Checked:
    """Read likes and dislikes, or ratings, of a sparse or dense matrix, in which NaN is missing.

    ``ambiguous`` is as in :func:`tribit.data.zeros.meaning_of_zero`, ``weights`` a matrix of the same shape.
    """
    check_scale_is_used(rules.weight_scale, weighted=weights is not None or rules.settled)
    if (texts := _texts_of(X)) is not None:
        return _with_matrix_of_weights(_entries_from_texts(X, texts, rules), weights)
    cells = _matrix_cells(X)
    meaning = meaning_of_zero(
        cells.values,
        rules,
        holder=cells.holder,
        has_missing=cells.has_missing,
        name="X",
        ambiguous=ambiguous,
    )
    values, rows, columns, kept = cells.at(zeros=meaning.zeros != "unobserved")
    if not values.size:
        raise InvalidInputError("X has no observed entry; give it a +1 (like) or a -1 (dislike).")

    def where(position: int) -> str:
        return f"row {rows[position]}, column {columns[position]} of X"

    labels = value_labels(values, rules, meaning.zeros, where)
    observed = labels != 0
    notes = () if meaning.note is None else (meaning.note,)
    if not observed.all():
        n = int(np.count_nonzero(~observed))
        notes = (*notes, f"X: {n} of {n + int(observed.sum())} values were left out, as neutral.")
        if not observed.any():
            raise InvalidInputError(
                f"No value of X is a like or a dislike; check {parameter('like_at')}, {parameter('like')} and "
                f"{parameter('dislike')}."
            )
        labels, rows, columns = labels[observed], rows[observed], columns[observed]
        kept = kept[observed]
    found = replace(rules, zeros=meaning.zeros, notes=notes, settled=True)
    axes = Axes.of(cells.shape, *frame_labels(X))
    entries = Checked(rows.astype(np.int64), columns.astype(np.int64), labels, axes, found)
    return _with_matrix_of_weights(_in_order(entries, kept), weights)


def _with_matrix_of_weights(entries: Checked, weights: Any) -> Checked:
    """Return the entries with the weights that a matrix has at their positions, those of weight 0 left out."""
    rules = entries.rules
    assert rules is not None
    if weights is None:
        return entries
    shape = entries.axes.shape
    matrix = weights.tocsr() if sp.issparse(weights) else np.asarray(weights)
    if matrix.shape != shape:
        raise InvalidInputError(
            f"weights has the shape {matrix.shape} and X {shape}; pass the weight of each cell of X, or Observations "
            "with weights."
        )
    rows, columns = entries.rows, entries.columns
    here = np.asarray(matrix[rows, columns]).ravel()

    def where(position: int) -> str:
        return f"row {rows[position]}, column {columns[position]} of weights"

    return without_zero_weights(
        entries._replace(weights=check_weights(here, rows.size, where, rules.weight_scale))
    )


def _texts_of(X: Any) -> AnyArray | None:
    """Return a dense matrix of words, some of them missing; None for any other matrix."""
    if sp.issparse(X) or isinstance(X, np.ma.MaskedArray):
        return None
    try:
        array = np.asarray(X)
    except ValueError:
        return None
    if array.dtype.kind not in "OUT" or array.ndim != 2 or not array.size:
        return None
    if not all(isinstance(each, str) or str(each) in MISSING for each in array.flat):
        return None
    words = (str(each).strip() for each in array.flat)
    return (
        array if any(not reads_as_number(each) for each in words if each not in MISSING) else None
    )


def _entries_from_texts(X: Any, matrix: AnyArray, rules: TableRules) -> Checked:
    """Read likes and dislikes of a dense matrix of words, as a wide file is read."""
    texts = TextColumn.of([str(each).strip() for each in matrix.flat])
    kept = np.flatnonzero(~are_missing(texts))
    if not kept.size:
        raise InvalidInputError("X has no observed entry; give it a like or a dislike.")
    texts = texts.take(kept)
    rows, columns = np.unravel_index(kept, matrix.shape)
    axes = Axes.of(check_shape(matrix.shape), *frame_labels(X))

    def where(position: int) -> str:
        return f"row {rows[position]}, column {columns[position]} of X"

    values = TextValues(texts, where, "X", decimal=rules.mark)
    labels, found, notes = values.labels(rules, holder="dense", has_missing=kept.size < matrix.size)
    observed = labels != 0
    labelled = np.isin(columns, columns[observed])
    # Values that are in no column with a like or a dislike are ids, or are in the wrong place.
    strange = ~labelled & ~np.isin(texts.codes, texts.codes[labelled])
    if (position := first_true(strange)) is not None:
        raise InvalidInputError(
            f"The column {quoted_id(axes.columns.ids, columns[position])} of X has no like or dislike, but "
            f"{quoted(texts[position])}; ids of rows belong into the index of a pandas frame, by X.set_index."
        )
    given = replace(rules, **found, notes=tuple(notes), settled=True)
    return Checked(rows[observed], columns[observed], labels[observed], axes, given)


def measurements_from_matrix(X: Any) -> Checked:
    """Read the real values of a dense matrix, in which NaN is missing, or the stored ones of a sparse matrix."""
    cells = _matrix_cells(X)
    values, rows, columns, kept = cells.at(zeros=True)
    if not values.size:
        raise InvalidInputError("X has no observed entry; give it a value that is not NaN.")
    numbers = as_values(values, lambda p: f"row {rows[p]}, column {columns[p]} of X")
    axes = Axes.of(cells.shape, *frame_labels(X))
    return _in_order(Checked(rows.astype(np.int64), columns.astype(np.int64), numbers, axes), kept)


def _in_order(found: Checked, kept: AnyArray) -> Checked:
    # SciPy adds up what is stored twice, so that two equal labels do not agree on a third.
    return merge_duplicates(found, "error", lambda p: f"stored entry {kept[p]}", agreeing=False)


class _MatrixCells(NamedTuple):
    """Values of a matrix that are stored and not missing; ``places`` are those of a sparse one."""

    matrix: AnyArray
    values: AnyArray
    shape: tuple[int, int]
    holder: Holder
    has_missing: bool
    places: tuple[AnyArray, AnyArray] | None = None

    def at(self, *, zeros: bool) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        """Return values, rows and columns of the cells, with or without zeros, and their numbers as stored."""
        if self.places is not None:
            kept = np.arange(self.values.size) if zeros else np.flatnonzero(self.values)
            return self.values[kept], self.places[0][kept], self.places[1][kept], kept
        dense = self.matrix
        seen = ~np.isnan(dense) if self.has_missing else np.ones(dense.shape, dtype=bool)
        rows, columns = np.nonzero(seen if zeros else seen & (dense != 0))
        return dense[rows, columns], rows, columns, np.arange(rows.size)


def _matrix_cells(X: Any) -> _MatrixCells:
    if sp.issparse(X):
        stored = X.tocoo()
        values, shape = as_real(stored.data, "X"), check_shape(X.shape)
        # A stored NaN is kept here and refused among the values.
        return _MatrixCells(values, values, shape, "sparse", True, (stored.row, stored.col))
    dense = _dense(X)
    shape = check_shape(dense.shape)
    missing = np.isnan(dense)
    has_missing = bool(missing.any())
    values = dense[~missing] if has_missing else dense
    return _MatrixCells(dense, values, shape, "dense", has_missing)


def check_pairs(
    rows: npt.ArrayLike,
    columns: npt.ArrayLike,
    values: npt.ArrayLike,
    shape: tuple[int, int] | None,
    row_ids: Any,
    column_ids: Any,
) -> Checked:
    """Check the positions against each other, the values and the shape; duplicates and values are not checked."""
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
    return Checked(i.astype(np.int64), j.astype(np.int64), given, axes)


def entries_from_ids(
    row_ids: AnyArray | TextColumn,
    column_ids: AnyArray | TextColumn,
    labels: Labels | None,
    rules: TableRules,
    where: Where,
    weights: Floats | None = None,
    times: Times | None = None,
) -> Checked:
    """Count the ids in order of first appearance; without labels, every pair is a like.

    ``weights`` and ``times`` are checked; an entry of weight 0 and its ids are left out.
    """
    if not row_ids.size:
        raise InvalidInputError("No entry is observed; give at least one row of data.")
    if labels is None:
        labels = np.ones(row_ids.size, dtype=np.int8)
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        row_ids, column_ids = row_ids.take(kept), column_ids.take(kept)
        labels, weights, everywhere = labels[kept], weights[kept], where
        times = None if times is None else times[kept]

        def where(position: int) -> str:
            return everywhere(int(kept[position]))

    (rows, row_names), (columns, column_names) = (
        (ids.codes, ids.distinct) if isinstance(ids, TextColumn) else factorize(ids, where)
        for ids in (row_ids, column_ids)
    )
    row_names, column_names = (
        _checked_names(ids, names, f"The column {quoted(column)}" if column else "The table")
        for ids, names, column in (
            (row_ids, row_names, rules.row),
            (column_ids, column_names, rules.column),
        )
    )
    shape = check_shape((row_names.size, column_names.size))
    axes = Axes.of(shape, row_names, column_names)
    entries = Checked(rows, columns, labels, axes, rules, weights, times)
    return merge_duplicates(entries, rules.duplicates, where)


def _checked_names(ids: AnyArray | TextColumn, names: AnyArray, name: str) -> AnyArray:
    """Return the distinct ids of a column as the fit keeps them."""
    if not isinstance(ids, TextColumn):
        check_no_booleans(ids, names, name)
    return check_ids(names, name)


def merge_duplicates(
    entries: Checked, duplicates: Duplicates, where: Where, *, agreeing: bool = True
) -> Checked:
    """Sort the entries by row, then column, and leave one value for each pair.

    With "error" a pair that is given again with the same value is no error, unless ``agreeing`` is False. The weights
    of equal values are added up and the latest of their times is kept; "first" and "last" keep those of one record.
    """
    check_choice("duplicates", duplicates, get_args(Duplicates))
    rows, columns, values, axes, rules, weights, times = entries
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
        ballots = in_order if weights is None else in_order * weights[order]
        votes = np.add.reduceat(ballots, starts, dtype=np.int64 if weights is None else None)
        merged = np.where(votes == 0, merged, np.sign(votes)).astype(np.int8)
    total, latest = weights_at(weights, kept), None if times is None else times[kept]
    agrees = in_order == merged.repeat(ends - starts + 1)
    if weights is not None and duplicates in ("error", "majority"):
        total = np.add.reduceat(np.where(agrees, weights[order], 0.0), starts)
    if times is not None and duplicates in ("error", "majority"):
        earliest = times.min()
        latest = np.maximum.reduceat(np.where(agrees, times[order], earliest), starts)
    return Checked(rows[kept], columns[kept], merged, axes, rules, total, latest)


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


def _dense(X: Any) -> AnyArray:
    if isinstance(X, np.ma.MaskedArray):
        # Masked is unobserved; np.asarray would bring back what the mask hides.
        X = np.ma.filled(X.astype(np.float64), np.nan)
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidInputError(
            "The rows of X differ in length; pass a rectangular matrix with 0 or NaN for unobserved."
        ) from error
    return as_real(array, "X")
