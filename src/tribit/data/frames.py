"""Data frames with an observed entry in each row, as pandas, polars, pyarrow and others have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from tribit.data.axis import (
    AnyArray,
    eager_frame,
    factorize,
    frame_column,
    row_of_frame,
)
from tribit.data.ingest import Checked, entries_from_ids
from tribit.data.labels import TextColumn
from tribit.data.records import TableCells, label_cells
from tribit.data.rules import TableRules, word_text
from tribit.errors import InvalidInputError, parameter

#: What messages call the frame.
NAME = "the frame"


def is_long_frame(X: Any, rules: TableRules) -> bool:
    """Return whether X is a frame with the columns of ids that the rules name."""
    if rules.row is None or rules.column is None or not hasattr(X, "columns"):
        return False
    try:
        names = list(nw.from_native(X).columns)
    except TypeError:
        return False
    return rules.row in names and rules.column in names


def entries_from_frame(frame: Any, rules: TableRules) -> Checked:
    """Read a frame with an entry in each row, from the columns that the rules name."""
    if rules.row is None or rules.column is None:
        raise InvalidInputError(
            f"A frame with an entry in each row needs {parameter('row')} and {parameter('column')}, the names of its "
            "columns of ids."
        )
    native = eager_frame(frame)
    if not len(native):
        raise InvalidInputError("No entry is observed; give at least one row of data.")
    names = rules.row, rules.column, rules.value
    notes: tuple[str, ...] = ()
    kept = np.arange(len(native))
    if rules.missing == "skip":
        kept = np.flatnonzero(~_are_missing(native, [name for name in names if name is not None]))
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
    cells, labels = label_cells(cells, rules, "long")
    found = replace(rules, **cells.rules, notes=cells.notes)
    return entries_from_ids(cells.rows, cells.columns, labels, found, cells.where)


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
