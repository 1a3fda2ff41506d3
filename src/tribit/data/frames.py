"""Data frames with an observed entry in each row, as pandas, polars, pyarrow and others have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from tribit.data.axis import (
    AnyArray,
    eager_frame,
    factorize,
    frame_column,
    row_of_frame,
)
from tribit.data.ingest import Checked, entries_from_ids
from tribit.data.labels import PAIRS, TableCells, TextColumn, label_cells, normalise_word
from tribit.data.rules import TableRules, word_text
from tribit.data.times import datetimes_of_series, times_of_cells
from tribit.data.weights import check_scale_is_used
from tribit.errors import InvalidInputError, listed, parameter, printable, quoted

#: What messages call the frame.
NAME = "the frame"
#: Usual headings of columns of ids, without case, underscores and "id".
ID_HEADINGS = frozenset(
    {"row", "column", "user", "item", "movie", "film", "book", "song", "artist", "track"}
    | {"customer", "client", "person", "product", "thing", "article"}
)


#: Most columns of a frame that may have an entry in each row: ids, value, weight, time and the like.
MAX_LONG_COLUMNS = 8
#: Integers that count as ids have more different values than a scale of ratings, and larger ones.
MIN_DISTINCT_IDS, MIN_LARGEST_ID = 20, 100


def is_id_heading(text: str) -> bool:
    """Return whether a text is a usual heading of ids."""
    plain = text.casefold().replace("_", "").replace(" ", "").removesuffix("id")
    return plain.removesuffix("s") in ID_HEADINGS


def is_long_frame(X: object, rules: TableRules) -> bool:
    """Return whether X is a frame with the columns of ids that the rules name."""
    if rules.row is None or rules.column is None:
        return False
    frame = _frame_or_none(X)
    return frame is not None and {rules.row, rules.column} <= set(frame.collect_schema().names())


def _frame_or_none(X: object) -> nw.DataFrame[Any] | nw.LazyFrame[Any] | None:
    """Return a frame as narwhals sees it; None for anything else, and where columns share a name."""
    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError:
        return None
    return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None


def collect(X: object) -> object:
    """Return a lazy frame or a relation of a database as a frame in memory, and anything else as it is."""
    frame = _frame_or_none(X)
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else X


def check_no_long_frame(X: object, rules: TableRules) -> None:
    """Refuse a frame with an entry in each row, two of whose columns look like ids, where a matrix is expected."""
    frame = _frame_or_none(X)
    if not isinstance(frame, nw.DataFrame) or not 2 <= len(frame.columns) <= MAX_LONG_COLUMNS:
        return
    ids = [name for name in frame.columns if _looks_like_ids(str(name), frame.get_column(name))]
    if len(ids) < 2 or (len(ids) == len(frame.columns) and _are_words(frame, rules)):
        return
    others = [name for name in frame.columns if name not in ids[:2]]
    names = f"row={quoted(ids[0])}, column={quoted(ids[1])}"
    names += f", value={quoted(others[0])}" if others else ""
    raise InvalidInputError(
        f"X has the columns {listed(frame.columns)}, of which {quoted(ids[0])} and {quoted(ids[1])} look like ids: a "
        f"frame with an entry in each row is read by fit(X, {names}), or by Observations.from_frame; pass "
        "X.to_numpy() if it is a matrix."
    )


def _are_words(frame: nw.DataFrame[Any], rules: TableRules) -> bool:
    """Return whether each column has a word for a like or a dislike."""
    given = (*(rules.like or ()), *(rules.dislike or ())) or sum(PAIRS, ())
    words = {normalise_word(word, rules.mark) for word in given}
    return all(
        not words.isdisjoint(
            normalise_word(str(each), rules.mark) for each in set(column.to_list())
        )
        for column in frame.iter_columns()
    )


def _looks_like_ids(name: str, series: nw.Series[Any]) -> bool:
    """Return whether a column holds texts, or integers with a usual heading of ids or unlike any scale of ratings."""
    kind = series.dtype
    if kind in (nw.String, nw.Categorical, nw.Enum):
        return True
    if kind == nw.Object:
        return any(isinstance(each, str) for each in series.drop_nulls().head(1).to_list())
    if not kind.is_integer() or not len(series):
        return False
    if is_id_heading(name):
        return not bool(series.is_in([-1, 0, 1]).all())
    return series.max() > MIN_LARGEST_ID and series.n_unique() > MIN_DISTINCT_IDS


def as_frame(table: object) -> nw.DataFrame[Any]:
    """Return a table as an eager frame: frames, lazy ones and relations of a database, lists of dicts or of tuples.

    The columns of tuples are named by their numbers from 0.
    """
    if isinstance(table, dict):
        columns = table
    elif isinstance(table, list | tuple) and table and isinstance(table[0], dict):
        names = dict.fromkeys(name for record in table for name in record)
        columns = {name: [record.get(name) for record in table] for name in names}
    elif isinstance(table, list | tuple) and table and isinstance(table[0], tuple):
        if len({len(record) for record in table}) > 1:
            raise InvalidInputError("The tuples differ in length; give each the same fields.")
        columns = {str(place): list(each) for place, each in enumerate(zip(*table, strict=True))}
    else:
        frame = _frame_or_none(table)
        return frame.collect() if isinstance(frame, nw.LazyFrame) else eager_frame(table)
    try:
        return nw.from_dict(columns, backend="pyarrow")
    except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
        reason = printable(str(error).partition("\n")[0])
        raise InvalidInputError(
            f"The table is no frame ({reason}); give each column values of one type."
        ) from error


def entries_from_frame(frame: Any, rules: TableRules, weights: Any = None) -> Checked:
    """Read a frame with an entry in each row, from the columns that the rules name.

    ``weights`` has a weight for each row of the frame, where no column has.
    """
    if rules.row is None or rules.column is None:
        raise InvalidInputError(
            f"A frame with an entry in each row needs {parameter('row')} and {parameter('column')}, the names of its "
            "columns of ids."
        )
    native = as_frame(frame)
    if not len(native):
        raise InvalidInputError("No entry is observed; give at least one row of data.")
    names = rules.row, rules.column, rules.value
    weights, times = _weights_of_frame(native, rules, weights), _times_of_frame(native, rules)
    notes: tuple[str, ...] = ()
    kept = np.arange(len(native))
    if rules.missing == "skip":
        used = [name for name in (*names, rules.weight, rules.time) if name is not None]
        kept = np.flatnonzero(~_are_missing(native, used))
        n_lost = len(native) - kept.size
        native = native[kept.tolist()] if n_lost else native
        rows = "row was" if n_lost == 1 else "rows were"
        notes = (f"{NAME}: {n_lost} {rows} left out, without an id or a value.",) if n_lost else ()

    def where(position: int) -> str:
        return row_of_frame(int(kept[position]))

    row_ids = frame_column(native, rules.row, "row")
    column_ids = frame_column(native, rules.column, "column")
    texts = None
    if rules.value is not None:
        texts = text_column(frame_column(native, rules.value, "value"))
    cells = TableCells(row_ids, column_ids, texts, where, NAME, names, {}, notes, rules.value)
    cells = cells._replace(
        weights=None if weights is None else weights[kept],
        times=None if times is None else times[kept],
        time_column=rules.time,
    )
    cells, labels = label_cells(cells, rules, "long")
    numbers = cells.weight_numbers(rules.weight_scale, rules.mark)
    cells, moments = times_of_cells(cells)
    found = replace(rules, **cells.rules, notes=cells.notes, settled=True)
    return entries_from_ids(cells.rows, cells.columns, labels, found, cells.where, numbers, moments)


def _weights_of_frame(frame: nw.DataFrame[Any], rules: TableRules, weights: Any) -> Any:
    """Return the weight of each row, not checked; None without weights."""
    if rules.weight is not None and weights is not None:
        raise InvalidInputError(
            f"{parameter('weight', rules.weight)} and weights were both given; pass one of them."
        )
    check_scale_is_used(
        rules.weight_scale, weighted=rules.weight is not None or weights is not None
    )
    if rules.weight is not None and rules.missing == "skip" and rules.weight in frame.columns:
        return frame.get_column(rules.weight).to_numpy()  # some are left out
    if rules.weight is not None:
        return frame_column(frame, rules.weight, "weight")
    if weights is not None and np.shape(weights) != (len(frame),):
        raise InvalidInputError(
            f"weights has the shape {np.shape(weights)} for {len(frame)} rows of the frame; pass one weight for each."
        )
    return None if weights is None else np.asarray(weights)


def _times_of_frame(frame: nw.DataFrame[Any], rules: TableRules) -> AnyArray | None:
    """Return the time of each row, not parsed; None without times."""
    if rules.time is None:
        return None
    if rules.missing != "skip" or rules.time not in frame.columns:
        frame_column(frame, rules.time, "time")  # refuses missing times, and a missing column
    return datetimes_of_series(frame.get_column(rules.time))


def _are_missing(frame: nw.DataFrame[Any], names: list[str]) -> AnyArray:
    """Return which rows have no value in one of the columns."""
    missing = np.zeros(len(frame), dtype=bool)
    for name in names:
        if name in frame.columns:
            missing |= frame.get_column(name).is_null().to_numpy()
    return missing


def text_column(values: AnyArray) -> TextColumn:
    """Return numbers, booleans and words as a file would have them."""
    if values.dtype.kind in "biuf":
        distinct, codes = np.unique(values, return_inverse=True)
    else:
        codes, distinct = factorize(values, row_of_frame)
    texts = [word_text(each) or str(each) for each in distinct.tolist()]
    # Of different values one text may come, as of 1 and "1".
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    places = np.array([numbers[text] for text in texts], dtype=np.int64)
    return TextColumn(places[codes], numbers)
