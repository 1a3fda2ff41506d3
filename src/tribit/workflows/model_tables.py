"""A table's records as places of a fitted model, whose ids may be text, numbers or bare positions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tribit.completion import BinaryMatrixCompletion
from tribit.data.axis import Positions, Where
from tribit.data.ingest import Checked, Duplicates, as_labels, merge_duplicates
from tribit.data.observations import Observations
from tribit.data.tables import Table, read_table
from tribit.errors import InvalidInputError, parameter
from tribit.quoting import quoted

PathLike: TypeAlias = str | os.PathLike[str]


def asked_rows(model: BinaryMatrixCompletion, only: Sequence[str] | None) -> Any:
    """Return the rows asked for as the model names them; ids on a command line are text."""
    axis = model._axes.rows
    known = axis.by_text()
    for name in only or ():
        if name not in known:
            raise InvalidInputError(
                f"The row id {quoted(name)} is not one the model was fitted on; check {parameter('only')}."
            )
    asked = range(axis.size) if only is None else [known[name] for name in only]
    return axis.names(np.array(asked, dtype=np.int64))


def known_entries(
    model: BinaryMatrixCompletion,
    path: PathLike,
    row: str,
    column: str,
    value: str | None,
    like_at: float | None,
    duplicates: Duplicates,
    *,
    skip_unknown: bool,
    max_size: int | None,
) -> tuple[Observations, int]:
    """Return a table's entries in the model's own rows and columns, and how many were left out."""
    wanted = [row, column] if value is None else [row, column, value]
    table = read_table(path, wanted, max_size=max_size)
    i, j, kept = known_positions(model, table, row, column, skip_unknown)
    labels = (
        np.ones(i.size)
        if value is None
        else as_labels(
            table.numbers(value)[kept],
            model.like_at if like_at is None else like_at,
            _kept_where(table, kept),
        )
    )
    entries = Checked(i, j, labels.astype(np.int8), model._axes)
    merged = merge_duplicates(entries, duplicates, _kept_where(table, kept))
    return Observations._trusted(merged), int(np.sum(~kept))


def column_names(
    model: BinaryMatrixCompletion, row: str | None, column: str | None, value: str | None
) -> tuple[str, str, str | None]:
    """Return the column names given, or those the model was fitted with."""
    fitted = model.names_ or (None, None, None)
    row, column = row or fitted[0], column or fitted[1]
    if row is None or column is None:
        raise InvalidInputError(
            "The model was not fitted from a file, so it knows no column names: pass "
            f"{parameter('row')} and {parameter('column')}."
        )
    return row, column, value or fitted[2]


def known_positions(
    model: BinaryMatrixCompletion, table: Table, row: str, column: str, skip_unknown: bool
) -> tuple[Positions, Positions, NDArray[np.bool_]]:
    """Return the model's positions of the table's ids, and which records (one at least) have two that it knows."""
    kept = np.ones(table.ids(row).size, dtype=bool)
    sides = []
    for name, axis in zip((row, column), model._axes, strict=True):
        # A file's ids are text; the model may have been fitted on numbers, or on bare positions.
        known = axis.by_text()
        places = np.array([known.get(key, -1) for key in table.ids(name)], dtype=np.int64)
        unknown = np.flatnonzero(places < 0)
        if unknown.size and not skip_unknown:
            first = int(unknown[0])
            raise InvalidInputError(
                f"{table.where(first)}: the id {quoted(table.ids(name)[first])} in column {quoted(name)} is not "
                f"one the model was fitted on; remove such records, or leave them out with "
                f"{parameter('skip_unknown', True)}."
            )
        kept &= places >= 0
        sides.append(places)
    if not kept.any():
        raise InvalidInputError(
            f"No entry of {table.name} has a row id and a column id that the model knows; "
            f"check {parameter('row')} and {parameter('column')}."
        )
    return sides[0][kept], sides[1][kept], kept


def _kept_where(table: Table, kept: NDArray[np.bool_]) -> Where:
    places = np.flatnonzero(kept)
    return lambda position: table.where(int(places[position]))
